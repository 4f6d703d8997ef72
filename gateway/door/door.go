package door

import (
	"errors"
	"strconv"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// HTTP is what the ways in over HTTP share. It may be used from any goroutine.
type HTTP struct {
	*service.Services
	open  *service.Slots // streams, and requests that wait
	rates *rates
}

// New makes the door of a server. There is one, whatever enters through it: its limits count
// all streams and requests together.
func New(s *service.Services) *HTTP {
	return &HTTP{Services: s, open: service.NewSlots(), rates: newRates(s)}
}

// Named gives a route its name in the metrics.
func (d *HTTP) Named(path string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		c.Locals(LocalRoute, path)
		return c.Next()
	}
}

// LocalRoute is the name under which a request keeps its route.
const LocalRoute = "route"

// Refused is an error as a client may see it, with its status of HTTP. The HTTP library's own
// errors count, too.
func (d *HTTP) Refused(err error) (e *conversation.Error, status int) {
	var library *fiber.Error
	if errors.As(err, &library) {
		code, sentence := protocol.CodeOf(library.Code)
		return &conversation.Error{Code: code, Message: sentence}, library.Code
	}
	e = d.Refusal(err)
	return e, protocol.StatusOf(e.Code)
}

// SetRefusal sets the status of an answer that refuses, and what headers say of it: when to come
// again (after wait, if that is known), and how one signs in.
func SetRefusal(c *fiber.Ctx, status int, wait time.Duration) {
	c.Status(status)
	switch {
	case wait > 0:
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	case status == fiber.StatusTooManyRequests || status == fiber.StatusServiceUnavailable:
		c.Set(fiber.HeaderRetryAfter, "1")
	case status == fiber.StatusUnauthorized:
		c.Set(fiber.HeaderWWWAuthenticate, "Bearer")
	}
}
