package auth

import (
	"context"
	"strings"

	"parley/conversation"
	"parley/gateway/service"
)

var _ service.ByHeaders = (*Proxy)(nil)

// Proxy is auth.mode = "proxy": a proxy that has asked who somebody is says so in a
// header. What another address than a trusted proxy's sends does not count.
type Proxy struct{ c SignIn }

// NewProxy prepares the mode.
func NewProxy(c SignIn) *Proxy { return &Proxy{c} }

// Mode implements service.Authenticator.
func (*Proxy) Mode() string { return ModeProxy }

// CredentialHeaders implements service.ByHeaders.
func (p *Proxy) CredentialHeaders() (names []string) {
	for _, name := range []string{p.c.UserHeader, p.c.TenantHeader, p.c.ScopesHeader, p.c.NameHeader} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Authenticate implements service.Authenticator.
func (p *Proxy) Authenticate(_ context.Context, c service.Credential) (*service.Principal, error) {
	if c.Headers == nil {
		return nil, &conversation.Error{Code: conversation.Unauthenticated, Message: "sign in at the proxy before this server: it does not talk to anybody else"}
	}
	user := c.Headers[p.c.UserHeader]
	if user == "" {
		return nil, &conversation.Error{Code: conversation.Unauthenticated, Message: "sign in: the proxy does not say who you are"}
	}
	said := claims{user: user, name: c.Headers[p.c.NameHeader], tenant: p.c.Tenant, scopes: p.c.Scopes}
	if p.c.TenantHeader != "" {
		said.tenant = c.Headers[p.c.TenantHeader]
	}
	if p.c.ScopesHeader != "" {
		said.scopes = splitScopes(c.Headers[p.c.ScopesHeader])
	}
	who, err := said.principal()
	if err != nil {
		return nil, err
	}
	who.Credential = "proxy"
	return who, nil
}

// splitScopes reads scopes with spaces or commas between them; those that are not ours
// are another program's.
func splitScopes(s string) (scopes []string) {
	for _, scope := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' }) {
		if checkScopes([]string{scope}) == nil {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// claims are what somebody else says of a user.
type claims struct {
	tenant, user, name string
	scopes             []string
}

func (c claims) principal() (*service.Principal, error) {
	for what, id := range map[string]string{"the tenant": c.tenant, "the user": c.user} {
		if err := CheckID(what, id); err != nil {
			return nil, &conversation.Error{Code: conversation.Unauthenticated, Message: "the sign-in cannot be used: " + err.Error()}
		}
	}
	return &service.Principal{
		Tenant: conversation.TenantID(c.tenant), User: conversation.UserID(c.user), Name: cleanName(c.name), Scopes: c.scopes,
	}, nil
}
