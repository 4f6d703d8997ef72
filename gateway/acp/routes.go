package acp

import (
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// Register adds the routes.
func Register(x *exchange.Exchange, r fiber.Router) {
	r.Get("/acp", x.Named("/acp"), x.Authenticated(service.ScopeChat), x.ServeSocket(nil, func(s *door.Socket) {
		newConn(x, s).serve()
	}))
}
