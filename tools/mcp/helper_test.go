package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"parley/conversation"
)

// TestMain is also the program that the tests start (process_test.go).
func TestMain(m *testing.M) {
	if role := os.Getenv("MCP_TEST_ROLE"); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// peer is a server of the tests: what it did, and what it waits for.
type peer struct {
	*sdk.Server
	calls   atomic.Int32
	started chan struct{} // a call of slow has begun
	ended   chan struct{} // and was cancelled
	release chan struct{} // ends a call of deaf
}

type textArgs struct {
	Text string `json:"text" jsonschema:"what to say"`
}

type noArgs struct{}

type slowArgs struct {
	Quick bool `json:"quick,omitempty" jsonschema:"do not wait"`
}

func newPeer() *peer {
	p := &peer{started: make(chan struct{}, 8), ended: make(chan struct{}, 8), release: make(chan struct{})}
	p.Server = sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "7"}, nil)
	add(p, "echo", "Says it again.", func(_ context.Context, _ *sdk.CallToolRequest, in textArgs) (*sdk.CallToolResult, error) {
		return said("you said " + in.Text), nil
	})
	add(p, "fail", "Fails.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
		return nil, errors.New("the disk is on fire")
	})
	add(p, "slow", "Waits for a cancel.", func(ctx context.Context, _ *sdk.CallToolRequest, in slowArgs) (*sdk.CallToolResult, error) {
		if in.Quick {
			return said("no"), nil
		}
		p.started <- struct{}{}
		<-ctx.Done()
		p.ended <- struct{}{}
		return nil, ctx.Err()
	})
	add(p, "deaf", "Does not listen.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
		p.started <- struct{}{}
		<-p.release
		return said("at last"), nil
	})
	return p
}

func add[In any](p *peer, name, description string, run func(context.Context, *sdk.CallToolRequest, In) (*sdk.CallToolResult, error)) {
	sdk.AddTool(p.Server, &sdk.Tool{Name: name, Description: description}, func(ctx context.Context, r *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		p.calls.Add(1)
		result, err := run(ctx, r, in)
		return result, nil, err
	})
}

// raw adds a tool as a server may send it, whatever it is.
func (p *peer) raw(tool *sdk.Tool) {
	if tool.InputSchema == nil {
		tool.InputSchema = &jsonschema.Schema{Type: "object"}
	}
	p.AddTool(tool, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		p.calls.Add(1)
		return said("ok"), nil
	})
}

func said(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// memory is a transport to a peer in the same process.
type memory struct {
	server *sdk.Server
	mu     sync.Mutex
	there  *peerEnd
}

// peerEnd is the peer's end of a transport.
type peerEnd struct {
	sdk.Transport
	conn sdk.Connection
}

func (p *peerEnd) Connect(ctx context.Context) (conn sdk.Connection, err error) {
	p.conn, err = p.Transport.Connect(ctx)
	return p.conn, err
}

func (m *memory) Connect(ctx context.Context) (sdk.Connection, error) {
	if m.server == nil {
		return nil, errors.New("nobody is there")
	}
	ours, theirs := sdk.NewInMemoryTransports()
	there := &peerEnd{Transport: theirs}
	if _, err := m.server.Connect(context.WithoutCancel(ctx), there, nil); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.there = there
	m.mu.Unlock()
	return ours.Connect(ctx)
}

// terminate is also how a peer dies: its end is closed. A session of the SDK that is asked
// to close waits for its handlers, and one of them may wait for the close.
func (m *memory) terminate() string {
	m.mu.Lock()
	there := m.there
	m.there = nil
	m.mu.Unlock()
	if there != nil {
		_ = there.conn.Close()
	}
	return ""
}

// world is a set of servers under test.
type world struct {
	*Servers
	t      *testing.T
	lines  []func() *memory // of each server: its transport now
	log    *logged
	states chan Status
}

type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// inMemory prepares servers whose transports are in memory; dial may refuse.
func inMemory(t *testing.T, o Options, dial ...func(attempt int) (*sdk.Server, error)) *world {
	t.Helper()
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	w := &world{t: t, log: &logged{}, states: make(chan Status, 10_000)}
	o.Logger = w.log.logger()
	o.OnStatus = func(st Status) { w.states <- st }
	for i := range o.Servers {
		if o.Servers[i].Command == "" && o.Servers[i].URL == "" {
			o.Servers[i].Command = "unused"
		}
	}
	servers, err := prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Servers = servers
	for i, dial := range dial {
		var mu sync.Mutex
		var now *memory
		attempt := 0
		servers.servers[i].dial = func() (transport, redactor, error) {
			mu.Lock()
			defer mu.Unlock()
			attempt++
			server, err := dial(attempt)
			if err != nil {
				return nil, redactor{}, err
			}
			now = &memory{server: server}
			return now, redactor{}, nil
		}
		w.lines = append(w.lines, func() *memory { mu.Lock(); defer mu.Unlock(); return now })
	}
	t.Cleanup(servers.Close)
	return w
}

// withSecret gives a secret to the servers, before they are opened.
func withSecret(w *world, secret string) *world {
	for _, s := range w.servers {
		dial := s.dial
		s.dial = func() (transport, redactor, error) {
			t, _, err := dial()
			return t, newRedactor([]string{secret}), err
		}
	}
	return w
}

func (w *world) open() *world {
	w.t.Helper()
	if err := w.Servers.open(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w
}

// until waits for a status.
func (w *world) until(what string, ok func(Status) bool) Status {
	w.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case st := <-w.states:
			if ok(st) {
				return st
			}
		case <-deadline:
			w.t.Fatalf("never %s; now %+v\n%s", what, w.Status(), w.log)
		}
	}
}

func always(p *peer) func(int) (*sdk.Server, error) {
	return func(int) (*sdk.Server, error) { return p.Server, nil }
}

func single(_ *peer, change ...func(*Options)) Options {
	o := Options{Servers: []Server{DefaultServer("peer")}, Limits: DefaultLimits()}
	for _, c := range change {
		c(&o)
	}
	return o
}

func (w *world) tool(name string) conversation.Tool {
	w.t.Helper()
	for _, tool := range w.Tools() {
		if tool.Spec().Name == name {
			return tool
		}
	}
	w.t.Fatalf("there is no tool %s in %v; %+v\n%s", name, names(w.Servers), w.Status(), w.log)
	return nil
}

func names(s *Servers) []string {
	var all []string
	for _, tool := range s.Tools() {
		all = append(all, tool.Spec().Name)
	}
	return all
}

func call(args string) conversation.ToolCall {
	return conversation.ToolCall{
		Key:  conversation.SessionKey{Tenant: "default", Session: "s1"},
		Call: "c1", Args: json.RawMessage(args), Progress: func(string, *int) {},
	}
}

// run calls a tool and wants a result or, with an "!", an error that holds text.
func (w *world) run(name, args, want string) {
	w.t.Helper()
	got, err := w.tool(name).Run(w.t.Context(), call(args))
	if text, failure := strings.CutPrefix(want, "!"); failure {
		if err == nil || !strings.Contains(err.Error(), text) {
			w.t.Errorf("%s(%s) is %.200q, %v; want an error with %q", name, args, got, err, text)
		}
		return
	}
	if err != nil || got != want {
		w.t.Errorf("%s(%s) is %.200q, %v; want %q", name, args, got, err, want)
	}
}

// counted compares what the first server has counted of its calls.
func (w *world) counted(want map[Outcome]int) {
	w.t.Helper()
	if got := w.Status()[0].Calls; !maps.Equal(got, want) {
		w.t.Errorf("the calls are counted as %v, not %v", got, want)
	}
}
