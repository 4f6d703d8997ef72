package ws

import (
	"maps"
	"slices"

	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// errRightsChanged answers for a command that a change of the user's scopes met half way.
var errRightsChanged = &conversation.Error{Code: conversation.Forbidden, Message: "the scopes of this connection have changed meanwhile"}

// leaseEnded ends the connection: its credential has expired or was taken back.
func (c *handler) leaseEnded(why *conversation.Error) {
	if why.Code == conversation.TokenExpired {
		c.close(protocol.CloseTokenExpired, why.Message)
	} else {
		c.close(protocol.CloseUnauthenticated, why.Message)
	}
}

// rightsChanged applies the scopes that a refresh has brought to what is followed and
// waited for: before the refresh is answered, so that behind the answer nothing comes that
// they do not allow.
func (c *handler) rightsChanged() {
	c.rights.Add(1)
	c.mu.Lock()
	follows := slices.Collect(maps.Values(c.follows))
	endClaim := c.endClaim
	c.mu.Unlock()
	if endClaim != nil && !c.who.May(service.ScopeRuntime) {
		endClaim()
	}
	if !c.who.May(service.ScopeChat) {
		c.takeList(nil).end()
	}
	if !c.who.May(service.ScopeChats) {
		c.endChats()
	}
	for _, f := range follows {
		if c.who.KeepsFollowing(f.Key(), f.As()) {
			f.SetRedact(c.who.Redact())
		} else {
			f.End(fanout.ReasonForbidden)
		}
	}
}
