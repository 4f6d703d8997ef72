package ws

import (
	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

func (c *handler) hello(p responder, _ conversation.SessionKey, data []byte) {
	if c.who != nil {
		p.fail(conversation.Errorf(conversation.BadRequest, "hello was said already"))
		return
	}
	d, bad := protocol.ReadHello(data)
	if bad != nil {
		p.fail(bad)
		return
	}
	if *d.Proto != 1 {
		p.fail(conversation.Errorf(conversation.BadRequest, "proto must be 1"))
		c.close(protocol.CloseVersion, "this server speaks parley.v1")
		return
	}
	credential := c.credential
	c.credential = service.Credential{Address: credential.Address} // no secret is kept for the life of the connection
	if d.Token != "" {
		credential.Token = d.Token
	}
	who, err := c.Auth.Authenticate(c.ctx, credential)
	if err != nil {
		e := c.Refusal(err)
		p.fail(e)
		switch e.Code {
		case conversation.Forbidden:
			c.close(protocol.CloseForbidden, "forbidden")
		case conversation.RateLimited:
			c.close(protocol.CloseRateLimited, "too many sign-ins have failed")
		default:
			c.close(protocol.CloseUnauthenticated, "not authenticated")
		}
		return
	}
	lease := c.Lease(who, c.leaseEnded)
	if over := lease.Over(); over != nil {
		lease.Release()
		p.fail(over)
		c.close(protocol.CloseUnauthenticated, "not authenticated")
		return
	}
	if limit := c.counts.add(who); limit != "" {
		lease.Release()
		c.Metrics.Refused.WithLabelValues(limit).Inc()
		p.fail(conversation.Errorf(conversation.Overloaded, "too many connections (%s)", limit))
		c.close(protocol.CloseLimit, limit)
		return
	}
	c.who, c.lease, c.deltas, c.html = who, lease, d.Deltas, d.HTML
	c.opened(d.Name)
	p.ok(func(o *protocol.Object) {
		o.Text("conn", c.name)
		o.Int("proto", 1)
		o.Text("user", string(who.User))
		o.Text("tenant", string(who.Tenant))
		o.Text("node", string(c.Node))
		o.Text("version", c.Version)
		o.Text("model", c.Model)
		c.Offer.Append(o)
		o.Int("heartbeat_ms", c.Times.Heartbeat.Milliseconds())
		c.Limits.Append(o)
	})
}

// refresh replaces a token before it expires; it must speak for the same user.
func (c *handler) refresh(p responder, _ conversation.SessionKey, data []byte) {
	var token string
	bad := protocol.ReadData(data, func(m protocol.Member) error {
		if string(m.Name) == "token" {
			return m.Bounded(&token, protocol.MaxToken)
		}
		return nil
	})
	switch {
	case bad != nil:
		p.fail(bad)
		return
	case token == "":
		p.fail(protocol.Missing("token"))
		return
	case c.Auth.Mode() == "none":
		p.fail(conversation.Errorf(conversation.BadRequest, "auth.mode is none: there is no token to refresh"))
		return
	}
	who, err := c.Auth.Authenticate(c.ctx, service.Credential{Token: token, Address: c.credential.Address})
	if err != nil {
		p.fail(err)
		return
	}
	if who.Tenant != c.who.Tenant || who.User != c.who.User {
		p.fail(conversation.Errorf(conversation.Forbidden, "the token belongs to another user"))
		return
	}
	c.lease.Renew(who)
	if over := c.lease.Over(); over != nil {
		p.fail(over)
		return
	}
	before := c.who
	c.who = who
	if !before.SameScopes(who) {
		c.rightsChanged()
	}
	p.ok(func(o *protocol.Object) { o.OptionalTime("expires_at", who.Expires) })
}

func (c *handler) ping(p responder, _ conversation.SessionKey, data []byte) {
	var t []byte
	bad := protocol.ReadData(data, func(m protocol.Member) error {
		if string(m.Name) == "t" {
			t = m.Raw
		}
		return nil
	})
	switch {
	case bad != nil:
		p.fail(bad)
	case len(t) > protocol.MaxTitle:
		p.fail(conversation.Errorf(conversation.BadRequest, "t must be at most %d bytes", protocol.MaxTitle))
	default:
		p.ok(func(o *protocol.Object) {
			if t != nil {
				o.Key("t")
				o.Bytes = protocol.AppendCompact(o.Bytes, t)
			}
		})
	}
}

func (c *handler) create(p responder, _ conversation.SessionKey, data []byte) {
	d, bad := protocol.ReadCreate(data)
	if bad != nil {
		p.fail(bad)
		return
	}
	key := service.NewSessionKey(c.who, d.ClientID)
	d.Create.Owner = c.who.User
	c.lifting(p, key.Session, d.Create.Policy, func(admin bool, refused func(error)) {
		create := d.Create
		create.Admin = admin
		c.Sessions.Create(key, create, func(key conversation.SessionKey, _ bool, err error) {
			if err != nil {
				refused(err)
				return
			}
			p.ok(func(o *protocol.Object) { o.Text("session", string(key.Session)) })
		})
	})
}

// lifting asks for something that sets policies: as everybody, and if that is refused and an
// administrator may have it, once more as one.
func (c *handler) lifting(p responder, session conversation.SessionID, policies conversation.Overrides, ask func(admin bool, refused func(error))) {
	who, address := c.who, c.credential.Address
	ask(false, func(err error) {
		if !who.LiftsCeilings() {
			p.fail(err)
			return
		}
		c.spawn(func() { // the audit log is written before
			if err := c.Lift(c.ctx, who, address, session, policies, err); err != nil {
				p.fail(err)
				return
			}
			ask(true, p.fail)
		})
	})
}

func (c *handler) send(p responder, key conversation.SessionKey, data []byte) {
	d, bad := protocol.ReadSend(data, c.Limits)
	if bad == nil && d.ClientID == "" {
		bad = protocol.Missing("client_msg_id")
	}
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	say := conversation.Say{
		Author: c.who.User, AuthorName: c.who.Name, Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(d.ClientID),
		Text: *d.Text, InReplyTo: conversation.MessageID(d.InReplyTo), Mode: d.Mode, TraceParent: c.credential.Trace,
	}
	var err error
	if say.Files, err = c.Attached(key, d.Files); err != nil {
		p.fail(err)
		return
	}
	c.Sessions.Tell(key, c.who.User, say, func(r conversation.Receipt, err error) {
		switch {
		case err != nil:
			p.fail(err)
		case r.Disposition == 0: // a repetition of long ago: only the log knows what came of it
			c.spawn(func() {
				if err := c.Complete(c.ctx, key, &r); err != nil {
					p.fail(err)
					return
				}
				p.sent(r)
			})
		default:
			p.sent(r)
		}
	})
}

// sent answers a send. It is the most frequent answer of all, so it is written
// without a closure for its data.
func (p responder) sent(r conversation.Receipt) {
	p.count("ok")
	scratch := protocol.GetBuffer()
	b := append((*scratch)[:0], 0, 0, 0, 0)
	b = append(b, `{"type":"ok","re":`...)
	b = protocol.AppendString(b, p.id)
	b = append(b, `,"data":`...)
	o := protocol.NewObject(b)
	protocol.AppendReceipt(&o, r)
	b = append(o.Close(), '}')
	*scratch = protocol.SealFrame(b, 0, protocol.OpText)
	p.c.out.AnswerBuffer(scratch)
}

func (c *handler) answerQuestion(p responder, key conversation.SessionKey, data []byte) {
	d, bad := protocol.ReadAnswer(data, c.Limits)
	switch {
	case bad != nil:
	case d.ClientID == "":
		bad = protocol.Missing("client_msg_id")
	case d.Question == "":
		bad = protocol.Missing("question")
	}
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	answer := conversation.Answer{
		Author: c.who.User, AuthorName: c.who.Name, Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(d.ClientID),
		Question: conversation.QuestionID(d.Question), Text: *d.Text,
	}
	c.Sessions.Tell(key, c.who.User, answer, func(r conversation.Receipt, err error) {
		switch {
		case err != nil:
			p.fail(err)
		case r.Duplicate: // only the log knows what came of the first delivery
			c.spawn(func() {
				if err := c.CompleteReply(c.ctx, key, &r); err != nil {
					p.fail(err)
					return
				}
				p.ok(func(o *protocol.Object) { protocol.AppendAnswerReceipt(o, r) })
			})
		default:
			p.ok(func(o *protocol.Object) { protocol.AppendAnswerReceipt(o, r) })
		}
	})
}

// tell gives the session a command whose answer is {seq}.
func (c *handler) tell(p responder, key conversation.SessionKey, cmd conversation.Command) {
	c.Sessions.Tell(key, c.who.User, cmd, func(r conversation.Receipt, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.ok(func(o *protocol.Object) { o.Uint("seq", uint64(r.Seq)) })
	})
}

func (c *handler) edit(p responder, key conversation.SessionKey, data []byte) {
	d, bad := protocol.ReadMessage("edit", data)
	if bad == nil {
		bad = protocol.CheckText("text", d.Text, c.Limits)
	}
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	c.tell(p, key, conversation.Edit{By: c.who.User, Message: conversation.MessageID(d.Message), Text: *d.Text})
}

func (c *handler) withdraw(p responder, key conversation.SessionKey, data []byte) {
	d, bad := protocol.ReadMessage("withdraw", data)
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	c.tell(p, key, conversation.Withdraw{By: c.who.User, Message: conversation.MessageID(d.Message)})
}

func (c *handler) move(p responder, key conversation.SessionKey, data []byte) {
	d, bad := protocol.ReadMessage("move", data)
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	c.tell(p, key, conversation.Move{By: c.who.User, Message: conversation.MessageID(d.Message), Before: conversation.MessageID(d.Before)})
}

func (c *handler) cancel(p responder, key conversation.SessionKey, data []byte) {
	cancel, bad := protocol.ReadCancel(data)
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	c.Sessions.Tell(key, c.who.User, cancel, func(r conversation.Receipt, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.ok(func(o *protocol.Object) {
			protocol.AppendCancelReceipt(o, r)
		})
	})
}

func (c *handler) clear(p responder, key conversation.SessionKey, _ []byte) {
	c.tell(p, key, conversation.Clear{By: c.who.User})
}

func (c *handler) policy(p responder, key conversation.SessionKey, data []byte) {
	var policies conversation.Overrides
	if data != nil {
		var err error
		if policies, err = protocol.ReadOverrides(data); err != nil {
			p.refuse(key, protocol.BadInput(err, "data"))
			return
		}
	}
	if len(policies) == 0 {
		p.refuse(key, conversation.Errorf(conversation.BadRequest, "data names no policy"))
		return
	}
	who := c.who.User
	c.lifting(p, key.Session, policies, func(admin bool, refused func(error)) {
		c.Sessions.Tell(key, who, conversation.Update{By: who, Policy: policies, Admin: admin}, func(r conversation.Receipt, err error) {
			if err != nil {
				refused(err)
				return
			}
			p.ok(func(o *protocol.Object) {
				o.Uint("seq", uint64(r.Seq))
				protocol.AppendPolicy(o, r.Policy)
			})
		})
	})
}

func (c *handler) seen(p responder, key conversation.SessionKey, data []byte) {
	var seq *uint64
	bad := protocol.ReadData(data, func(m protocol.Member) error {
		if string(m.Name) == "seq" {
			return m.WholePointer(&seq)
		}
		return nil
	})
	if bad == nil && seq == nil {
		bad = protocol.Missing("seq")
	}
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	c.Sessions.Tell(key, c.who.User, conversation.Seen{User: c.who.User, Seq: conversation.Seq(*seq)}, func(_ conversation.Receipt, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.ok(nil)
	})
}

func (c *handler) typing(p responder, key conversation.SessionKey, data []byte) {
	var on *bool
	bad := protocol.ReadData(data, func(m protocol.Member) error {
		if string(m.Name) == "on" {
			return m.BoolPointer(&on)
		}
		return nil
	})
	if bad == nil && on == nil {
		bad = protocol.Missing("on")
	}
	if bad != nil {
		p.refuse(key, bad)
		return
	}
	c.mu.Lock()
	f := c.follows[key]
	c.mu.Unlock()
	if f != nil && !f.Ended() {
		// While the follow has not been answered the user is not known to see the
		// session: Typing shows nothing then.
		f.Typing(c.who.User, *on)
		p.ok(nil)
		return
	}
	// Following is the proof that the user may see the session.
	p.refuse(key, conversation.Errorf(conversation.BadRequest, "typing is for sessions that this connection follows"))
}
