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
	if bad == nil && !c.claiming.CompareAndSwap(false, true) {
		bad = conversation.Errorf(conversation.Conflict, "a claim waits on this connection already")
	}
	if bad != nil {
		p.fail(bad)
		return
	}
	request.Tenant = c.who.Tenant
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, request.Wait+c.Times.Request)
		defer cancel()
		items, err := c.Sessions.Claim(ctx, request)
		c.claiming.Store(false) // before the answer: who has it may claim again
		switch {
		case err != nil && c.ctx.Err() != nil:
			p.fail(service.ErrDraining) // the connection ends; nobody reads it
		case err != nil:
			p.fail(err)
		default:
			p.ok(func(o *protocol.Object) { protocol.AppendClaimed(o, items) })
		}
	})
}
