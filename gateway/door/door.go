package door

import (
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
