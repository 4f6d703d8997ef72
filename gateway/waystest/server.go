package waystest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/attach"
	"parley/gateway/gatewaytest"
	"parley/gateway/service"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

// Patience only bounds a failing test: no passing test waits for it.
const Patience = 30 * time.Second

// Main runs the tests of a room and fails if one of them leaves a goroutine behind.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's clock for Date headers and its idle worker pools, once a process.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/gofiber/fiber/v2/utils.StartTimeStampUpdater.func1.1"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	)
}

// Setup changes what a server is made of.
type Setup = func(*gateway.Config, *gateway.Deps)

// Rig is a running gateway with a stand-in for the engine: the real machine in memory.
type Rig struct {
	T        testing.TB
	Sessions *gatewaytest.Sessions
	Gateway  *gateway.Server
	Hub      *gateway.Hub
	Files    *attach.Files // nil = a setup has taken them away
	Registry *prometheus.Registry
	Addr     string // host:port
	URL      string // without a slash at its end
	HTTP     *http.Client

	// Stop ends the gateway and gives back what Run returned. A test that does not call it has
	// it called at its end. Sessions go on until then.
	Stop func() error
}

// Begin starts a gateway on a free port, with the default configuration; it logs nothing. It is
// stopped when the test ends.
func Begin(t testing.TB, changes ...Setup) *Rig {
	t.Helper()
	r := &Rig{T: t, Registry: metrics.NewRegistry()}
	m := metrics.NewGateway(r.Registry)
	r.Hub = gateway.NewHub(m)
	r.Sessions = gatewaytest.NewSessions(r.Hub)
	cfg := gateway.DefaultConfig()
	cfg.Listen, cfg.Version = "127.0.0.1:0", "test"
	deps := gateway.Deps{
		Sessions: r.Sessions, Hub: r.Hub, Lists: r.Sessions.Lists, Metrics: m, Gatherer: r.Registry, Logger: slog.New(slog.DiscardHandler),
	}
	deps.Files = &attach.Files{Settings: attach.Defaults(), Store: r.Sessions.Blobs(), Metrics: metrics.NewAttachments(r.Registry), Log: deps.Logger, Now: time.Now}
	for _, change := range changes {
		change(&cfg, &deps)
	}
	if r.Files = deps.Files; r.Files != nil {
		r.Files.Limits = cfg.Limits
	}
	var err error
	if r.Gateway, err = gateway.New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	addr, err := r.Gateway.Listen()
	if err != nil {
		t.Fatal(err)
	}
	r.Addr, r.URL = addr.String(), "http://"+addr.String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Gateway.Run(ctx) }()
	r.Stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	transport := &http.Transport{}
	r.HTTP = &http.Client{Transport: transport, Timeout: Patience}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = r.Stop()
		r.Sessions.Close()
	})
	return r
}

// Keyring knows users by their tokens.
type Keyring map[string]*service.Principal

// Mode is "keys".
func (Keyring) Mode() string { return "keys" }

// Authenticate fails with conversation.Unauthenticated for a token that is not in the ring.
func (k Keyring) Authenticate(_ context.Context, c service.Credential) (*service.Principal, error) {
	if p := k[c.Token]; p != nil {
		return p, nil
	}
	return nil, conversation.Errorf(conversation.Unauthenticated, "who are you?")
}

// WithKeys is a Setup with users: ann and bob, eve who is another tenant's ann, ops who manages
// the server, and low who is ann without the right to see what tools do.
func WithKeys(_ *gateway.Config, d *gateway.Deps) {
	all := []string{service.ScopeChat, service.ScopeReadTools}
	d.Authenticator = Keyring{
		"ann": {Tenant: "default", User: "ann", Scopes: all}, "bob": {Tenant: "default", User: "bob", Name: "Bob", Scopes: all},
		"eve": {Tenant: "other", User: "ann", Scopes: all}, "ops": {Tenant: "default", User: "ops", Scopes: []string{service.ScopeAdmin}},
		"low": {Tenant: "default", User: "ann", Scopes: []string{service.ScopeChat}},
	}
}
