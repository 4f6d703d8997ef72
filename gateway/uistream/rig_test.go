package uistream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/attach"
	"parley/gateway/gatewaytest"
	"parley/gateway/service"
	"parley/metrics"

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
	t        *testing.T
	sessions *gatewaytest.Sessions
	server   *gateway.Server
	url      string
	http     *http.Client
	stop     func() error
}

type setup func(*gateway.Config, *gateway.Deps)

func begin(t *testing.T, changes ...setup) *rig {
	t.Helper()
	registry := metrics.NewRegistry()
	m := metrics.NewGateway(registry)
	hub := gateway.NewHub(m)
	r := &rig{t: t, sessions: gatewaytest.NewSessions(hub)}
	cfg := gateway.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	deps := gateway.Deps{Sessions: r.sessions, Hub: hub, Metrics: m, Logger: slog.New(slog.DiscardHandler)}
	deps.Files = &attach.Files{Settings: attach.Defaults(), Store: r.sessions.Blobs(), Metrics: metrics.NewAttachments(registry), Log: deps.Logger, Now: time.Now}
	for _, change := range changes {
		change(&cfg, &deps)
	}
	deps.Files.Limits = cfg.Limits
	var err error
	if r.server, err = gateway.New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	addr, err := r.server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + addr.String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.server.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	transport := &http.Transport{}
	r.http = &http.Client{Transport: transport, Timeout: patience}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = r.stop()
		r.sessions.Close()
	})
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
		"ann": {Tenant: "default", User: "ann", Scopes: all}, "bob": {Tenant: "default", User: "bob", Scopes: all},
		"eve": {Tenant: "other", User: "ann", Scopes: all}, "ops": {Tenant: "default", User: "ops", Scopes: []string{service.ScopeAdmin}},
		"low": {Tenant: "default", User: "low", Scopes: []string{service.ScopeChat}},
	}
}

// answer is what a request was answered with.
type answer struct {
	*http.Response
	t    *testing.T
	body *bufio.Reader
	end  context.CancelFunc
}

// call makes a request. Headers come in pairs.
func (r *rig) call(method, path, body string, headers ...string) *answer {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	response, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = response.Body.Close() })
	return &answer{Response: response, t: r.t, body: bufio.NewReader(response.Body), end: cancel}
}

// all is the rest of the body.
func (a *answer) all() string {
	a.t.Helper()
	b, err := io.ReadAll(a.body)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(b)
}

// want fails unless the request was answered with a status.
func (a *answer) want(status int) *answer {
	a.t.Helper()
	if a.StatusCode != status {
		a.t.Fatalf("status %d, want %d: %s", a.StatusCode, status, a.all())
	}
	return a
}

// until reads events until one has a text, and gives back all that was read.
func (a *answer) until(text string) string {
	a.t.Helper()
	read := ""
	for {
		line, err := a.body.ReadString('\n')
		read += line
		if err != nil {
			a.t.Fatalf("%v before %q, behind %s", err, text, read)
		}
		if strings.Contains(line, text) {
			end, _ := a.body.ReadString('\n')
			return read + end
		}
	}
}

// says is the body of a request with a message of the user; more is put before it.
func says(chat, id, text, more string) string {
	b, _ := json.Marshal(text)
	return `{` + more + `"id":"` + chat + `","trigger":"submit-message","messages":[{"id":"` + id + `","role":"user","parts":[{"type":"text","text":` + string(b) + `}]}]}`
}

// key is the session of a chat, as the page that is loaded shows it.
func (r *rig) key(chat string, headers ...string) conversation.SessionKey {
	r.t.Helper()
	var page struct{ Session string }
	if err := json.Unmarshal([]byte(r.call("GET", "/api/ui/chat/"+chat, "", headers...).want(200).all()), &page); err != nil {
		r.t.Fatal(err)
	}
	return gatewaytest.Key(page.Session)
}

// page is what a page that is loaded shows: the texts of its messages, with those who speak.
func (r *rig) page(path string, headers ...string) (told []string, previous string) {
	r.t.Helper()
	var page struct {
		Messages []struct {
			ID, Role string
			Parts    []struct{ Type, Text string }
		}
		Previous *string
	}
	body := r.call("GET", path, "", headers...).want(200).all()
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		r.t.Fatalf("%v: %s", err, body)
	}
	for _, m := range page.Messages {
		text := ""
		for _, p := range m.Parts {
			text += p.Text
		}
		told = append(told, m.Role[:1]+" "+m.ID+" "+text)
	}
	if page.Previous != nil {
		previous = *page.Previous
	}
	return told, previous
}

// model plays the open model call of a session.
func (r *rig) model(key conversation.SessionKey, items ...conversation.Item) {
	r.sessions.Model(key, items...)
}

var call = machinetest.Call

// text is a text of the model, which may have streamed.
func text(s string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemText, Text: s, Streamed: true}
}
