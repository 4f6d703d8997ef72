package gateway

import (
	"strings"
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/attach"
	"parley/gateway/protocol"
	"parley/metrics"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// The HTTP library holds the body of a request in memory as a whole, and all other requests
// are small. So files have places: a request that uploads one gets its place, and more time,
// when its head has come, and gives it back when it is answered. Without a place nothing of
// its body is read.

// slowestUpload is how fast a file must come, in bytes per second.
const slowestUpload = 16 << 10

// uploads are the places.
type uploads struct {
	limits  protocol.Limits
	metrics *metrics.Gateway
	time    time.Duration // that one may take

	mu    sync.Mutex
	taken map[*fasthttp.RequestHeader]time.Time // until when
	full  map[*fasthttp.RequestHeader]bool      // got none
}

func newUploads(l protocol.Limits, m *metrics.Gateway) *uploads {
	return &uploads{
		limits: l, metrics: m, time: 15*time.Second + time.Duration(l.AttachmentBytes/slowestUpload)*time.Second,
		taken: map[*fasthttp.RequestHeader]time.Time{}, full: map[*fasthttp.RequestHeader]bool{},
	}
}

// begin is asked when the head of a request has come.
func (u *uploads) begin(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	path, _, _ := strings.Cut(string(h.RequestURI()), "?")
	if !attach.IsUpload(string(h.Method()), path) {
		return fasthttp.RequestConfig{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for other, until := range u.taken { // the library does not say of every connection that it has ended
		if now.After(until) {
			delete(u.taken, other)
		}
	}
	if len(u.taken) >= u.limits.UploadsAtOnce {
		u.full[h] = true
		return fasthttp.RequestConfig{MaxRequestBodySize: 1}
	}
	u.taken[h] = now.Add(u.time + time.Minute)
	return fasthttp.RequestConfig{MaxRequestBodySize: u.limits.AttachmentBytes, ReadTimeout: u.time}
}

// end gives a place back. full is true for a request that got none.
func (u *uploads) end(c *fiber.Ctx) (full bool) {
	h := &c.Context().Request.Header
	u.mu.Lock()
	defer u.mu.Unlock()
	full = u.full[h]
	delete(u.taken, h)
	delete(u.full, h)
	return full
}

// around is around every request that could be read.
func (u *uploads) around(c *fiber.Ctx) error {
	if !attach.IsUpload(c.Method(), c.Path()) {
		return c.Next()
	}
	defer u.end(c)
	return c.Next()
}

// problem answers a request that could not be read.
func (u *uploads) problem(other fiber.ErrorHandler) fiber.ErrorHandler {
	return func(c *fiber.Ctx, err error) error {
		if u.end(c) {
			u.metrics.Refused.WithLabelValues("uploads_at_once").Inc()
			busy := conversation.Errorf(conversation.Overloaded, "the server takes %d files at once; try again in a moment", u.limits.UploadsAtOnce)
			busy.RetryAfter = time.Second
			err = busy
		}
		return other(c, err)
	}
}
