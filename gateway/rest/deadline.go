package rest

import (
	"net"
	"time"

	"parley/gateway/service"

	"github.com/valyala/fasthttp"
)

// An answer that nobody takes is memory that nobody gets back. The HTTP library has one
// write timeout for all answers, which would cut streams, so each answer gets a
// deadline of its own, by its size.

// limitWrite gives the client of an answer with size bytes time to take it.
func limitWrite(s *service.Services, conn net.Conn, size int) {
	if conn == nil {
		return
	}
	seconds := float64(size) / float64(s.Limits.WriteBytesPerSecond)
	_ = conn.SetWriteDeadline(s.Now().Add(s.Times.Write + time.Duration(seconds*float64(time.Second))))
}

// limitAnswer limits the writing of an answer that is ready. A stream sets deadlines of
// its own, for each thing that it writes.
func limitAnswer(s *service.Services, ctx *fasthttp.RequestCtx) {
	if size, sized := ctx.UserValue(localSize).(int); sized {
		limitWrite(s, ctx.Conn(), size)
		return
	}
	if ctx.Response.IsBodyStream() {
		_ = ctx.Conn().SetWriteDeadline(time.Time{})
		return
	}
	limitWrite(s, ctx.Conn(), len(ctx.Response.Body()))
}

// Expect answers a request that asks whether it may send its body: it may. The deadline
// of the answer before, which has passed by now, must not meet this one.
func Expect(s *service.Services) func(*fasthttp.RequestCtx) int {
	return func(ctx *fasthttp.RequestCtx) int {
		limitWrite(s, ctx.Conn(), 0)
		return fasthttp.StatusContinue
	}
}
