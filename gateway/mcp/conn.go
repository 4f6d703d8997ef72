package mcp

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"parley/gateway/service"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// call is one request of a host, on its way through the SDK.
type call struct {
	*way
	who       *service.Principal
	host      host
	id        jsonrpc.ID
	trace     string
	ctx       context.Context // ends with the request, its client and its credential
	stream    *stream         // nil = it is answered at once
	deadline  time.Time       // when its wait ends, of a stream
	listens   sync.WaitGroup  // who watches sessions for it
	listening int             // how many those are
	acked     chan struct{}   // closed when the host knows what it listens to; nil = it does not listen
}

type callKey struct{}

// callOf is the request that a handler of the SDK works for.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// conn is a connection of the SDK, for one request.
type conn struct {
	call      *call
	in        chan jsonrpc.Message
	response  chan *jsonrpc.Response
	ended     chan struct{}
	end, done sync.Once
}

var (
	_ sdk.Transport  = (*conn)(nil)
	_ sdk.Connection = (*conn)(nil)
)

// Connect implements sdk.Transport.
func (c *conn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// Read implements sdk.Connection.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.in:
		return m, nil
	case <-c.ended:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements sdk.Connection: what the SDK itself has to say is the response, and that a
// host listens.
func (c *conn) Write(_ context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		c.done.Do(func() { c.response <- m })
		return nil
	case *jsonrpc.Request:
		if m.IsCall() || c.call.stream == nil {
			return fmt.Errorf("%s cannot be said here", m.Method)
		}
		b, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			return err
		}
		if !c.call.stream.say("", b) {
			return io.ErrClosedPipe
		}
		if m.Method == "notifications/subscriptions/acknowledged" && c.call.acked != nil {
			close(c.call.acked)
		}
	}
	return nil
}

// Close implements sdk.Connection.
func (c *conn) Close() error {
	c.end.Do(func() { close(c.ended) })
	return nil
}

// SessionID implements sdk.Connection.
func (c *conn) SessionID() string { return "" }

// run has the SDK answer a request. It returns when nothing works for it any more.
func (m *way) run(k *call, r *jsonrpc.Request) (*jsonrpc.Response, error) {
	c := &conn{call: k, in: make(chan jsonrpc.Message, 1), response: make(chan *jsonrpc.Response, 1), ended: make(chan struct{})}
	if r.Method == methodListen {
		k.acked = make(chan struct{})
	}
	var options *sdk.ServerSessionOptions
	if k.host.Version < versionNoState && r.Method != "initialize" {
		options = &sdk.ServerSessionOptions{State: k.host.state()}
	}
	session, err := m.server.Connect(context.WithValue(k.ctx, callKey{}, k), c, options)
	if err != nil {
		return nil, err
	}
	defer k.listens.Wait()
	defer func() { _ = session.Close() }() // it waits for the handler
	c.in <- r
	select {
	case response := <-c.response:
		return response, nil
	case <-k.ctx.Done():
		return nil, k.ctx.Err()
	}
}

// serve answers a request on its stream.
func (m *way) serve(k *call, r *jsonrpc.Request) {
	if r.Method == methodListen { // it has no answer to end with
		ctx, cancel := context.WithCancel(k.ctx)
		defer cancel()
		defer context.AfterFunc(k.stream.leaving, cancel)()
		k.ctx = ctx
	}
	response, err := m.run(k, r)
	if err != nil {
		return // the client has gone, or may not ask any more
	}
	if b, err := jsonrpc.EncodeMessage(response); err == nil {
		k.stream.say("", b)
	}
}

// survive keeps a panic of one request from ending the process: the SDK has no such thing, and
// runs each in a goroutine of its own. It also ends a handler with its request: the SDK lets it go on.
func (m *way) survive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				m.Metrics.Panics.Inc()
				m.Log.Error("panic", "where", "mcp", "panic", p, "stack", service.Stack())
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "something went wrong on the server"}
			}
		}()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := context.AfterFunc(callOf(ctx).ctx, cancel)
		defer stop()
		return next(ctx, method, req)
	}
}

// callID names a call of a host, or a form that its user has open.
type callID struct {
	nonce string
	id    jsonrpc.ID
}

// calls are those that wait on this node. What is lost with them: a host that cancels by way of
// another node leaves its call waiting until its time is over or its connection ends.
type calls struct {
	mu  sync.Mutex
	all map[callID]*wait
}

func newCalls() *calls { return &calls{all: map[callID]*wait{}} }

// wait is what others tell a call that waits.
type wait struct {
	mu      sync.Mutex
	stopped bool
	answers map[string]bool // by the id of a form: whether its user has answered
	wake    context.CancelFunc
}

func (c *calls) begin(id callID) (w *wait, end func()) {
	w = &wait{answers: map[string]bool{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[id] = w
	return w, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.all[id] == w {
			delete(c.all, id)
		}
	}
}

func (c *calls) find(id callID) *wait {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[id]
}

func (c *calls) cancel(id callID) {
	if w := c.find(id); w != nil {
		w.tell(func() { w.stopped = true })
	}
}

func (w *wait) tell(what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what()
	if w.wake != nil {
		w.wake()
	}
}

// until is ctx, which also ends when something is told.
func (w *wait) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake = cancel
	return ctx, cancel
}

// told is whether the host has cancelled, and what its user has done with a form.
func (w *wait) told(form string) (stopped, decided, answered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answered, decided = w.answers[form]
	return w.stopped, decided, answered
}
