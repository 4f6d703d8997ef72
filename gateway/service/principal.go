package service

import (
	"context"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/access"
)

// The scopes of protocol v1.
const (
	ScopeChat      = "chat"
	ScopeRuntime   = "runtime"
	ScopeReadTools = "read:tools"
	ScopeAdmin     = "admin"
	ScopeChats     = "chats" // to watch what happens in all chats of the tenant
)

// AllScopes are the scopes that there are.
func AllScopes() []string {
	return []string{ScopeChat, ScopeRuntime, ScopeReadTools, ScopeAdmin, ScopeChats}
}

// Principal is the user who speaks. It comes only from a credential.
type Principal struct {
	Tenant  conversation.TenantID
	User    conversation.UserID
	Name    string // what the user is called, for others; "" = by the user id alone
	Scopes  []string
	Expires time.Time // when the credential ends; zero = never

	// Credential says which key or token it was, without giving it away: for the audit log,
	// and to end what a revoked one has open. "" = none was needed.
	Credential string
}

// UserID is a user of all tenants.
type UserID struct {
	Tenant conversation.TenantID
	User   conversation.UserID
}

// ID says who the principal is, among the users of all tenants.
func (p *Principal) ID() UserID { return UserID{p.Tenant, p.User} }

// May is true when the principal has the scope.
func (p *Principal) May(scope string) bool { return slices.Contains(p.Scopes, scope) }

// LiftsCeilings is true when the principal may set policies above what is configured: an
// administrator who has shown that he is one. Without any sign-in everybody who reaches the
// server is the local user, and the operator has the configuration.
func (p *Principal) LiftsCeilings() bool { return p.May(ScopeAdmin) && p.Credential != "" }

// sees is true when the principal may see a session as a user of the server: it is
// theirs or the tenant's.
func (p *Principal) sees(row conversation.Summary) bool {
	return p.May(ScopeChat) && row.Role(p.User) != access.None
}

// serves is true when the principal is a runtime and the session one of those that
// runtimes answer.
func (p *Principal) serves(row conversation.Summary) bool {
	return p.May(ScopeRuntime) && row.Agent.Outside()
}

// SameScopes is true when both may do the same.
func (p *Principal) SameScopes(q *Principal) bool {
	return !slices.ContainsFunc(AllScopes(), func(scope string) bool {
		return p.May(scope) != q.May(scope)
	})
}

// KeepsFollowing is true when the scopes that are left to p still allow a follow that
// began as user, or as a runtime: "". One whose own proof has gone begins anew, if
// another one allows it.
func (p *Principal) KeepsFollowing(key conversation.SessionKey, user conversation.UserID) bool {
	switch {
	case key.Session.Depth() > 0 && p.Redact(): // a delegation's session is what a tool was told and said
		return false
	case user == "":
		return p.May(ScopeRuntime)
	default:
		return p.May(ScopeChat)
	}
}

// Redact is true when calls' arguments and results must not be shown.
func (p *Principal) Redact() bool { return !p.May(ScopeReadTools) }

// Credential holds the proof of identity that a client brings. Tokens never appear in logs.
type Credential struct {
	Token   string // from hello, or "Authorization: Bearer"; "" = none
	Ticket  string // from ?ticket= of a socket or a stream; counts only without a token
	Address string // the client's network address, for an audit line
	Trace   string // the TraceHeader of a socket's handshake; "" = none

	// Headers are those that CredentialHeaders names, of a request that a trusted proxy has
	// made; nil = it was another's.
	Headers map[string]string
}

// ByHeaders is an Authenticator that reads headers of trusted proxies.
type ByHeaders interface {
	CredentialHeaders() []string
}

// TicketMaker is an Authenticator that makes tickets.
type TicketMaker interface {
	// Ticket makes a ticket for p. It fails with rate_limited and unavailable.
	Ticket(ctx context.Context, p *Principal) (ticket string, expires time.Time, err error)
}

// Authenticator turns credentials into principals.
type Authenticator interface {
	// Mode is auth.mode: "none", "keys", "jwt", "proxy".
	Mode() string
	// Authenticate fails with unauthenticated, token_expired or forbidden.
	Authenticate(ctx context.Context, c Credential) (*Principal, error)
}

// NoAuth is auth.mode=none: all who reach the server are the user "local" with
// every scope: the local user administers as well. New accepts it only on a loopback address.
type NoAuth struct{}

// Mode implements Authenticator.
func (NoAuth) Mode() string { return "none" }

// Authenticate implements Authenticator. Credentials are ignored.
func (NoAuth) Authenticate(context.Context, Credential) (*Principal, error) {
	return &Principal{
		Tenant: "default", User: "local",
		Scopes: AllScopes(),
	}, nil
}
