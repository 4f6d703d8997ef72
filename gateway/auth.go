package gateway

import (
	"strings"

	"parley/conversation"

	"github.com/gofiber/fiber/v2"
)

// The names of what is kept with a request.
const (
	localCredential = "credential"
	localPrincipal  = "principal"
	localRequestID  = "request_id"
)

// credentialOf is what a request brings to say who it is.
func credentialOf(c *fiber.Ctx) Credential {
	credential := Credential{Address: c.IP(), Ticket: c.Query("ticket")}
	if scheme, token, ok := strings.Cut(c.Get(fiber.HeaderAuthorization), " "); ok && strings.EqualFold(scheme, "bearer") {
		credential.Token = strings.TrimSpace(token)
	}
	return credential
}

// authenticated lets a request through whose credential is good for scope.
func (s *Server) authenticated(scope string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		who, err := s.auth.Authenticate(c.UserContext(), credentialOf(c))
		if err != nil {
			s.log.Warn("authentication failed", "address", c.IP(), "code", string(s.refusal(err).Code), "route", c.Path())
			return err
		}
		if !who.May(scope) {
			return conversation.Errorf(conversation.Forbidden, "this needs the scope %s", scope)
		}
		c.Locals(localPrincipal, who)
		return c.Next()
	}
}

// principal is who a request speaks for.
func principal(c *fiber.Ctx) *Principal {
	who, _ := c.Locals(localPrincipal).(*Principal)
	return who
}

// guard checks Host and Origin on every route, before anything else happens.
func (s *Server) guard(c *fiber.Ctx) error {
	host := string(c.Context().Host())
	switch {
	case !s.door.knowsHost(host):
		s.refuseSocket(c)
		return conversation.Errorf(conversation.Forbidden, "this server is not called %q; see gateway.public_hosts", conversation.Excerpt(host, 80))
	case !s.door.admits(c.Get(fiber.HeaderOrigin), host):
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
	if o, ok := parseOrigin(origin); !ok || !s.door.origins[o.String()] {
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
		s.m.Handshakes.WithLabelValues("forbidden").Inc()
	}
}
