package ws

import (
	"maps"

	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// follow subscribes first and asks for the session's state then, so that nothing
// can happen in between unseen: what is published meanwhile only raises the mark
// up to which the log will be read.
func (c *handler) follow(p responder, key conversation.SessionKey, data []byte) {
	d, bad := protocol.ReadFollow(data)
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	as, err := c.ReadsAs(c.ctx, c.who, key)
	if err != nil {
		p.fail(err)
		return
	}
	f := c.out.NewSubscription(fanout.Options{Key: key, As: as, Redact: c.who.Redact(), Drafts: c.deltas, HTML: c.html})
	previous, bad := c.addFollow(f)
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	redact, rights := c.who.Redact(), c.rights.Load()
	f.Follow(func(v conversation.View, err error) (fanout.Start, error) {
		if err == nil && c.rights.Load() != rights { // the state would be shown by the old ones
			err = errRightsChanged
		}
		if err != nil {
			c.removeFollow(f, previous)
			p.fail(err)
			return fanout.Start{}, err
		}
		r := service.Cursor{Since: d.Since, Log: d.Log, Tail: d.Tail}.Resume(v)
		p.count("ok")
		c.Metrics.Resumes.WithLabelValues(r.Result()).Inc()
		answer := func(b []byte) []byte {
			return protocol.AppendOK(b, p.id, func(o *protocol.Object) {
				protocol.AppendFollowed(o, v, r.Since, r.Resumed, r.Reason, redact)
			})
		}
		return fanout.Start{Since: r.Since, Answer: answer, Replace: previous}, nil
	})
}

// addFollow makes f the connection's subscription of its session and returns the one before.
func (c *handler) addFollow(f *fanout.Subscription) (previous *fanout.Subscription, refused *conversation.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	previous = c.follows[f.Key()]
	if most := c.Limits.FollowsPerConnection; previous == nil && (len(c.follows) >= c.sweepAt || service.OverLimit(len(c.follows), most)) {
		c.dropEnded()
		if service.OverLimit(len(c.follows), most) {
			c.Metrics.Refused.WithLabelValues("follows_per_connection").Inc()
			return nil, conversation.Errorf(conversation.TooLarge, "a connection may follow at most %d sessions", most)
		}
	}
	if c.follows == nil {
		c.follows = make(map[conversation.SessionKey]*fanout.Subscription)
	}
	c.follows[f.Key()] = f
	return previous, nil
}

// minSweep is how many follows may be kept before they are looked through.
const minSweep = 32

// dropEnded drops the follows of sessions that were erased: they do not count, and
// without a limit nobody else would drop them. The next time is when the rest has
// doubled, so that a follow costs no more for it. The caller holds mu.
func (c *handler) dropEnded() {
	maps.DeleteFunc(c.follows, func(_ conversation.SessionKey, f *fanout.Subscription) bool { return f.Ended() })
	c.sweepAt = max(minSweep, 2*len(c.follows))
}

// removeFollow takes back a follow that was refused; the one before goes on.
func (c *handler) removeFollow(f, previous *fanout.Subscription) {
	c.mu.Lock()
	current := c.follows[f.Key()] == f
	if current {
		delete(c.follows, f.Key())
		if previous != nil {
			c.follows[f.Key()] = previous
		}
	}
	c.mu.Unlock()
	f.Close()
	if !current && previous != nil {
		previous.Close()
	}
}

func (c *handler) unfollow(p responder, key conversation.SessionKey, _ []byte) {
	c.mu.Lock()
	f := c.follows[key]
	delete(c.follows, key)
	c.mu.Unlock()
	if f != nil {
		f.Close()
	}
	p.ok(nil)
}

// unfollowAll ends every subscription, at the end of the connection.
func (c *handler) unfollowAll() {
	c.mu.Lock()
	all := c.follows
	c.follows = nil
	c.mu.Unlock()
	for _, f := range all {
		f.Close()
	}
}
