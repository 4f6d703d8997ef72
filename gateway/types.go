package gateway

import (
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/service"
	"parley/metrics"
)

// What a server is made of, under the names of this package.
type (
	Hub           = fanout.Hub
	Limits        = protocol.Limits
	Sessions      = service.Sessions
	Times         = service.Times
	Principal     = service.Principal
	Credential    = service.Credential
	Authenticator = service.Authenticator
	NoAuth        = service.NoAuth
)

// The scopes of protocol v1.
const (
	ScopeChat      = service.ScopeChat
	ScopeRuntime   = service.ScopeRuntime
	ScopeReadTools = service.ScopeReadTools
	ScopeAdmin     = service.ScopeAdmin
)

// NewHub makes an empty follow table. m may be nil.
func NewHub(m *metrics.Gateway) *Hub { return fanout.NewHub(m) }
