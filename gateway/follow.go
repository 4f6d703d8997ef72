package gateway

import (
	"context"

	"parley/conversation"
)

// defaultTail is how many events a follow without "since" begins with.
const defaultTail = 50

// follow subscribes first and asks for the session's state then, so that nothing
// can happen in between unseen: what is published meanwhile only raises the mark
// up to which the log will be read.
func (c *client) follow(p pending, key conversation.SessionKey, data []byte) {
	d, bad := readFollow(data)
	if bad != nil {
		p.fail(bad)
		return
	}
	f := &feed{out: c.out, key: key, as: c.who.User, redact: c.who.redact(), deltas: c.caps.deltas}
	older, bad := c.enroll(f)
	if bad != nil {
		p.fail(bad)
		return
	}
	c.hub.add(f)
	c.sessions.View(key, c.who.User, func(v conversation.View, err error) {
		if err != nil {
			c.dismiss(f, older)
			p.fail(err)
			return
		}
		r := resume(v, d, c.cfg.Limits.ReplayMax)
		p.count("ok")
		c.m.Resumes.WithLabelValues(r.result()).Inc()
		scratch := getBuffer()
		*scratch = appendFrame((*scratch)[:0], opText, func(b []byte) []byte {
			return appendOK(b, p.id, func(o *object) { appendFollowed(o, v, r, f.redact) })
		})
		live := f.begin(item{data: *scratch, frames: 1, pooled: scratch}, r.since, v.Head, len(v.Drafts) > 0, older)
		if older != nil {
			c.hub.remove(older)
		}
		if live && f.deltas {
			f.drafts(v)
		}
	})
}

// enroll makes f the connection's feed of its session and returns the one before.
func (c *client) enroll(f *feed) (older *feed, refused *conversation.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	older = c.follows[f.key]
	if older == nil && over(len(c.follows), c.cfg.Limits.FollowsPerConnection) {
		for key, other := range c.follows { // sessions that were erased do not count
			if other.dead() {
				delete(c.follows, key)
			}
		}
		if over(len(c.follows), c.cfg.Limits.FollowsPerConnection) {
			c.m.Refused.WithLabelValues("follows_per_connection").Inc()
			return nil, conversation.Errorf(conversation.TooLarge, "a connection may follow at most %d sessions", c.cfg.Limits.FollowsPerConnection)
		}
	}
	if c.follows == nil {
		c.follows = make(map[conversation.SessionKey]*feed)
	}
	c.follows[f.key] = f
	return older, nil
}

// dismiss takes back a follow that was refused; the one before goes on.
func (c *client) dismiss(f, older *feed) {
	c.mu.Lock()
	current := c.follows[f.key] == f
	if current {
		delete(c.follows, f.key)
		if older != nil {
			c.follows[f.key] = older
		}
	}
	c.mu.Unlock()
	c.hub.remove(f)
	if !current && older != nil {
		c.hub.remove(older)
	}
}

func (c *client) unfollow(p pending, key conversation.SessionKey, _ []byte) {
	c.mu.Lock()
	f := c.follows[key]
	delete(c.follows, key)
	c.mu.Unlock()
	if f != nil {
		c.hub.remove(f)
	}
	p.ok(nil)
}

// unfollowAll ends every feed, at the end of the connection.
func (c *client) unfollowAll() {
	c.mu.Lock()
	all := c.follows
	c.follows = nil
	c.mu.Unlock()
	for _, f := range all {
		c.hub.remove(f)
	}
}

// resumption is where a follow begins, and what the client is told about it.
type resumption struct {
	since   conversation.Seq
	resumed bool
	reason  string // why not, although the client asked for it
}

func (r resumption) result() string {
	switch {
	case r.resumed:
		return "resumed"
	case r.reason != "":
		return r.reason
	default:
		return "tail"
	}
}

// resume decides where a follow begins: at the client's cursor if the log is
// still the same and not too much has happened, else at its tail.
func resume(v conversation.View, d followData, most int) resumption {
	tail := uint64(defaultTail)
	if d.tail != nil {
		tail = *d.tail
	}
	if most > 0 {
		tail = min(tail, uint64(most))
	}
	r := resumption{since: v.Head - conversation.Seq(min(tail, uint64(v.Head)))}
	switch {
	case d.since == nil:
	case d.log != "" && d.log != string(v.Log):
		r.reason = "other_log"
	case *d.since > uint64(v.Head):
		r.reason = "ahead"
	case most > 0 && uint64(v.Head)-*d.since > uint64(most):
		r.reason = "too_far"
	default:
		r.since, r.resumed = conversation.Seq(*d.since), true
	}
	return r
}

func appendFollowed(o *object, v conversation.View, r resumption, redact bool) {
	o.text("session", string(v.Key.Session))
	o.text("log", string(v.Log))
	o.uint("head", uint64(v.Head))
	o.uint("first", uint64(r.since)+1)
	o.bool("resumed", r.resumed)
	o.optional("reason", r.reason)
	appendState(o, v, redact)
}

// drafts shows what streams right now.
func (f *feed) drafts(v conversation.View) {
	o := f.out
	for _, d := range v.Drafts {
		frame := textFrame(func(b []byte) []byte { return appendDraftState(b, f.key.Session, v.Head, d) })
		o.mu.Lock()
		if f.state == feedLive && v.Head <= f.cursor {
			o.push(item{data: frame, frames: 1})
		}
		o.mu.Unlock()
	}
}

// resumeDrafts shows what streams to a feed that has just gone live and has
// missed deltas meanwhile.
func (c *core) resumeDrafts(_ context.Context, f *feed) {
	f.out.mu.Lock()
	wanted := f.missed && f.deltas && f.state == feedLive
	f.missed = false
	f.out.mu.Unlock()
	if !wanted {
		return
	}
	c.sessions.View(f.key, f.as, func(v conversation.View, err error) {
		if err == nil {
			f.drafts(v)
		}
	})
}
