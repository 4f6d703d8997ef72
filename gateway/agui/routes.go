package agui

import (
	"parley/gateway/exchange"

	"github.com/gofiber/fiber/v2"
)

// Register adds the routes.
func Register(x *exchange.Exchange, r fiber.Router) {
	_, _ = x, r
}
