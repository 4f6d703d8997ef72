package ws

import (
	"context"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// claim hands messages to a runtime, or waits for some: one claim at a time on a
// connection, whose end takes it along. What it was handed by then, its next claim
// gets again.
func (c *handler) claim(p responder, _ conversation.SessionKey, data []byte) {
	request, bad := protocol.ReadClaim(data)
	if bad != nil {
		p.fail(bad)
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, request.Wait+c.Times.Request)
	if !c.beginClaim(cancel) {
		cancel()
		p.fail(conversation.Errorf(conversation.Conflict, "a claim waits on this connection already"))
		return
	}
	request.Tenant = c.who.Tenant
	rights := c.rights.Load()
	c.spawn(func() {
		defer cancel()
		items, err := c.Sessions.Claim(ctx, request)
		c.claimEnded() // before the answer: who has it may claim again
		switch {
		case err != nil && c.ctx.Err() != nil:
			p.fail(service.ErrDraining) // the connection ends; nobody reads it
		case err != nil && c.rights.Load() != rights:
			p.fail(errRightsChanged)
		case err != nil:
			p.fail(err)
		default:
			p.ok(func(o *protocol.Object) { protocol.AppendClaimed(o, items) })
		}
	})
}

// beginClaim notes a claim that waits; false = one does already.
func (c *handler) beginClaim(end context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endClaim != nil {
		return false
	}
	c.endClaim = end
	return true
}

func (c *handler) claimEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endClaim = nil
}
