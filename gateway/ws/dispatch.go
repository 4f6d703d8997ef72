package ws

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// handler is the protocol's side of a connection: it reads commands, asks the
// engine, and puts answers into the queue. It knows nothing of sockets.
//
// handle is called by one goroutine, the reader; the engine's answers come on
// others.
type handler struct {
	*service.Services
	name       string
	credential service.Credential
	counts     *connLimits
	out        *fanout.Queue
	ctx        context.Context               // ends with the connection
	close      func(code int, reason string) // ends the connection after what is queued
	opened     func(client string)           // hello was accepted; client is the name that it gave
	jobs       sync.WaitGroup                // what runs for this client besides reader and writer
	bucket     bucket
	who        *service.Principal // nil before hello; only the reader changes it
	lease      *service.Lease     // of who; nil before hello
	rights     atomic.Int32       // how often the scopes of who have changed
	deltas     bool               // the client wants text while it streams
	html       bool               // and each part as HTML

	mu       sync.Mutex
	endClaim context.CancelFunc // of the claim that waits; nil = none does
	follows  map[conversation.SessionKey]*fanout.Subscription
	sweepAt  int       // so many follows are looked through for ended ones
	chats    *watching // of the tenant's chats; nil = there was none
	list     *watching // of the user's list of sessions; nil = there was none
}

// responder is a command whose answer is still to be given.
type responder struct {
	c     *handler
	kind  string
	id    string
	named bool
	mute  bool // an unnamed command that gets no answer: not even a refusal
	at    time.Time
	asked *service.RequestLine // of the log of requests; nil = there is none
}

// ok gives the positive answer. A command without an id gets none.
func (p responder) ok(data func(o *protocol.Object)) {
	p.count("ok")
	if p.named {
		p.c.out.Answer(func(b []byte) []byte { return protocol.AppendOK(b, p.id, data) })
	}
}

// fail gives the negative answer.
func (p responder) fail(err error) {
	e := p.c.Refusal(err)
	p.count(string(e.Code))
	if !p.mute {
		p.c.out.Answer(func(b []byte) []byte { return protocol.AppendError(b, p.id, p.named, e) })
	}
}

// refuse is fail for what is wrong with a command before its session was asked: to a user
// who may not see the session it is not there, and nothing else is said.
func (p responder) refuse(key conversation.SessionKey, bad *conversation.Error) {
	if p.mute {
		p.fail(bad)
		return
	}
	ctx, cancel := context.WithTimeout(p.c.ctx, p.c.Times.Request)
	defer cancel()
	p.fail(p.c.Unseen(ctx, p.c.who, key, bad))
}

func (p responder) count(code string) {
	p.c.Metrics.Commands.WithLabelValues(p.kind, code).Inc()
	took := p.c.Now().Sub(p.at)
	p.c.Metrics.CommandSeconds(p.kind).Observe(took.Seconds())
	if p.asked != nil {
		line := *p.asked // two goroutines may answer a command that the client says twice
		line.Route, line.Code, line.Took = p.kind, code, took
		p.c.Requests.Write(&line)
	}
}

// handle reads one frame and does what it asks for.
func (c *handler) handle(b []byte) {
	cmd, bad := protocol.ReadCommand(b)
	p := responder{c: c, kind: "unknown", id: cmd.ID, named: cmd.Named, at: c.Now()}
	if c.Requests != nil {
		p.asked = &service.RequestLine{ID: conversation.Excerpt(cmd.ID, 64), Conn: c.name, In: len(b), Session: c.who.Named(cmd.Session), Who: c.who, Address: c.credential.Address}
	}
	do, known := commandTable[cmd.Kind]
	p.mute = bad == nil && do.silent && !cmd.Named && c.who != nil
	if wait, flooded := c.bucket.allow(p.at); wait > 0 {
		c.Metrics.RateLimited.Inc()
		p.fail(&conversation.Error{Code: conversation.RateLimited, Message: "too many commands on this connection", RetryAfter: wait})
		if flooded {
			c.close(protocol.CloseRateLimited, "too many commands")
		}
		return
	}
	if c.who == nil && (bad != nil || cmd.Kind != "hello") {
		if bad == nil {
			bad = conversation.Errorf(conversation.BadRequest, "the first command must be hello")
		}
		p.fail(bad)
		c.close(protocol.CloseProtocol, bad.Message)
		return
	}
	if bad == nil && c.who != nil {
		if bad = c.lease.Over(); bad != nil { // the timer is late
			c.leaseEnded(bad)
		}
	}
	if bad != nil {
		p.fail(bad)
		return
	}
	if !known {
		p.fail(conversation.Errorf(conversation.UnknownType, "%q is not a command", conversation.Excerpt(cmd.Kind, 40)))
		return
	}
	p.kind = cmd.Kind
	if !cmd.Named && !do.silent {
		p.fail(protocol.Missing("id"))
		return
	}
	if bad := do.permit(c.who); bad != nil {
		p.fail(bad)
		return
	}
	if !do.session {
		do.run(c, p, conversation.SessionKey{}, cmd.Data)
		return
	}
	key, bad := c.who.Key(cmd.Session)
	if bad != nil {
		p.fail(bad)
		return
	}
	if bad := service.Writable(key); do.writes && bad != nil {
		p.refuse(key, bad)
		return
	}
	do.run(c, p, key, cmd.Data)
}

// commandRule is a row of the protocol's table of commands.
type commandRule struct {
	scopes  []string // one of them is needed; nil = none
	session bool     // names a session
	writes  bool     // changes it
	silent  bool     // needs no id and gets no answer then, whatever comes of it
	run     func(c *handler, p responder, key conversation.SessionKey, data []byte)
}

// permit refuses a command that needs a scope which who does not have.
func (do commandRule) permit(who *service.Principal) *conversation.Error {
	if do.scopes == nil || slices.ContainsFunc(do.scopes, who.May) {
		return nil
	}
	return conversation.Errorf(conversation.Forbidden, "this needs the scope %s", strings.Join(do.scopes, " or "))
}

// The scopes that commands need.
var (
	chat    = []string{service.ScopeChat}
	runtime = []string{service.ScopeRuntime}
	reader  = []string{service.ScopeChat, service.ScopeRuntime}
	watcher = []string{service.ScopeChats}
)

// commandTable is the protocol's table of commands. It is never changed.
var commandTable = map[string]commandRule{
	"hello":    {run: (*handler).hello},
	"create":   {scopes: chat, run: (*handler).create},
	"follow":   {scopes: reader, run: (*handler).follow, session: true},
	"unfollow": {scopes: reader, run: (*handler).unfollow, session: true},
	"send":     {scopes: chat, run: (*handler).send, session: true, writes: true},
	"answer":   {scopes: chat, run: (*handler).answerQuestion, session: true, writes: true},
	"edit":     {scopes: chat, run: (*handler).edit, session: true, writes: true},
	"withdraw": {scopes: chat, run: (*handler).withdraw, session: true, writes: true},
	"move":     {scopes: chat, run: (*handler).move, session: true, writes: true},
	"cancel":   {scopes: chat, run: (*handler).cancel, session: true, writes: true},
	"clear":    {scopes: chat, run: (*handler).clear, session: true, writes: true},
	"policy":   {scopes: chat, run: (*handler).policy, session: true, writes: true},
	"claim":    {scopes: runtime, run: (*handler).claim},
	"seen":     {scopes: chat, run: (*handler).seen, session: true, silent: true},
	"typing":   {scopes: chat, run: (*handler).typing, session: true, silent: true},
	"refresh":  {run: (*handler).refresh},
	"ping":     {run: (*handler).ping},
	"watch":    {scopes: chat, run: (*handler).watchList},
	"unwatch":  {scopes: chat, run: (*handler).unwatchList},

	"watch_chats":   {scopes: watcher, run: (*handler).watchChats},
	"unwatch_chats": {scopes: watcher, run: (*handler).unwatchChats},
}

// spawn runs a job that the connection waits for when it ends.
func (c *handler) spawn(job func()) {
	c.jobs.Go(func() {
		defer c.recoverPanic("job")
		job()
	})
}

// recoverPanic turns a panic of a goroutine into a log line and the end of the connection.
func (c *handler) recoverPanic(where string) {
	if r := recover(); r != nil {
		c.panicked(where, r)
	}
}

func (c *handler) panicked(where string, r any) {
	c.Metrics.Panics.Inc()
	c.Log.Error("panic", "where", where, "conn", c.name, "panic", r, "stack", service.Stack())
	c.close(protocol.CloseInternal, "internal error")
}

// connNames numbers connections within the process.
type connNames struct{ last atomic.Uint64 }

func (n *connNames) next() string { return "c" + strconv.FormatUint(n.last.Add(1), 10) }
