package rest

import (
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

// CredentialOf returns the credential that a request carries.
func CredentialOf(c *fiber.Ctx) service.Credential {
	credential := service.Credential{Address: c.IP()}
	if scheme, token, ok := strings.Cut(c.Get(fiber.HeaderAuthorization), " "); ok && strings.EqualFold(scheme, "bearer") {
		credential.Token = strings.TrimSpace(token)
	}
	return credential
}

// authenticated lets a request through whose credential has one of the scopes.
func (s *API) authenticated(scopes ...string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		who, err := s.Auth.Authenticate(c.UserContext(), CredentialOf(c))
		if err != nil {
			s.Log.Warn("authentication failed", "address", c.IP(), "code", string(s.Refusal(err).Code), "route", c.Path())
			return err
		}
		if !slices.ContainsFunc(scopes, who.May) {
			return conversation.Errorf(conversation.Forbidden, "this needs the scope %s", strings.Join(scopes, " or "))
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
