package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation"
)

// The close codes of protocol v1.
const (
	closeNormal          = 1000
	closeGoingAway       = 1001
	closeBinary          = 1003
	closeUTF8            = 1007
	closeTooBig          = 1009
	closeRestart         = 1012
	closeInternal        = 4000
	closeHelloTimeout    = 4002
	closeHeartbeat       = 4003
	closeSlow            = 4004
	closeOverloaded      = 4006
	closeTokenExpired    = 4007
	closeRateLimited     = 4008
	closeProtocol        = 4500
	closeUnauthenticated = 4501
	closeForbidden       = 4502
	closeVersion         = 4503
	closeLimit           = 4504
)

// client is the protocol's side of a connection: it reads commands, asks the
// engine, and puts answers into the outbox. It knows nothing of sockets.
//
// handle is called by one goroutine, the reader; the engine's answers come on
// others.
type client struct {
	*core
	name       string
	credential Credential
	counts     *counts
	out        *outbox
	ctx        context.Context               // ends with the connection
	close      func(code int, reason string) // ends the connection after what is queued
	opened     func()                        // hello was accepted
	jobs       sync.WaitGroup                // what runs for this client besides reader and writer
	bucket     bucket
	who        *Principal // nil before hello; only the reader changes it
	caps       helloData
	expires    atomic.Int64 // unix milliseconds; 0 = never

	mu      sync.Mutex
	follows map[conversation.SessionKey]*feed
}

// pending is a command whose answer is still to be given.
type pending struct {
	c     *client
	kind  string
	id    string
	named bool
	mute  bool // an unnamed command that gets no answer: not even a refusal, which nobody asked for
	at    time.Time
}

// ok gives the positive answer. A command without an id gets none.
func (p pending) ok(data func(o *object)) {
	p.count("ok")
	if p.named {
		p.c.out.answer(func(b []byte) []byte { return appendOK(b, p.id, data) })
	}
}

// fail gives the negative answer.
func (p pending) fail(err error) {
	e := p.c.refusal(err)
	p.count(string(e.Code))
	if !p.mute {
		p.c.out.answer(func(b []byte) []byte { return appendError(b, p.id, p.named, e) })
	}
}

func (p pending) count(code string) {
	p.c.m.Commands.WithLabelValues(p.kind, code).Inc()
	p.c.m.CommandSeconds.Observe(p.c.now().Sub(p.at).Seconds())
}

// handle reads one frame and does what it asks for.
func (c *client) handle(b []byte) {
	cmd, bad := readCommand(b)
	p := pending{c: c, kind: "unknown", id: cmd.id, named: cmd.named, at: c.now()}
	do, known := commandTable[cmd.kind]
	p.mute = bad == nil && do.silent && !cmd.named && c.who != nil
	if wait, flooded := c.bucket.take(p.at); wait > 0 {
		c.m.RateLimited.Inc()
		p.fail(&conversation.Error{Code: conversation.RateLimited, Message: "too many commands on this connection", RetryAfter: wait})
		if flooded {
			c.close(closeRateLimited, "too many commands")
		}
		return
	}
	if c.who == nil && (bad != nil || cmd.kind != "hello") {
		if bad == nil {
			bad = conversation.Errorf(conversation.BadRequest, "the first command must be hello")
		}
		p.fail(bad)
		c.close(closeProtocol, "the first command must be hello")
		return
	}
	if bad != nil {
		p.fail(bad)
		return
	}
	if !known {
		p.fail(conversation.Errorf(conversation.UnknownType, "%q is not a command", conversation.Excerpt(cmd.kind, 40)))
		return
	}
	p.kind = cmd.kind
	if !cmd.named && !do.silent {
		p.fail(missing("id"))
		return
	}
	if !do.session {
		do.run(c, p, conversation.SessionKey{}, cmd.data)
		return
	}
	if !c.who.May(ScopeChat) {
		p.fail(conversation.Errorf(conversation.Forbidden, "this needs the scope %s", ScopeChat))
		return
	}
	key, bad := sessionKey(c.who.Tenant, cmd.session)
	if bad == nil && do.writes {
		bad = writable(key)
	}
	if bad != nil {
		p.fail(bad)
		return
	}
	do.run(c, p, key, cmd.data)
}

// commandRule is a row of the protocol's table of commands.
type commandRule struct {
	session bool // names a session
	writes  bool // changes it
	silent  bool // needs no id and gets no answer then, whatever comes of it
	run     func(c *client, p pending, key conversation.SessionKey, data []byte)
}

// commandTable is the protocol's table of commands. It is never changed.
var commandTable = map[string]commandRule{
	"hello":    {run: (*client).hello},
	"create":   {run: (*client).create},
	"follow":   {run: (*client).follow, session: true},
	"unfollow": {run: (*client).unfollow, session: true},
	"send":     {run: (*client).send, session: true, writes: true},
	"answer":   {run: (*client).answerQuestion, session: true, writes: true},
	"edit":     {run: (*client).edit, session: true, writes: true},
	"withdraw": {run: (*client).withdraw, session: true, writes: true},
	"move":     {run: (*client).move, session: true, writes: true},
	"cancel":   {run: (*client).cancel, session: true, writes: true},
	"policy":   {run: (*client).policy, session: true, writes: true},
	"seen":     {run: (*client).seen, session: true, silent: true},
	"typing":   {run: (*client).typing, session: true, silent: true},
	"refresh":  {run: (*client).refresh},
	"ping":     {run: (*client).ping},
}

func (c *client) hello(p pending, _ conversation.SessionKey, data []byte) {
	if c.who != nil {
		p.fail(conversation.Errorf(conversation.BadRequest, "hello was said already"))
		return
	}
	d, bad := readHello(data)
	if bad != nil {
		p.fail(bad)
		return
	}
	if *d.proto != 1 {
		p.fail(conversation.Errorf(conversation.BadRequest, "proto must be 1"))
		c.close(closeVersion, "this server speaks parley.v1")
		return
	}
	credential := c.credential
	if d.token != "" {
		credential.Token = d.token
	}
	who, err := c.auth.Authenticate(c.ctx, credential)
	if err != nil {
		e := c.refusal(err)
		c.log.Warn("authentication failed", "address", c.credential.Address, "code", string(e.Code), "conn", c.name)
		p.fail(e)
		if e.Code == conversation.Forbidden {
			c.close(closeForbidden, "forbidden")
		} else {
			c.close(closeUnauthenticated, "not authenticated")
		}
		return
	}
	if limit := c.counts.enter(who); limit != "" {
		c.m.Refused.WithLabelValues(limit).Inc()
		p.fail(conversation.Errorf(conversation.Overloaded, "too many connections (%s)", limit))
		c.close(closeLimit, limit)
		return
	}
	c.who, c.caps = who, d
	c.setExpiry(who)
	c.opened()
	p.ok(func(o *object) {
		o.text("conn", c.name)
		o.int("proto", 1)
		o.text("user", string(who.User))
		o.text("tenant", string(who.Tenant))
		o.text("node", string(c.cfg.Node))
		o.text("version", c.cfg.Version)
		o.text("model", c.cfg.Model)
		o.int("heartbeat_ms", c.cfg.Times.Heartbeat.Milliseconds())
		c.cfg.Limits.append(o)
	})
}

func (c *client) setExpiry(who *Principal) {
	if who.Expires.IsZero() {
		c.expires.Store(0)
	} else {
		c.expires.Store(who.Expires.UnixMilli())
	}
}

// refresh replaces a token before it expires; it must speak for the same user.
func (c *client) refresh(p pending, _ conversation.SessionKey, data []byte) {
	var token string
	bad := readData(data, func(m member) error {
		if string(m.name) == "token" {
			return m.text(&token)
		}
		return nil
	})
	switch {
	case bad != nil:
		p.fail(bad)
		return
	case token == "":
		p.fail(missing("token"))
		return
	case c.auth.Mode() == "none":
		p.fail(conversation.Errorf(conversation.BadRequest, "auth.mode is none: there is no token to refresh"))
		return
	}
	who, err := c.auth.Authenticate(c.ctx, Credential{Token: token, Address: c.credential.Address})
	if err != nil {
		p.fail(err)
		return
	}
	if who.Tenant != c.who.Tenant || who.User != c.who.User {
		p.fail(conversation.Errorf(conversation.Forbidden, "the token belongs to another user"))
		return
	}
	c.who = who
	c.setExpiry(who)
	p.ok(func(o *object) { o.optionalTime("expires_at", who.Expires) })
}

func (c *client) ping(p pending, _ conversation.SessionKey, data []byte) {
	var t []byte
	bad := readData(data, func(m member) error {
		if string(m.name) == "t" {
			t = m.raw
		}
		return nil
	})
	switch {
	case bad != nil:
		p.fail(bad)
	case len(t) > maxTitle:
		p.fail(conversation.Errorf(conversation.BadRequest, "t must be at most %d bytes", maxTitle))
	default:
		p.ok(func(o *object) {
			if t != nil {
				o.key("t")
				o.b = appendCompact(o.b, t)
			}
		})
	}
}

func (c *client) create(p pending, _ conversation.SessionKey, data []byte) {
	if !c.who.May(ScopeChat) {
		p.fail(conversation.Errorf(conversation.Forbidden, "this needs the scope %s", ScopeChat))
		return
	}
	d, bad := readCreate(data)
	if bad != nil {
		p.fail(bad)
		return
	}
	key := newSession(c.who, d.clientID)
	d.create.Owner = c.who.User
	c.sessions.Create(key, d.create, func(_ bool, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.ok(func(o *object) { o.text("session", string(key.Session)) })
	})
}

// newSession is a key for a new session: random, or the same one for the same
// client_session_id, so that a repeated create finds what the first one made.
func newSession(who *Principal, clientID string) conversation.SessionKey {
	var bits [10]byte
	if clientID == "" {
		_, _ = rand.Read(bits[:]) // never fails
	} else {
		sum := sha256.Sum256([]byte(string(who.Tenant) + "\x00" + string(who.User) + "\x00" + clientID))
		copy(bits[:], sum[:])
	}
	id := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(bits[:]))
	return conversation.SessionKey{Tenant: who.Tenant, Session: conversation.SessionID(id)}
}

func (c *client) send(p pending, key conversation.SessionKey, data []byte) {
	d, bad := readSend(data, c.cfg.Limits)
	if bad == nil && d.clientID == "" {
		bad = missing("client_msg_id")
	}
	if bad != nil {
		p.fail(bad)
		return
	}
	say := conversation.Say{
		Author: c.who.User, Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(d.clientID),
		Text: *d.text, InReplyTo: conversation.MessageID(d.inReplyTo), Mode: d.mode,
	}
	c.sessions.Tell(key, c.who.User, say, func(r conversation.Receipt, err error) {
		switch {
		case err != nil:
			p.fail(err)
		case r.Disposition == 0: // a repetition of long ago: only the log knows what came of it
			c.spawn(func() {
				if err := c.complete(c.ctx, key, &r); err != nil {
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
func (p pending) sent(r conversation.Receipt) {
	p.count("ok")
	scratch := getBuffer()
	b := append((*scratch)[:0], 0, 0, 0, 0)
	b = append(b, `{"type":"ok","re":`...)
	b = appendString(b, p.id)
	b = append(b, `,"data":`...)
	o := open(b)
	appendReceipt(&o, r)
	b = append(o.close(), '}')
	*scratch = sealFrame(b, 0, opText)
	p.c.out.give(item{data: *scratch, frames: 1, pooled: scratch})
}

// appendReceipt writes what a sender is told about a message.
func appendReceipt(o *object, r conversation.Receipt) {
	o.text("message", string(r.Message))
	o.uint("seq", uint64(r.Seq))
	o.bool("duplicate", r.Duplicate)
	o.text("disposition", r.Disposition.String())
	o.optional("task", string(r.Task))
}

// appendAnswerReceipt writes what is told about an answer to a question.
func appendAnswerReceipt(o *object, r conversation.Receipt) {
	o.text("message", string(r.Message))
	o.uint("seq", uint64(r.Seq))
	o.bool("duplicate", r.Duplicate)
	o.optional("task", string(r.Task))
	if r.OldStatus != 0 {
		o.text("old_status", r.OldStatus.String())
	}
	if r.NewStatus != 0 {
		o.text("new_status", r.NewStatus.String())
	}
}

func (c *client) answerQuestion(p pending, key conversation.SessionKey, data []byte) {
	d, bad := readAnswer(data, c.cfg.Limits)
	switch {
	case bad != nil:
	case d.clientID == "":
		bad = missing("client_msg_id")
	case d.question == "":
		bad = missing("question")
	}
	if bad != nil {
		p.fail(bad)
		return
	}
	answer := conversation.Answer{
		Author: c.who.User, Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(d.clientID),
		Question: conversation.QuestionID(d.question), Text: *d.text,
	}
	c.sessions.Tell(key, c.who.User, answer, func(r conversation.Receipt, err error) {
		switch {
		case err != nil:
			p.fail(err)
		case r.Duplicate: // only the log knows what came of the first delivery
			c.spawn(func() {
				if err := c.completeReply(c.ctx, key, &r); err != nil {
					p.fail(err)
					return
				}
				p.ok(func(o *object) { appendAnswerReceipt(o, r) })
			})
		default:
			p.ok(func(o *object) { appendAnswerReceipt(o, r) })
		}
	})
}

// tell gives the session a command whose answer is {seq}.
func (c *client) tell(p pending, key conversation.SessionKey, cmd conversation.Command) {
	c.sessions.Tell(key, c.who.User, cmd, func(r conversation.Receipt, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.ok(func(o *object) { o.uint("seq", uint64(r.Seq)) })
	})
}

func (c *client) edit(p pending, key conversation.SessionKey, data []byte) {
	d, bad := readMessage(data)
	if bad == nil {
		bad = checkText("text", d.text, c.cfg.Limits)
	}
	if bad != nil {
		p.fail(bad)
		return
	}
	c.tell(p, key, conversation.Edit{By: c.who.User, Message: conversation.MessageID(d.message), Text: *d.text})
}

func (c *client) withdraw(p pending, key conversation.SessionKey, data []byte) {
	d, bad := readMessage(data)
	if bad != nil {
		p.fail(bad)
		return
	}
	c.tell(p, key, conversation.Withdraw{By: c.who.User, Message: conversation.MessageID(d.message)})
}

func (c *client) move(p pending, key conversation.SessionKey, data []byte) {
	d, bad := readMessage(data)
	if bad != nil {
		p.fail(bad)
		return
	}
	c.tell(p, key, conversation.Move{By: c.who.User, Message: conversation.MessageID(d.message), Before: conversation.MessageID(d.before)})
}

func (c *client) cancel(p pending, key conversation.SessionKey, data []byte) {
	cancel, bad := readCancel(data)
	if bad != nil {
		p.fail(bad)
		return
	}
	c.sessions.Tell(key, c.who.User, cancel, func(r conversation.Receipt, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.ok(func(o *object) {
			o.text("task", string(r.Task))
			o.text("old_status", r.OldStatus.String())
		})
	})
}

func (c *client) policy(p pending, key conversation.SessionKey, data []byte) {
	var policies conversation.Overrides
	if data != nil {
		var err error
		if policies, err = readOverrides(data); err != nil {
			p.fail(badInput(err, "data"))
			return
		}
	}
	if len(policies) == 0 {
		p.fail(conversation.Errorf(conversation.BadRequest, "data names no policy"))
		return
	}
	c.sessions.Tell(key, c.who.User, conversation.Update{Policy: policies}, func(r conversation.Receipt, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.ok(func(o *object) {
			o.uint("seq", uint64(r.Seq))
			policy(o, r.Policy)
		})
	})
}

func (c *client) seen(p pending, key conversation.SessionKey, data []byte) {
	var seq *uint64
	bad := readData(data, func(m member) error {
		if string(m.name) == "seq" {
			return m.wholePointer(&seq)
		}
		return nil
	})
	if bad == nil && seq == nil {
		bad = missing("seq")
	}
	if bad != nil {
		p.fail(bad)
		return
	}
	c.sessions.Tell(key, c.who.User, conversation.Seen{User: c.who.User, Seq: conversation.Seq(*seq)}, func(_ conversation.Receipt, err error) {
		if err != nil {
			p.fail(err)
			return
		}
		p.ok(nil)
	})
}

func (c *client) typing(p pending, key conversation.SessionKey, data []byte) {
	var on *bool
	bad := readData(data, func(m member) error {
		if string(m.name) == "on" {
			return m.boolPointer(&on)
		}
		return nil
	})
	if bad == nil && on == nil {
		bad = missing("on")
	}
	if bad != nil {
		p.fail(bad)
		return
	}
	c.mu.Lock()
	f := c.follows[key]
	c.mu.Unlock()
	if f != nil && !f.dead() {
		// A follow that is still to be answered proves nothing yet; what is typed
		// meanwhile is shown to nobody, as it may be at any other time.
		if after, following := f.published(); following {
			c.hub.typing(f, after, c.who.User, *on)
		}
		p.ok(nil)
		return
	}
	// Following is the proof that the user may see the session.
	p.fail(conversation.Errorf(conversation.BadRequest, "typing is for sessions that this connection follows"))
}

// spawn runs a job that the connection waits for when it ends.
func (c *client) spawn(job func()) {
	c.jobs.Go(func() {
		defer c.survive("job")
		job()
	})
}

// survive turns a panic of a goroutine into a log line and the end of the connection.
func (c *client) survive(where string) {
	if r := recover(); r != nil {
		c.m.Panics.Inc()
		c.log.Error("panic", "where", where, "conn", c.name, "panic", r, "stack", stack())
		c.close(closeInternal, "internal error")
	}
}

// names numbers connections within the process.
type names struct{ last atomic.Uint64 }

func (n *names) next() string { return "c" + strconv.FormatUint(n.last.Add(1), 10) }
