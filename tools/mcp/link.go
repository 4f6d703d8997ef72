package mcp

import (
	"context"
	"encoding/json"
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

// line is a transport of one connection that can be torn down whatever state it
// is in.
type line interface {
	sdk.Transport
	// end ends it and everything that hangs on it; what it returns says how a
	// program ended that ended by itself. Idempotent.
	end() string
}

var (
	_ line = (*process)(nil)
	_ line = (*endpoint)(nil)
)

// errLost ends calls whose connection is gone.
var errLost = errors.New("the connection was lost")

// errNoAnswer is a connection that came to nothing in its time.
var errNoAnswer = errors.New("it did not answer in time")

// progressEvery is the least time between two notes of one call that are shown.
const progressEvery = 100 * time.Millisecond

// maxPages bounds a list of tools, however small its pages are.
const maxPages = 100

// link is one live connection. Its goroutines are owned by the server's, which
// opens and closes it.
type link struct {
	line    line
	conn    sdk.Connection
	session *sdk.ClientSession
	ctx     context.Context // ends its calls
	cancel  context.CancelFunc
	changed chan struct{} // the list of tools is another
	lost    chan struct{}
	once    sync.Once
	err     error // why it is lost; after lost

	tokens   atomic.Uint64
	progress sync.Map // token → func(*sdk.ProgressNotificationParams)

	mu      sync.Mutex
	closing bool
	wg      sync.WaitGroup // goroutines: calls, the watcher
}

// Connect hands the library the connection that open made.
func (l *link) Connect(context.Context) (sdk.Connection, error) { return l.conn, nil }

// open connects. It returns when ctx ends, and leaves nothing behind after an error.
func open(ctx context.Context, ln line, protocol string) (*link, error) {
	l := &link{line: ln, changed: make(chan struct{}, 1), lost: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	client := sdk.NewClient(&sdk.Implementation{Name: "parley", Version: "1"}, &sdk.ClientOptions{
		// The library's own log could hold addresses and session ids.
		Logger:       slog.New(slog.DiscardHandler),
		Capabilities: &sdk.ClientCapabilities{}, // no roots, no sampling, no questions
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case l.changed <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			token, _ := r.Params.ProgressToken.(string)
			if show, ok := l.progress.Load(token); ok {
				show.(func(*sdk.ProgressNotificationParams))(r.Params)
			}
		},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	if e, ok := ln.(*endpoint); ok {
		e.onLost(l.fail)
	}
	// Made here and not by the library, so that what was begun can always be ended.
	var err error
	if l.conn, err = ln.Connect(ctx); err != nil {
		l.cancel()
		ln.end()
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
		l.cut()
		if err = <-done; err == nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		l.cancel()
		l.cut()
		if l.session != nil {
			_ = l.session.Close()
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", errNoAnswer, ctx.Err())
		}
		if fate := ln.end(); fate != "" {
			return nil, fmt.Errorf("it ended: %s", fate)
		}
		return nil, err
	}
	l.wg.Go(func() {
		err := l.session.Wait()
		if err == nil {
			err = errLost
		}
		l.fail(err)
	})
	return l, nil
}

// fail says that the connection is gone.
func (l *link) fail(err error) {
	l.once.Do(func() {
		l.err = err
		l.cancel()
		close(l.lost)
	})
}

// cut ends the connection without asking.
func (l *link) cut() {
	closed := make(chan struct{})
	go func() { // may wait for a write, which the line's end unblocks
		defer close(closed)
		_ = l.conn.Close()
	}()
	l.line.end()
	<-closed
}

// close ends calls, connection and program, and returns when they are gone. The
// server is asked first and may take the grace.
func (l *link) close(grace time.Duration) (fate string) {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = l.session.Close()
	}()
	within(closed, grace)
	fate = l.line.end()
	<-closed
	l.wg.Wait()
	return fate
}

// protocol is the version that was agreed on, and who the server says it is.
func (l *link) protocol() (version, server string) {
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
func (l *link) tools(ctx context.Context, limit int) (tools []*sdk.Tool, more bool, err error) {
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

// call calls a tool once. It returns when ctx ends, whatever the server does.
func (l *link) call(ctx context.Context, tool string, args json.RawMessage, show func(note string, percent *int)) (*sdk.CallToolResult, error) {
	l.mu.Lock()
	if l.closing || l.ctx.Err() != nil {
		l.mu.Unlock()
		return nil, errLost
	}
	l.wg.Add(1)
	l.mu.Unlock()

	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	params := &sdk.CallToolParams{Meta: sdk.Meta{}, Name: tool, Arguments: args}
	token := strconv.FormatUint(l.tokens.Add(1), 10)
	params.SetProgressToken(token)
	if show != nil {
		l.progress.Store(token, progressOf(show))
		defer l.progress.Delete(token)
	}
	type outcome struct {
		result *sdk.CallToolResult
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		defer l.wg.Done()
		result, err := l.session.CallTool(inner, params)
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		switch {
		case o.err == nil:
			return o.result, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case l.ctx.Err() != nil:
			return nil, errLost
		}
		return nil, o.err
	case <-inner.Done():
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errLost
	}
}

// progressOf shows what a server says of a call, not too often. The calls of one
// token come one after the other.
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
