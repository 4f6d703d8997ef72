package gateway

import (
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/service"
	"parley/metrics"
)

// Hub brings what happens in sessions to those who follow them.
type Hub = fanout.Hub

// Limits bounds what one client may take.
type Limits = protocol.Limits

// Sessions is the engine as the gateway sees it.
type Sessions = service.Sessions

// Times holds the gateway's time limits.
type Times = service.Times

// Backup makes a copy of the store.
type Backup = service.Backup

// BackupMade is what a backup holds.
type BackupMade = service.BackupMade

// Audit keeps what administrators do.
type Audit = service.Audit

// Inlet takes what a chat platform brings by HTTP.
type Inlet = service.Inlet

// InletRequest is a request of a platform.
type InletRequest = service.InletRequest

// InletAnswer is what the platform is answered.
type InletAnswer = service.InletAnswer

// Principal is the user who speaks: a user of a tenant, with scopes.
type Principal = service.Principal

// Credential holds the proof of identity that a client brings.
type Credential = service.Credential

// Authenticator makes a principal of a credential.
type Authenticator = service.Authenticator

// NoAuth takes everybody for the one local user.
type NoAuth = service.NoAuth

// The scopes of protocol v1.
const (
	ScopeChat      = service.ScopeChat
	ScopeRuntime   = service.ScopeRuntime
	ScopeReadTools = service.ScopeReadTools
	ScopeAdmin     = service.ScopeAdmin
	ScopeChats     = service.ScopeChats
)

// NewHub makes an empty follow table. m may be nil.
func NewHub(m *metrics.Gateway) *Hub { return fanout.NewHub(m) }
