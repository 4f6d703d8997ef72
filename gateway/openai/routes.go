package openai

import (
	"parley/gateway/exchange"
	"parley/gateway/openai/internal/request"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// Register adds the routes.
func Register(x *exchange.Exchange, r fiber.Router) {
	a := &api{x}
	signed := x.Authenticated(service.ScopeChat)
	for _, route := range []struct {
		method, path string
		do           fiber.Handler
	}{
		{fiber.MethodPost, "/v1/responses", a.createResponse},
		{fiber.MethodGet, "/v1/responses", x.ServeSocket(nil, a.socket)},
		{fiber.MethodGet, "/v1/responses/:id", a.getResponse},
		{fiber.MethodDelete, "/v1/responses/:id", a.deleteResponse},
		{fiber.MethodPost, "/v1/responses/:id/cancel", a.cancelResponse},
		{fiber.MethodGet, "/v1/responses/:id/input_items", a.inputItems},
		{fiber.MethodPost, "/v1/conversations", a.createConversation},
		{fiber.MethodGet, "/v1/conversations/:id", a.getConversation},
		{fiber.MethodPost, "/v1/conversations/:id", a.updateConversation},
		{fiber.MethodDelete, "/v1/conversations/:id", a.deleteConversation},
		{fiber.MethodGet, "/v1/conversations/:id/items", a.listItems},
		{fiber.MethodPost, "/v1/conversations/:id/items", a.refused(request.ErrItems)},
		{fiber.MethodGet, "/v1/conversations/:id/items/:item", a.getItem},
		{fiber.MethodDelete, "/v1/conversations/:id/items/:item", a.refused(errNoDelete)},
		{fiber.MethodPost, "/v1/chat/completions", a.createCompletion},
		{fiber.MethodGet, "/v1/models", a.listModels},
		{fiber.MethodGet, "/v1/models/:model", a.getModel},
	} {
		r.Add(route.method, route.path, x.Named(route.path), problems(x), signed, route.do)
	}
}
