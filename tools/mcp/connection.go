package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// transport is the transport of one connection. It can be ended in any state.
type transport interface {
	sdk.Transport
	// terminate ends the transport and everything that depends on it. For a program
	// that had already exited by itself it returns how; otherwise "". Idempotent.
	terminate() string
}

var (
	_ transport = (*process)(nil)
	_ transport = (*endpoint)(nil)
)

// errDisconnected ends calls whose connection is gone.
var errDisconnected = errors.New("the connection was lost")

// errNotTaken is the error of a request that the server certainly did not take.
var errNotTaken = errors.New("the server did not take the request")

// errNoAnswer is the error of an attempt to connect that got no answer in time.
var errNoAnswer = errors.New("it did not answer in time")

// progressEvery is the least time between two notes of one call that are shown.
const progressEvery = 100 * time.Millisecond

// maxPages bounds a list of tools, however small its pages are.
const maxPages = 100

// connection is one live connection. The server's goroutine opens and closes it,
// and so owns the goroutines in it.
type connection struct {
	transport    transport
	conn         sdk.Connection
	session      *sdk.ClientSession
	ctx          context.Context // ends its calls
	cancel       context.CancelFunc
	changed      chan struct{} // a value when the server says that a list of it has changed
	disconnected chan struct{}
	once         sync.Once
	err          error // why it is disconnected; to be read after disconnected is closed

	tokens   atomic.Uint64
	progress sync.Map // token → func(*sdk.ProgressNotificationParams)

	mu      sync.Mutex
	closing bool
	askers  map[*asker]bool // the calls during which the server may ask, also those that were stopped just now
	wg      sync.WaitGroup  // goroutines: calls, the watcher
	calls   sync.WaitGroup  // of these, the calls
}

// Connect hands the library the connection that open made.
func (l *connection) Connect(context.Context) (sdk.Connection, error) { return l.conn, nil }

// elicitor answers a server's question to the user.
type elicitor func(context.Context, *connection, *sdk.ElicitParams) (*sdk.ElicitResult, error)

// open connects. It returns when ctx ends, and leaves nothing behind after an error.
// Without elicit the server is told that nobody can be asked.
func open(ctx context.Context, t transport, protocol string, elicit elicitor) (*connection, error) {
	l := &connection{transport: t, askers: map[*asker]bool{}, changed: make(chan struct{}, 1), disconnected: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	options := &sdk.ClientOptions{
		// The library's own log could hold addresses and session ids.
		Logger:                     slog.New(slog.DiscardHandler),
		Capabilities:               &sdk.ClientCapabilities{}, // no roots, no sampling
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { l.listChanged() },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { l.listChanged() },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { l.listChanged() },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			token, _ := r.Params.ProgressToken.(string)
			if show, ok := l.progress.Load(token); ok {
				show.(func(*sdk.ProgressNotificationParams))(r.Params)
			}
		},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	}
	if elicit != nil {
		options.Capabilities.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}
		options.ElicitationHandler = func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return elicit(ctx, l, r.Params)
		}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "parley", Version: "1"}, options)
	if e, ok := t.(*endpoint); ok {
		e.onFailure(l.fail)
	}
	// We make the connection, not the library, so that we can always end it.
	var err error
	if l.conn, err = t.Connect(ctx); err != nil {
		l.cancel()
		t.terminate()
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		var err error
		l.session, err = client.Connect(ctx, l, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		// The library may wait for a server that neither reads nor ends.
		l.abort()
		if err = <-done; err == nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		l.cancel()
		l.abort()
		if l.session != nil {
			_ = l.session.Close()
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", errNoAnswer, ctx.Err())
		}
		if reason := t.terminate(); reason != "" {
			return nil, fmt.Errorf("it ended: %s", reason)
		}
		return nil, err
	}
	l.wg.Go(func() {
		err := l.session.Wait()
		if err == nil {
			err = errDisconnected
		}
		l.fail(err)
	})
	return l, nil
}

func (l *connection) listChanged() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// fail marks the connection as disconnected. Only the first error counts. Where the
// endpoint has forgotten the session, close ends the calls.
func (l *connection) fail(err error) {
	l.once.Do(func() {
		l.err = err
		if !errors.Is(err, errForgotten) {
			l.cancel()
		}
		close(l.disconnected)
	})
}

// lost tells whether the connection is disconnected.
func (l *connection) lost() bool {
	select {
	case <-l.disconnected:
		return true
	default:
		return false
	}
}

// abort ends the connection without telling the server.
func (l *connection) abort() {
	closed := make(chan struct{})
	go func() { // may wait for a write, which terminate unblocks
		defer close(closed)
		_ = l.conn.Close()
	}()
	l.transport.terminate()
	<-closed
}

// close ends calls, connection and program, and returns when they are gone. The
// server is asked first and may take the grace.
func (l *connection) close(grace time.Duration) (reason string) {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	if l.lost() && errors.Is(l.err, errForgotten) {
		// The other calls that were sent will be told the same, each by itself, and
		// can be made once more then.
		told := make(chan struct{})
		go func() {
			defer close(told)
			l.calls.Wait()
		}()
		within(told, grace)
	}
	l.cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = l.session.Close()
	}()
	within(closed, grace)
	reason = l.transport.terminate()
	<-closed
	l.wg.Wait()
	return reason
}

// protocol returns the version that both sides agreed on, and the name that the
// server gives itself.
func (l *connection) protocol() (version, server string) {
	r := l.session.InitializeResult()
	if r == nil {
		return "", ""
	}
	if r.ServerInfo != nil {
		server = r.ServerInfo.Name + " " + r.ServerInfo.Version
	}
	return r.ProtocolVersion, server
}

// tools lists the tools of the server; more says that there are more than limit.
func (l *connection) tools(ctx context.Context, limit int) (tools []*sdk.Tool, more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(l.ctx, cancel)()
	defer cancel()
	if r := l.session.InitializeResult(); r != nil && r.Capabilities != nil && r.Capabilities.Tools == nil {
		return nil, false, nil
	}
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := l.session.ListTools(ctx, params)
		if err != nil {
			return nil, false, err
		}
		for _, tool := range page.Tools {
			if len(tools) == limit {
				return tools, true, nil
			}
			tools = append(tools, tool)
		}
		if page.NextCursor == "" {
			return tools, false, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return tools, true, nil
}

// call calls a tool once. It returns when ctx ends, whatever the server does. The server
// may ask the user by a, if there is one.
func (l *connection) call(ctx context.Context, params *sdk.CallToolParams, a *asker, show func(note string, percent *int)) (*sdk.CallToolResult, error) {
	if a != nil {
		defer l.mayAsk(ctx, a)()
	}
	token := strconv.FormatUint(l.tokens.Add(1), 10)
	params.SetProgressToken(token)
	if show != nil {
		l.progress.Store(token, progressOf(show))
		defer l.progress.Delete(token)
	}
	return request(ctx, l, func(ctx context.Context) (*sdk.CallToolResult, error) { return l.session.CallTool(ctx, params) })
}

// lingers is how long a server may go on with a call that it was told to stop.
const lingers = time.Minute

// mayAsk notes a call during which the server may ask, until the returned function is
// called. One that was stopped counts for some time more: the server may not have heard.
func (l *connection) mayAsk(ctx context.Context, a *asker) (ended func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.askers[a] = true
	forget := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.askers, a)
	}
	return func() {
		if ctx.Err() == nil {
			forget()
		} else {
			time.AfterFunc(lingers, forget)
		}
	}
}

// request makes one request. It returns when ctx ends, whatever the server does. Its
// error is errNotTaken if the server certainly did nothing.
func request[R any](ctx context.Context, l *connection, do func(context.Context) (R, error)) (result R, err error) {
	l.mu.Lock()
	if l.closing || l.lost() {
		l.mu.Unlock()
		return result, errNotTaken
	}
	l.wg.Add(1)
	l.calls.Add(1)
	l.mu.Unlock()

	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	inner, notTaken := watched(inner)
	type outcome struct {
		result R
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		defer l.wg.Done()
		defer l.calls.Done()
		result, err := do(inner)
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		if result, err = o.result, o.err; err == nil {
			return result, nil
		}
	case <-inner.Done():
		err = errDisconnected
	}
	switch {
	case ctx.Err() != nil:
		return result, ctx.Err()
	case notTaken.Load():
		return result, errNotTaken
	case l.lost():
		return result, errDisconnected
	}
	return result, err
}

// progressOf hands a server's progress notes of one call to show, at most one every
// progressEvery. The library calls it for one note after the other.
func progressOf(show func(string, *int)) func(*sdk.ProgressNotificationParams) {
	var last time.Time
	return func(p *sdk.ProgressNotificationParams) {
		if now := time.Now(); now.Sub(last) >= progressEvery {
			last = now
		} else {
			return
		}
		var percent *int
		if share := 100 * p.Progress / p.Total; p.Total > 0 && !math.IsNaN(share) {
			n := int(math.Max(0, math.Min(100, share)))
			percent = &n
		}
		show(p.Message, percent)
	}
}
