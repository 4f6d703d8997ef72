package parley

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"parley/clients/go/internal/pace"
)

// Options say how a client connects. The zero value is fine for a server on this
// machine.
type Options struct {
	// Token gives the key or signed token; it is asked for each connection, for each
	// HTTP request, and before a signed token expires. nil = none.
	Token func(context.Context) (string, error)

	Name, Version string   // of the program, for the server's log; "" = this package's
	Caps          []string // nil = "deltas"; "html" brings rendered parts

	TLS  *tls.Config  // of https servers; nil = the system's
	HTTP *http.Client // used instead of one made here; then TLS is not used

	Outbox Outbox // what is sent and not acknowledged; nil = in memory

	// Refused is told of messages that the server will not take, if nobody waits for
	// them: those that were in the outbox at the start. nil = nobody is told.
	Refused func(Message, error)

	// OnConnection is told of each change, by the goroutine that keeps the connection:
	// it must return soon. nil = nobody is told.
	OnConnection func(Connection)

	LeastPause, MostPause time.Duration // between attempts to connect; 0 = 250 ms and 15 s
	Answer                time.Duration // for the answer to a command, before the connection counts as dead; 0 = 30 s
	Silence               time.Duration // without any frame, the same; 0 = the server's heartbeat and 10 s
}

func (o Options) token(ctx context.Context) (string, error) {
	if o.Token == nil {
		return "", nil
	}
	return o.Token(ctx)
}

// A Connection is the state of a client's connection.
type Connection struct {
	Up      bool
	Hello   Hello         // when it is up
	Err     error         // why it is not
	RetryIn time.Duration // until the next attempt
	Final   bool          // there will be none
}

// A Client keeps one connection to a server. Make it with [Dial] or [Connect], and
// end it with Close.
type Client struct {
	options   Options
	base      *url.URL
	socketURL string
	http      *http.Client

	ctx    context.Context // ends with the client
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	link    *link         // nil while there is no connection
	up      chan struct{} // closed when link is set; a new one when it is lost
	why     error         // of the last connection or attempt: its end; nil = there was none
	follows map[string]*Following
	over    map[string]bool // sessions to be unfollowed
	watches map[string]*watch

	outbox outbox
}

// Dial connects to a server ("http://127.0.0.1:8080", also https, ws, wss) and says
// hello. It returns the error of the first attempt; from then on the client connects
// again by itself.
func Dial(ctx context.Context, server string, o Options) (*Client, error) {
	c, err := newClient(server, o)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
	l, err := c.open(c.ctx)
	if !stop() || err != nil {
		c.cancel(ErrClosed)
		if l != nil {
			l.ws.CloseNow()
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return c, c.start(l)
}

// Connect is Dial for programs that may start before their server: it returns at
// once, and commands wait for the connection.
func Connect(server string, o Options) (*Client, error) {
	c, err := newClient(server, o)
	if err != nil {
		return nil, err
	}
	return c, c.start(nil)
}

func newClient(server string, o Options) (*Client, error) {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	base, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("parley: the server's address: %w", err)
	}
	switch base.Scheme {
	case "ws", "http":
		base.Scheme = "http"
	case "wss", "https":
		base.Scheme = "https"
	default:
		return nil, fmt.Errorf("parley: the server's address %q begins with neither http nor https", server)
	}
	if base.Host == "" {
		return nil, fmt.Errorf("parley: the server's address %q has no host", server)
	}
	if o.Name == "" {
		o.Name = "parley-go"
	}
	if o.Caps == nil {
		o.Caps = []string{"deltas"}
	}
	orElse(&o.LeastPause, 250*time.Millisecond)
	orElse(&o.MostPause, 15*time.Second)
	orElse(&o.Answer, 30*time.Second)
	if o.Outbox == nil {
		o.Outbox = &memory{}
	}
	c := &Client{
		options: o, base: base, http: o.HTTP, up: make(chan struct{}),
		follows: map[string]*Following{}, over: map[string]bool{}, watches: map[string]*watch{},
	}
	if c.http == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = o.TLS.Clone()
		c.http = &http.Client{Transport: transport}
	}
	socket := *base.JoinPath("ws")
	socket.Scheme = "ws" + strings.TrimPrefix(base.Scheme, "http")
	c.socketURL = socket.String()
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c, nil
}

func orElse(d *time.Duration, otherwise time.Duration) {
	if *d <= 0 {
		*d = otherwise
	}
}

func (c *Client) start(l *link) error {
	c.wg.Go(func() { c.run(l) })
	if err := c.restore(); err != nil {
		c.Close()
		return fmt.Errorf("parley: the outbox: %w", err)
	}
	return nil
}

// Close ends the connection and everything that waits; what is in the outbox stays there.
func (c *Client) Close() error {
	c.cancel(ErrClosed)
	c.wg.Wait()
	c.http.CloseIdleConnections()
	return nil
}

// Done is closed when the client has ended: by Close, or because the server refuses it
// for good. [Client.Err] says why.
func (c *Client) Done() <-chan struct{} { return c.ctx.Done() }

// Err is why the client has ended; nil while it has not.
func (c *Client) Err() error { return context.Cause(c.ctx) }

// Hello waits for a connection and says what the server said of itself.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	l, err := c.linked(ctx, "hello")
	if err != nil {
		return Hello{}, err
	}
	return l.hello, nil
}

// run keeps the connection.
func (c *Client) run(l *link) {
	attempt, expired := 0, 0
	for {
		var err error
		if l == nil {
			l, err = c.open(c.ctx)
		}
		retryIn := time.Duration(-1)
		if err == nil {
			expired = 0
			err = c.serve(l)
			if away, told := l.away(); told {
				retryIn = away
			}
			if l.used { // pauses grow while connections bring nothing
				attempt = 0
			}
		}
		l = nil
		if c.ctx.Err() != nil {
			break
		}
		var refused *Error
		if errors.As(err, &refused) && refused.Code == TokenExpired {
			expired++
		}
		if isFinal(err, expired) {
			c.tell(Connection{Err: err, Final: true})
			c.cancel(err)
			break
		}
		if retryIn < 0 {
			retryIn = pace.Jitter(c.options.LeastPause, c.options.MostPause, attempt)
			if refused != nil {
				retryIn = max(retryIn, refused.RetryAfter)
			}
		}
		attempt++
		c.mu.Lock()
		c.why = err
		c.mu.Unlock()
		c.tell(Connection{Err: err, RetryIn: retryIn})
		if pace.Wait(c.ctx, retryIn) != nil {
			break
		}
	}
	c.mu.Lock()
	follows, watches := c.follows, c.watches
	c.follows, c.watches = nil, nil
	c.mu.Unlock()
	for _, f := range follows {
		f.stop(context.Cause(c.ctx))
	}
	for _, w := range watches {
		w.stop(context.Cause(c.ctx))
	}
}

// maxExpired is how many tokens may be refused as expired before the client gives up.
const maxExpired = 3

// isFinal says whether to connect again after err.
func isFinal(err error, expired int) bool {
	var closed *CloseError
	var refused *Error
	switch {
	case errors.As(err, &closed):
		return !closed.Reconnect()
	case errors.As(err, &refused):
		return !refused.Retryable && (refused.Code != TokenExpired || expired >= maxExpired)
	default:
		return false
	}
}

func (c *Client) tell(state Connection) {
	if c.options.OnConnection != nil {
		c.options.OnConnection(state)
	}
}

// serve uses a connection until it ends.
func (c *Client) serve(l *link) error {
	silence := c.options.Silence
	if silence <= 0 {
		silence = time.Duration(l.hello.HeartbeatMS)*time.Millisecond + 10*time.Second
	}
	c.mu.Lock()
	for _, f := range c.follows {
		f.want()
	}
	for _, w := range c.watches {
		w.need = true
	}
	clear(c.over)
	c.link = l
	close(c.up)
	c.mu.Unlock()
	c.tell(Connection{Up: true, Hello: l.hello})
	l.nudge()
	var own sync.WaitGroup
	own.Go(func() { c.keepFollowing(l) })
	own.Go(func() { c.renew(l) })
	own.Go(func() { c.goodbye(l) })
	err := l.serve(silence, func(e Event) { c.handle(l, e) })
	own.Wait()
	c.mu.Lock()
	c.link = nil
	c.up = make(chan struct{})
	follows := make([]*Following, 0, len(c.follows))
	for _, f := range c.follows {
		follows = append(follows, f)
	}
	c.mu.Unlock()
	for _, f := range follows {
		f.interrupt(l, err)
	}
	return err
}

// goodbye ends a link with the client, and gives the server a moment to agree.
func (c *Client) goodbye(l *link) {
	select {
	case <-l.ctx.Done():
	case <-c.ctx.Done():
		late := time.AfterFunc(time.Second, func() { l.end(ErrClosed) })
		l.ws.Close(websocket.StatusNormalClosure, "")
		late.Stop()
		l.end(ErrClosed)
	}
}

// handle takes an event of a link.
func (c *Client) handle(l *link, e Event) {
	switch e.Type {
	case "hb", "goaway":
	case "listed", "chat", "chats_gone":
		c.watched(e)
	default:
		c.mu.Lock()
		f := c.follows[e.Session]
		c.mu.Unlock()
		if f != nil && f.take(l, e) {
			c.drop(f)
		}
	}
}

// givenUp is the error of a command whose context has ended while it waited: for a
// connection, or for what the caller says.
func (c *Client) givenUp(ctx context.Context, typ, waited string) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	c.mu.Lock()
	l, why := c.link, c.why
	c.mu.Unlock()
	if l != nil {
		return fmt.Errorf("parley: %s: %s: %w", typ, waited, context.Cause(ctx))
	}
	err := fmt.Errorf("parley: %s: there is no connection: %w", typ, context.Cause(ctx))
	if why != nil { // as text: it is not the refusal of this command
		err = fmt.Errorf("%w; the last attempt: %s", err, why.Error())
	}
	return err
}

// linked waits for a connection, for a command of this type.
func (c *Client) linked(ctx context.Context, typ string) (*link, error) {
	for {
		c.mu.Lock()
		l, up := c.link, c.up
		c.mu.Unlock()
		if c.ctx.Err() != nil {
			return nil, context.Cause(c.ctx)
		}
		if l != nil {
			return l, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, c.givenUp(ctx, typ, "it came too late")
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		}
	}
}

// how a command may be repeated.
type how struct {
	once  bool          // its effect is not the same twice
	extra time.Duration // that its answer may take besides
}

// do sends a command until it is answered for good.
func (c *Client) do(ctx context.Context, typ, session string, data, out any, h how) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	failures := 0
	for {
		l, err := c.linked(ctx, typ)
		if err != nil {
			return err
		}
		if pace.Wait(ctx, l.pace.Take(time.Now())) != nil {
			return c.givenUp(ctx, typ, "its turn did not come")
		}
		answer, lost, err := l.ask(ctx, typ, session, data, c.options.Answer+h.extra)
		var refused *Error
		switch {
		case err == nil:
			if out == nil || len(answer) == 0 {
				return nil
			}
			if err := json.Unmarshal(answer, out); err != nil {
				return fmt.Errorf("parley: the answer to %s: %w", typ, err)
			}
			return nil
		case c.ctx.Err() != nil:
			return context.Cause(c.ctx)
		case ctx.Err() != nil && !lost && !errors.As(err, &refused):
			return c.givenUp(ctx, typ, "no answer came")
		case lost && h.once:
			return errors.Join(ErrLost, err)
		case lost:
			continue
		case errors.As(err, &refused) && again(refused, h, failures):
			wait := max(refused.RetryAfter, pace.Jitter(c.options.LeastPause, c.options.MostPause, failures))
			failures++
			if pace.Wait(ctx, wait) != nil {
				return errors.Join(c.givenUp(ctx, typ, "it was refused"), refused)
			}
		default:
			return err
		}
	}
}

// maxInternal is how often a command is repeated that the server fails at.
const maxInternal = 5

// again says whether a refused command is repeated by the client itself. Where a
// choice of people is behind it (a busy or full session, a full disk), the caller decides.
func again(e *Error, h how, failures int) bool {
	switch e.Code {
	case RateLimited:
		return true
	case SessionBusy, InboxFull, StorageFull:
		return false
	case Internal:
		return !h.once && failures < maxInternal
	default:
		return e.Retryable && !h.once
	}
}

// Do sends any command, also one that this package has no method for, and reads its
// answer into out. It is not repeated when the connection ends: [ErrLost].
func (c *Client) Do(ctx context.Context, typ, session string, data, out any) error {
	return c.do(ctx, typ, session, data, out, how{once: true})
}

// Create opens a session and returns its id.
func (c *Client) Create(ctx context.Context, s NewSession) (string, error) {
	if s.ClientSessionID == "" {
		s.ClientSessionID = newID()
	}
	var made struct {
		Session string `json:"session"`
	}
	err := c.do(ctx, "create", "", s, &made, how{})
	return made.Session, err
}

// Edit changes a message that nothing has read yet; a read one is a Conflict.
func (c *Client) Edit(ctx context.Context, session, message, text string) error {
	return c.do(ctx, "edit", session, map[string]string{"message": message, "text": text}, nil, how{})
}

// Withdraw takes such a message back.
func (c *Client) Withdraw(ctx context.Context, session, message string) error {
	return c.do(ctx, "withdraw", session, map[string]string{"message": message}, nil, how{})
}

// Move puts such a message before another one; "" is the front.
func (c *Client) Move(ctx context.Context, session, message, before string) error {
	data := map[string]string{"message": message}
	if before != "" {
		data["before"] = before
	}
	return c.do(ctx, "move", session, data, nil, how{})
}

// Cancel stops a task. NotFound says that there is nothing to stop. Without a Task it
// is sent once only, because it would stop another one the second time.
func (c *Client) Cancel(ctx context.Context, session string, what Cancel) (Cancelled, error) {
	var done Cancelled
	err := c.do(ctx, "cancel", session, what, &done, how{once: what.Task == ""})
	return done, err
}

// Clear lets no model see what was before; the log stays.
func (c *Client) Clear(ctx context.Context, session string) error {
	return c.do(ctx, "clear", session, nil, nil, how{})
}

// SetPolicy changes policies of a session; nil takes an override back.
func (c *Client) SetPolicy(ctx context.Context, session string, p Policy) (Changed, error) {
	var changed Changed
	err := c.do(ctx, "policy", session, p, &changed, how{})
	return changed, err
}

// Seen moves this user's read cursor.
func (c *Client) Seen(ctx context.Context, session string, seq uint64) error {
	return c.do(ctx, "seen", session, map[string]uint64{"seq": seq}, nil, how{})
}

// SetTyping tells the others that this user types, if there is a connection.
func (c *Client) SetTyping(session string, on bool) {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil || l.pace.Take(time.Now()) > 0 {
		return
	}
	_ = l.write(frameOut{Type: "typing", Session: session, Data: map[string]bool{"on": on}}) // it is only for display
}

// Ping measures the way to the server and back.
func (c *Client) Ping(ctx context.Context) (time.Duration, error) {
	l, err := c.linked(ctx, "ping")
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, _, err = l.ask(ctx, "ping", "", nil, c.options.Answer)
	return time.Since(began), err
}

// Claim gives a runtime messages of outside sessions (scope runtime). After a lost
// connection it is sent again: what was handed out and not begun is handed out again.
func (c *Client) Claim(ctx context.Context, claim Claim) ([]Claimed, error) {
	wait, _ := time.ParseDuration(claim.Wait)
	var given struct {
		Items []Claimed `json:"items"`
	}
	err := c.do(ctx, "claim", "", claim, &given, how{extra: wait})
	return given.Items, err
}

// newID makes an id that nobody else makes.
func newID() string { return rand.Text() }
