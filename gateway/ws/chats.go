package ws

import (
	"context"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/fanout"
	"parley/gateway/feed"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// watching is a connection's watch of the chats of its tenant: a job of the connection, which
// reads the feed as fast as the client does.
type watching struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when nothing of it goes into the queue any more
	begun  bool          // the command was answered ok; to be read when ended is closed
}

// end ends it and waits for that, which is not long: whatever it waits for ends with its context.
func (w *watching) end() {
	if w != nil {
		w.cancel()
		<-w.ended
	}
}

// watchChats begins a watch, in the place of the one before.
func (c *handler) watchChats(p responder, _ conversation.SessionKey, data []byte) {
	d, bad := protocol.ReadWatching(data)
	switch {
	case bad != nil:
		p.fail(bad)
		return
	case c.Feeds == nil:
		p.fail(service.ErrNoChats)
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	w := &watching{cancel: cancel, ended: make(chan struct{})}
	previous := c.takeChats(w)
	tenant, rights := c.who.Tenant, c.rights.Load()
	c.spawn(func() {
		defer close(w.ended)
		defer cancel()
		previous.end() // nothing of it comes behind the answer
		watch, from, err := c.openChats(ctx, tenant, (*chats.Number)(d.Since))
		if err != nil {
			if c.rights.Load() != rights {
				err = errRightsChanged
			}
			p.fail(err)
			return
		}
		defer watch.Close()
		w.begun = true
		p.ok(func(o *protocol.Object) {
			protocol.FeedStart{Head: uint64(from.Head), First: uint64(from.First), Resumed: from.Resumed, Reason: from.Reason}.Append(o)
		})
		c.showChats(ctx, watch)
	})
}

// openChats begins a watch within the time that a command has.
func (c *handler) openChats(ctx context.Context, tenant conversation.TenantID, after *chats.Number) (*feed.Watch, feed.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Times.Request)
	defer cancel()
	return c.Feeds.Open(ctx, tenant, after)
}

// showChats queues what happens until the watch ends.
func (c *handler) showChats(ctx context.Context, watch *feed.Watch) {
	for {
		entries, err := watch.Next(ctx)
		for i := 0; err == nil && i < len(entries); i++ {
			err = c.out.Offer(ctx, func(b []byte) []byte {
				return protocol.AppendChat(b, func(b []byte) []byte { return feed.AppendEntry(b, entries[i]) })
			})
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		default: // the store has been closed: the server ends
			c.Log.Debug("a watch of chats has ended", "conn", c.name, "error", err)
			return
		}
	}
}

// takeChats makes w the connection's watch and gives back the one before.
func (c *handler) takeChats(w *watching) (previous *watching) {
	c.mu.Lock()
	defer c.mu.Unlock()
	previous, c.chats = c.chats, w
	return previous
}

// unwatchChats ends the watch; behind the answer nothing of it comes.
func (c *handler) unwatchChats(p responder, _ conversation.SessionKey, _ []byte) {
	w := c.takeChats(nil)
	c.spawn(func() {
		w.end()
		p.ok(nil)
	})
}

// endChats ends the watch and tells the client why: its user may not see the chats any more.
func (c *handler) endChats() {
	w := c.takeChats(nil)
	w.end()
	if w != nil && w.begun {
		c.out.Answer(func(b []byte) []byte { return protocol.AppendChatsGone(b, fanout.ReasonForbidden) })
	}
}
