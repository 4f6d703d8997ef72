package door

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
)

// AddressOf is the address of the client that a request comes from; what trusted proxies
// say of it counts.
func AddressOf(s *service.Services, c *fiber.Ctx) string {
	forwarded := c.Request().Header.PeekAll(fiber.HeaderXForwardedFor)
	return s.ClientAddress(c.Context().RemoteIP().String(), string(bytes.Join(forwarded, []byte(","))))
}

// CredentialOf returns the credential that a request carries.
func CredentialOf(s *service.Services, c *fiber.Ctx) service.Credential {
	credential := service.Credential{Address: AddressOf(s, c)}
	if scheme, token, ok := strings.Cut(c.Get(fiber.HeaderAuthorization), " "); ok && strings.EqualFold(scheme, "bearer") {
		credential.Token = strings.TrimSpace(token)
	}
	by, ok := s.Auth.(service.ByHeaders)
	if !ok || !s.Proxies.TrustsRemote(c.Context().RemoteIP().String()) {
		return credential
	}
	for _, name := range by.CredentialHeaders() {
		if credential.Headers == nil {
			credential.Headers = map[string]string{}
		}
		// A header that is there twice is one of the proxy and one of the client: joined in
		// this way they are nobody's id.
		credential.Headers[name] = string(bytes.Join(c.Request().Header.PeekAll(name), []byte{0}))
	}
	return credential
}

// TicketOf is CredentialOf for sockets and streams: a ticket counts there, and nowhere else.
func TicketOf(s *service.Services, c *fiber.Ctx) service.Credential {
	credential := CredentialOf(s, c)
	credential.Ticket = c.Query("ticket")
	return credential
}

// Authenticated lets a request through whose credential has one of the scopes, and whose body is
// not too large.
func (d *HTTP) Authenticated(scopes ...string) fiber.Handler {
	return d.AuthenticatedBy(CredentialOf, scopes...)
}

// AuthenticatedBy is Authenticated for another way to bring a credential: TicketOf.
func (d *HTTP) AuthenticatedBy(credential func(*service.Services, *fiber.Ctx) service.Credential, scopes ...string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if err := refuseTooLarge(c); err != nil {
			return err
		}
		who, err := d.Auth.Authenticate(c.UserContext(), credential(d.Services, c))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(scopes, who.May) {
			return conversation.Errorf(conversation.Forbidden, "this needs the scope %s", strings.Join(scopes, " or "))
		}
		if err := d.rates.take(c, who); err != nil {
			return err
		}
		c.Locals(localPrincipal, who)
		return c.Next()
	}
}

// Principal returns the user whom a request speaks for.
func Principal(c *fiber.Ctx) *service.Principal {
	who, _ := c.Locals(localPrincipal).(*service.Principal)
	return who
}
