package parley

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"parley/clients/go/internal/pace"
	"parley/clients/go/internal/refusal"
)

const (
	subprotocol  = "parley.v1"
	maxFrame     = 64 << 20         // a frame of the server
	writeTimeout = 15 * time.Second // of one command
	dialTimeout  = 20 * time.Second // until the answer to hello
)

// A link is one connection.
type link struct {
	ws    *websocket.Conn
	hello Hello
	token string // that it said hello with
	pace  *pace.Pace
	kick  chan struct{} // capacity 1: a follow or a watch is to be sent
	used  bool          // it has brought something; of its reader

	ctx context.Context // ends with the link; its cause is why
	end context.CancelCauseFunc

	mu      sync.Mutex
	next    int
	waiting map[string]*asked
	goaway  *goaway
}

// asked is a command that has no answer yet.
type asked struct {
	then func(*frameIn, error)
	late *time.Timer
}

// open connects and says hello.
func (c *Client) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	token, err := c.options.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("parley: no token: %w", err)
	}
	ws, response, err := websocket.Dial(ctx, c.socketURL, &websocket.DialOptions{
		HTTPClient: c.http, Subprotocols: []string{subprotocol},
	})
	if err != nil {
		return nil, refusedUpgrade(response, err)
	}
	ws.SetReadLimit(maxFrame)
	l := &link{ws: ws, token: token, kick: make(chan struct{}, 1), waiting: map[string]*asked{}}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	if err := l.greet(ctx, c.options); err != nil {
		l.end(err)
		ws.CloseNow()
		return nil, err
	}
	return l, nil
}

// greet says hello and reads the answer, which is the first frame.
func (l *link) greet(ctx context.Context, o Options) error {
	data := map[string]any{"proto": 1, "caps": o.Caps, "client": map[string]string{"name": o.Name, "version": o.Version}}
	if l.token != "" {
		data["token"] = l.token
	}
	b, err := json.Marshal(map[string]any{"type": "hello", "id": "hello", "data": data})
	if err != nil {
		return err
	}
	if err := l.ws.Write(ctx, websocket.MessageText, b); err != nil {
		return closeError(err)
	}
	for {
		_, b, err := l.ws.Read(ctx)
		if err != nil {
			return closeError(err)
		}
		var f frameIn
		if err := json.Unmarshal(b, &f); err != nil {
			return fmt.Errorf("parley: the answer to hello: %w", err)
		}
		switch {
		case f.Type == "error" && f.Error != nil:
			return refusedBy(f.Error)
		case f.Type == "ok":
			if err := json.Unmarshal(f.Data, &l.hello); err != nil {
				return fmt.Errorf("parley: the answer to hello: %w", err)
			}
			l.pace = pace.New(l.hello.Limits.CommandsPerSecond, l.hello.Limits.CommandsBurst, time.Now())
			return nil
		}
	}
}

// refusedUpgrade is the error of a handshake: a problem if the server has sent one.
func refusedUpgrade(response *http.Response, err error) error {
	if response == nil || response.Body == nil {
		return fmt.Errorf("parley: no connection: %w", err)
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return refusedBy(refusal.Of(response, body))
}

// closeError is the server's close code, if there is one.
func closeError(err error) error {
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		return &CloseError{Code: int(closed.Code), Reason: closed.Reason}
	}
	return fmt.Errorf("parley: the connection ended: %w", err)
}

// serve reads frames until the link ends, and says why it did.
func (l *link) serve(silence time.Duration, handle func(Event)) error {
	defer l.ws.CloseNow()
	for {
		b, err := l.read(silence)
		if err != nil {
			l.end(err)
			l.forget(context.Cause(l.ctx))
			return context.Cause(l.ctx)
		}
		var f frameIn
		if err := json.Unmarshal(b, &f); err != nil {
			l.end(fmt.Errorf("parley: a frame that is no JSON object: %w", err))
			continue
		}
		if f.Type == "ok" || f.Type == "error" {
			l.answered(&f)
			continue
		}
		e := f.event(b)
		l.used = l.used || e.Seq > 0
		if g, ok := e.Body.(*goaway); ok {
			l.mu.Lock()
			l.goaway = g
			l.mu.Unlock()
		}
		handle(e)
	}
}

// read reads one frame; a server that says nothing for too long has gone, even if
// its connection has not.
func (l *link) read(silence time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, silence, errSilent)
	defer cancel()
	_, b, err := l.ws.Read(ctx)
	switch {
	case err == nil:
		return b, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	default:
		return nil, closeError(err)
	}
}

func (l *link) answered(f *frameIn) {
	if f.Re == nil { // the server could not read what we sent; nobody waits for that
		return
	}
	l.mu.Lock()
	a := l.waiting[*f.Re]
	delete(l.waiting, *f.Re)
	l.mu.Unlock()
	if a != nil {
		l.used = l.used || f.Type == "ok"
		a.late.Stop()
		a.then(f, nil)
	}
}

// forget tells all that wait for answers that none will come.
func (l *link) forget(err error) {
	l.mu.Lock()
	all := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, a := range all {
		a.late.Stop()
		a.then(nil, err)
	}
}

// away says how long the server wants to be left alone; false if it did not say.
func (l *link) away() (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.goaway == nil {
		return 0, false
	}
	return time.Duration(l.goaway.RetryInMS) * time.Millisecond, true
}

// frameOut is a command.
type frameOut struct {
	Type    string `json:"type"`
	ID      string `json:"id,omitempty"`
	Session string `json:"session,omitempty"`
	Data    any    `json:"data,omitempty"`
}

// command sends one. then is called once, by the reader of the link, with the answer
// or with why none will come; with an error of command it is not called. A command
// without an answer in time ends the link.
func (l *link) command(typ, session string, data any, within time.Duration, then func(*frameIn, error)) (forget func(), err error) {
	l.mu.Lock()
	if l.waiting == nil {
		l.mu.Unlock()
		return nil, context.Cause(l.ctx)
	}
	l.next++
	id := strconv.Itoa(l.next)
	a := &asked{then: then, late: time.AfterFunc(within, func() { l.end(errNoAnswer) })}
	l.waiting[id] = a
	l.mu.Unlock()
	forget = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.late.Stop()
		delete(l.waiting, id)
	}
	if err := l.write(frameOut{Type: typ, ID: id, Session: session, Data: data}); err != nil {
		forget()
		return nil, err
	}
	return forget, nil
}

// write writes a frame. It has a bound of its own: a write that is given up ends the
// connection, so the context of one command must not do it.
func (l *link) write(f frameOut) error {
	b, err := json.Marshal(f)
	if err != nil {
		return &Error{Code: BadRequest, Message: err.Error()}
	}
	if most := l.hello.Limits.FrameBytes; most > 0 && len(b) > most { // the server would end the connection, each time
		return &Error{Code: TooLarge, Message: fmt.Sprintf("this is longer than the %d bytes that the server takes at once", most)}
	}
	ctx, cancel := context.WithTimeout(l.ctx, writeTimeout)
	defer cancel()
	if err := l.ws.Write(ctx, websocket.MessageText, b); err != nil {
		l.end(closeError(err))
		return context.Cause(l.ctx)
	}
	return nil
}

// ask sends a command and waits for its answer. lost says that the connection ended
// after it was sent.
func (l *link) ask(ctx context.Context, typ, session string, data any, within time.Duration) (answer json.RawMessage, lost bool, err error) {
	type result struct {
		f   *frameIn
		err error
	}
	got := make(chan result, 1)
	forget, err := l.command(typ, session, data, within, func(f *frameIn, err error) { got <- result{f, err} })
	if err != nil {
		var unfit *Error
		return nil, !errors.As(err, &unfit), err
	}
	select {
	case <-ctx.Done():
		forget()
		return nil, false, context.Cause(ctx)
	case r := <-got:
		switch {
		case r.err != nil:
			return nil, true, r.err
		case r.f.Error != nil:
			return nil, false, refusedBy(r.f.Error)
		}
		return r.f.Data, false, nil
	}
}

// nudge makes the link's follower look for what is to be sent.
func (l *link) nudge() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}
