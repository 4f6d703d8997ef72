package rest

import (
	"parley/conversation"
	"parley/gateway/admin"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
)

// livez says that the process runs, readyz that it wants work.
func (s *API) livez(c *fiber.Ctx) error {
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { o.Text("status", "alive") })
}

func (s *API) readyz(c *fiber.Ctx) error {
	if s.Connections.Draining() {
		return service.ErrDraining
	}
	if err := s.Sessions.Ready(); err != nil {
		e := s.Refusal(err)
		return &conversation.Error{Code: conversation.Unavailable, Message: e.Message, Err: e.Err}
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) {
		if s.Sessions.Health() == nil {
			o.Text("status", "ready")
			return
		}
		// It still wants work: most sessions can be served, and another process on the
		// same store would be no better. What is wrong may name files: the log has it.
		o.Text("status", "degraded")
		o.Text("reason", "something that is stored cannot be read: see the server's log")
	})
}

func (s *API) version(c *fiber.Ctx) error {
	return reply(c, fiber.StatusOK, func(o *protocol.Object) {
		o.Text("name", "parley")
		o.Text("version", s.Services.Version)
		o.Text("node", string(s.Node))
		o.Text("model", s.Model)
		o.Int("proto", 1)
	})
}

// administration serves the operator's routes on the main address as well. Where users sign
// in, they need a key with the scope admin, and there are no backups: an administrator of one
// tenant must not copy all of them, to a place of the server's machine.
func (s *API) administration(routes *admin.Routes, guard admin.Guard) {
	handler := adaptor.HTTPHandler(routes.Handler(guard, s.Auth.Mode() != "none"))
	open := func(c *fiber.Ctx) error {
		c.Response().Header.Del(fiber.HeaderContentSecurityPolicy) // pprof's index has a style of its own
		return handler(c)
	}
	for _, r := range []struct{ method, path string }{
		{fiber.MethodGet, "/metrics"}, {fiber.MethodPost, "/admin/backup"}, {fiber.MethodGet, "/debug/pprof/*"},
	} {
		if routes.Has(r.path) && (r.path != "/admin/backup" || s.Auth.Mode() == "none") {
			s.route(r.method, r.path, open)
		}
	}
}
