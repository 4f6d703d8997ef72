package rest

import (
	"bytes"
	"slices"
	"strings"

	"parley/conversation"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// The names of what is kept with a request.
const (
	LocalCredential = "credential"
	localPrincipal  = "principal"
	localRequestID  = "request_id"
)

// addressOf is the address of the client that a request comes from; what trusted proxies
// say of it counts.
func addressOf(s *service.Services, c *fiber.Ctx) string {
	forwarded := c.Request().Header.PeekAll(fiber.HeaderXForwardedFor)
	return s.ClientAddress(c.Context().RemoteIP().String(), string(bytes.Join(forwarded, []byte(","))))
}

// CredentialOf returns the credential that a request carries.
func CredentialOf(s *service.Services, c *fiber.Ctx) service.Credential {
	credential := service.Credential{Address: addressOf(s, c)}
	if scheme, token, ok := strings.Cut(c.Get(fiber.HeaderAuthorization), " "); ok && strings.EqualFold(scheme, "bearer") {
		credential.Token = strings.TrimSpace(token)
	}
	return credential
}

// authenticated lets a request through whose credential has one of the scopes.
func (s *API) authenticated(scopes ...string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		who, err := s.Auth.Authenticate(c.UserContext(), CredentialOf(s.Services, c))
		if err != nil {
			s.Log.Warn("authentication failed", "address", addressOf(s.Services, c), "code", string(s.Refusal(err).Code), "route", c.Path())
			return err
		}
		if !slices.ContainsFunc(scopes, who.May) {
			return conversation.Errorf(conversation.Forbidden, "this needs the scope %s", strings.Join(scopes, " or "))
		}
		if err := s.rates.take(c, who); err != nil {
			return err
		}
		c.Locals(localPrincipal, who)
		return c.Next()
	}
}

// principal returns the user whom a request speaks for.
func principal(c *fiber.Ctx) *service.Principal {
	who, _ := c.Locals(localPrincipal).(*service.Principal)
	return who
}
