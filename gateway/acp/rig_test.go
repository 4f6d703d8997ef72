package acp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/service"
	"parley/metrics"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

// Every goroutine has an owner: none is left when the tests end.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/gofiber/fiber/v2/utils.StartTimeStampUpdater.func1.1"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	)
}

// patience only bounds a failing test.
const patience = 10 * time.Second

// rig is a running server with a stand-in for the engine: the test plays the model.
type rig struct {
	t        testing.TB
	sessions *gatewaytest.Sessions
	addr     string
}

type setup func(*gateway.Config, *gateway.Deps)

func begin(t testing.TB, changes ...setup) *rig {
	t.Helper()
	m := metrics.NewGateway(metrics.NewRegistry())
	hub := gateway.NewHub(m)
	r := &rig{t: t, sessions: gatewaytest.NewSessions(hub)}
	cfg := gateway.DefaultConfig()
	cfg.Listen, cfg.Version = "127.0.0.1:0", "test"
	cfg.Limits.CommandsPerSecond = 0
	deps := gateway.Deps{Sessions: r.sessions, Hub: hub, Metrics: m, Logger: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&cfg, &deps)
	}
	server, err := gateway.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	r.addr = addr.String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		<-ended
		r.sessions.Close()
	}))
	return r
}

// keyring knows users by their tokens.
type keyring map[string]*service.Principal

func (keyring) Mode() string { return "keys" }

func (k keyring) Authenticate(_ context.Context, c service.Credential) (*service.Principal, error) {
	if p := k[c.Token]; p != nil {
		return p, nil
	}
	return nil, conversation.Errorf(conversation.Unauthenticated, "who are you?")
}

func withKeys(_ *gateway.Config, d *gateway.Deps) {
	all := []string{service.ScopeChat, service.ScopeReadTools}
	d.Authenticator = keyring{
		"ann": {Tenant: "default", User: "ann", Scopes: all}, "bob": {Tenant: "default", User: "bob", Name: "Bob", Scopes: all},
		"eve": {Tenant: "other", User: "ann", Scopes: all}, "ops": {Tenant: "default", User: "ops", Scopes: []string{service.ScopeAdmin}},
		"low": {Tenant: "default", User: "ann", Scopes: []string{service.ScopeChat}},
	}
}

// client is an editor, by hand.
type client struct {
	t    testing.TB
	ws   *websocket.Conn
	held []string // frames that were read while an answer was waited for
	n    int
}

func dial(addr, token string) (*websocket.Conn, *http.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return websocket.Dial(ctx, "ws://"+addr+"/acp", &websocket.DialOptions{HTTPHeader: header})
}

// connect is a client that has said nothing.
func (r *rig) connect(token string) *client {
	r.t.Helper()
	ws, _, err := dial(r.addr, token)
	if err != nil {
		r.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	r.t.Cleanup(func() { _ = ws.CloseNow() })
	return &client{t: r.t, ws: ws}
}

// editor is a client that has said initialize, under the name "ed".
func (r *rig) editor(token string, capabilities string) *client {
	r.t.Helper()
	c := r.connect(token)
	c.write(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":` + capabilities + `,"_meta":{"parley":{"client":"ed"}}}}`)
	c.until(`"id":"hello"`)
	return c
}

const forms = `{"elicitation":{"form":{}}}`

func (c *client) write(text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) read() string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, b, err := c.ws.Read(ctx)
	if err != nil {
		c.t.Fatalf("%v, behind %s", err, strings.Join(c.held, "\n"))
	}
	if !json.Valid(b) {
		c.t.Fatalf("no JSON: %s", b)
	}
	return string(b)
}

// until reads until a frame has a text, and gives back all that was read.
func (c *client) until(text string) []string {
	c.t.Helper()
	c.held = nil
	for {
		frame := c.read()
		c.held = append(c.held, frame)
		if strings.Contains(frame, text) {
			return c.held
		}
	}
}

// do sends a request and gives back its answer, and what came before it.
func (c *client) do(method, params string) (answer string, before []string) {
	c.t.Helper()
	c.n++
	id := `"id":` + string(rune('0'+c.n))
	c.write(`{"jsonrpc":"2.0",` + id + `,"method":"` + method + `","params":` + params + `}`)
	frames := c.until(id + ",")
	return frames[len(frames)-1], frames[:len(frames)-1]
}
