package gateway_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine of the gateway has an owner: none is left when the tests end.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's clock for Date headers and its idle worker pools, once a process.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/gofiber/fiber/v2/utils.StartTimeStampUpdater.func1.1"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	)
}
