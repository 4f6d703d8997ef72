package gateway

import (
	"parley/conversation"

	"github.com/gofiber/fiber/v2"
)

// guard checks Host and Origin on every route, before anything else happens.
func (s *Server) guard(c *fiber.Ctx) error {
	host := string(c.Context().Host())
	switch {
	case !s.hosts.knowsHost(host):
		s.refuseSocket(c)
		return conversation.Errorf(conversation.Forbidden, "this server is not called %q; see gateway.public_hosts", conversation.Excerpt(host, 80))
	case !s.hosts.admits(c.Get(fiber.HeaderOrigin), host):
		s.refuseSocket(c)
		return conversation.Errorf(conversation.Forbidden, "pages of %q may not use this server; see gateway.allowed_origins", conversation.Excerpt(c.Get(fiber.HeaderOrigin), 80))
	}
	return s.allowOrigin(c)
}

// allowOrigin lets a page of another, allowed origin read what it is answered
// (CORS), and answers the question that its browser asks first.
func (s *Server) allowOrigin(c *fiber.Ctx) error {
	c.Vary(fiber.HeaderOrigin)
	origin := c.Get(fiber.HeaderOrigin)
	if o, ok := parseOrigin(origin); !ok || !s.hosts.origins[o.String()] {
		return c.Next()
	}
	c.Set(fiber.HeaderAccessControlAllowOrigin, origin)
	c.Set(fiber.HeaderAccessControlExposeHeaders, "X-Request-Id, Location, Retry-After")
	if c.Method() == fiber.MethodOptions && c.Get(fiber.HeaderAccessControlRequestMethod) != "" {
		c.Set(fiber.HeaderAccessControlAllowMethods, "GET, HEAD, POST, PATCH, DELETE")
		c.Set(fiber.HeaderAccessControlAllowHeaders, "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id")
		c.Set(fiber.HeaderAccessControlMaxAge, "600")
		return c.SendStatus(fiber.StatusNoContent)
	}
	return c.Next()
}

func (s *Server) refuseSocket(c *fiber.Ctx) {
	if c.Path() == "/ws" {
		s.services.Metrics.Handshakes.WithLabelValues("forbidden").Inc()
	}
}
