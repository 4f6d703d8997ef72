package ws

import (
	"context"

	"parley/conversation"
	"parley/gateway/list"
	"parley/gateway/protocol"
)

// watchList begins a watch of the user's list of sessions, in the place of the one before.
func (c *handler) watchList(p responder, _ conversation.SessionKey, _ []byte) {
	if c.Lists == nil {
		p.fail(conversation.Errorf(conversation.NotFound, "lists cannot be watched here"))
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	w := &watching{cancel: cancel, ended: make(chan struct{})}
	previous := c.takeList(w)
	tenant, user := c.who.Tenant, c.who.User
	c.spawn(func() {
		defer close(w.ended)
		defer cancel()
		previous.end() // nothing of it comes behind the answer
		watch := c.Lists.Watch(tenant, user)
		defer watch.Close()
		p.ok(nil)
		c.showList(ctx, watch)
	})
}

// showList queues rows until the watch ends.
func (c *handler) showList(ctx context.Context, watch *list.Changes) {
	for {
		rows, err := watch.Next(ctx)
		for i := 0; err == nil && i < len(rows); i++ {
			err = c.out.Offer(ctx, func(b []byte) []byte {
				if rows[i].Summary == nil {
					return protocol.AppendUnlisted(b, rows[i].Session)
				}
				return protocol.AppendListed(b, *rows[i].Summary)
			})
		}
		if err != nil { // the watch has ended, or the server ends
			return
		}
	}
}

// takeList makes w the connection's watch and gives back the one before.
func (c *handler) takeList(w *watching) (previous *watching) {
	c.mu.Lock()
	defer c.mu.Unlock()
	previous, c.list = c.list, w
	return previous
}

// unwatchList ends the watch; behind the answer nothing of it comes.
func (c *handler) unwatchList(p responder, _ conversation.SessionKey, _ []byte) {
	w := c.takeList(nil)
	c.spawn(func() {
		w.end()
		p.ok(nil)
	})
}
