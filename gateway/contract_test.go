package gateway

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/gateway/service"
	"parley/metrics"

	"github.com/gofiber/fiber/v2"
)

// contracted is a server with every route that there may be.
func contracted(t *testing.T) *Server {
	t.Helper()
	registry := metrics.NewRegistry()
	m := metrics.NewGateway(registry)
	hub := fanout.NewHub(m)
	sessions := gatewaytest.NewSessions(hub)
	t.Cleanup(sessions.Close)
	s, err := New(DefaultConfig(), Deps{
		Sessions: sessions, Hub: hub, Metrics: m, Gatherer: registry,
		Page: fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ofOthers begin the routes of protocols that are not ours: their own documents describe them.
var ofOthers = []string{"/api/ui/", "/v1/", "/agui", "/acp", "/mcp", "/a2a", "/.well-known/agent-card.json"}

// The routes of the server and of openapi.yaml are the same list.
func TestRoutesAreDocumented(t *testing.T) {
	c := gatewaytest.Documents(t)
	have, documented := make(map[string]bool), make(map[string]bool)
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range contracted(t).app.GetRoutes(true) {
		its := func(prefix string) bool { return strings.HasPrefix(r.Path, prefix) }
		if r.Method != fiber.MethodHead && !slices.ContainsFunc(ofOthers, its) { // GET answers it
			have[r.Method+" "+param.ReplaceAllString(r.Path, "{$1}")] = true
		}
	}
	for path, item := range c.HTTP.Paths.Map() {
		if item.Extensions["x-rest-of-path"] == true {
			path = path[:strings.LastIndexByte(path, '/')] + "/*"
		}
		for method, o := range item.Operations() {
			documented[method+" "+path] = true
			if o.OperationID == "" || o.Summary == "" {
				t.Errorf("%s %s has no name or summary", method, path)
			}
		}
	}
	for r := range have {
		if !documented[r] {
			t.Errorf("%s is not in openapi.yaml", r)
		}
	}
	for r := range documented {
		if !have[r] {
			t.Errorf("openapi.yaml has %s, the server has not", r)
		}
	}
}

// Both documents are served, as they are, to everybody who may knock at all.
func TestDocumentsAreServed(t *testing.T) {
	s := contracted(t)
	for _, name := range []string{"openapi.yaml", "asyncapi.yaml"} {
		want, err := os.ReadFile("protocol/" + name)
		if err != nil {
			t.Fatal(err)
		}
		get := func(header, value string) *http.Response {
			t.Helper()
			req, err := http.NewRequest(http.MethodGet, "http://localhost/"+name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if header != "" {
				req.Header.Set(header, value)
			}
			resp, err := s.app.Test(req)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		resp := get("", "")
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) || resp.Header.Get("Content-Type") != "application/yaml" {
			t.Errorf("%s: %d %s, %d bytes, %v", name, resp.StatusCode, resp.Header.Get("Content-Type"), len(got), err)
		}
		if resp := get("If-None-Match", resp.Header.Get("ETag")); resp.StatusCode != http.StatusNotModified {
			t.Errorf("%s: the same again is %d", name, resp.StatusCode)
		}
		if resp := get("Origin", "https://evil.example"); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s for a foreign page is %d", name, resp.StatusCode)
		}
	}
}

// Every event and every ephemeral frame is sent over a socket, in a page and in a
// stream, whole and redacted, and is what the document says.
func TestEveryFrameOverTheWire(t *testing.T) {
	c := gatewaytest.Documents(t)
	for name, who := range map[string]service.Authenticator{"whole": service.NoAuth{}, "redacted": chatOnly{}} {
		t.Run(name, func(t *testing.T) {
			s := contracted(t)
			s.services.Auth = who
			s.services.Times.Heartbeat, s.services.Times.DrainSpread = 50*time.Millisecond, 0
			s.cfg.Listen = "127.0.0.1:0"
			addr, err := s.Listen()
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			sessions, _ := s.services.Sessions.(*gatewaytest.Sessions)
			key := sessions.Open("s1", "local")
			sessions.Drafts(key, conversation.DraftView{Task: "t1-s1", Draft: "1.1.0", Text: "Hel"})
			transport := &http.Transport{}
			client := &http.Client{Transport: c.Transport(t, transport)}
			defer transport.CloseIdleConnections()
			get := func(path string) *http.Response {
				t.Helper()
				resp, err := client.Get("http://" + addr.String() + path)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("%s: %v %v", path, resp, err)
				}
				return resp
			}
			stream := get("/api/sessions/s1/stream?since=0")
			a, b := gatewaytest.Connect(t, addr.String(), "deltas", "html"), gatewaytest.Connect(t, addr.String())
			for _, x := range []*gatewaytest.Client{a, b} {
				x.Do("follow", "s1", map[string]any{"since": 0})
			}

			seen := make(map[string]bool)
			until := func(kind string) {
				t.Helper()
				for !seen[kind] {
					seen[a.Read().Type] = true
				}
			}
			until("draft_state")
			for _, e := range []conversation.Ephemeral{
				conversation.Delta{Task: "t1-s1", Draft: "1.1.0", At: 3, Text: "lo"}, conversation.DraftDropped{Task: "t1-s1", Draft: "1.1.0"},
				conversation.Progress{Task: "t1-s1", Call: "c1", Note: "half", Percent: gatewaytest.Ptr(50)}, conversation.Thinking{Task: "t1-s1", Agent: "coordinator", Step: 2},
			} {
				sessions.Show(key, e)
			}
			until("thinking")
			b.Send("typing", "s1", map[string]any{"on": true})
			until("typing")
			until("hb")
			events := slices.SortedFunc(maps.Values(gatewaytest.Samples()), func(a, b conversation.Event) int {
				return int(a.Body.Kind()) - int(b.Body.Kind()) // a call ends after it began
			})
			for _, e := range events {
				e.At = gatewaytest.Epoch
				sessions.Commit(key, e)
			}
			sessions.Do(func() {})
			for head := uint64(1 + len(events)); ; {
				f := a.Read()
				seen[f.Type] = true
				if f.Seq == head {
					break
				}
			}
			_ = get("/api/sessions/s1/events?limit=200")
			for _, path := range []string{"/api/sessions/s1", "/api/sessions/s1/messages", "/api/tasks", "/api/sessions/s1/calls/c1", "/api/sessions/s1/calls/d1"} {
				_ = get(path)
			}
			if err := sessions.Erase(ctx, key, "local"); err != nil {
				t.Fatal(err)
			}
			until("gone")
			text, err := io.ReadAll(stream.Body) // ends with the session
			if err != nil || bytes.Count(text, []byte("\nid: ")) != 1+len(events) {
				t.Errorf("the stream had %d events: %v", bytes.Count(text, []byte("\nid: ")), err)
			}
			stop()
			until("goaway")
			for _, x := range []*gatewaytest.Client{a, b} { // answers the close frame
				if code, _, _ := x.Closed(); code != protocol.CloseRestart {
					t.Errorf("closed with %d", code)
				}
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			for _, kind := range c.Pushed() {
				if !seen[kind] && !strings.HasPrefix(kind, "chat") && kind != "listed" { // TestWatchChats and TestWatchOfTheList see those
					t.Errorf("%s was not seen", kind)
				}
			}
		})
	}
}

// chatOnly is a user without read:tools.
type chatOnly struct{ service.NoAuth }

func (chatOnly) Authenticate(context.Context, service.Credential) (*service.Principal, error) {
	return &service.Principal{Tenant: "default", User: "local", Scopes: []string{service.ScopeChat}}, nil
}
