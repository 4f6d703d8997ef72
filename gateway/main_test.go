package gateway_test

import (
	"testing"

	"parley/gateway/waystest"
)

// Every goroutine of the gateway has an owner: none is left when the tests end.
func TestMain(m *testing.M) { waystest.Main(m) }
