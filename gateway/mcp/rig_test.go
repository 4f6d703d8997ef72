package mcp_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
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

// world is what all nodes share: a stand-in for the engine, of which the test plays the model.
type world struct {
	t        *testing.T
	share    func(*gateway.Deps)
	sessions *gatewaytest.Sessions
	setups   []setup
}

type setup func(*gateway.Config, *gateway.Deps)

// node is one running server.
type node struct {
	*world
	url  string
	http *http.Client
	stop func() error
}

func newWorld(t *testing.T, setups ...setup) *world {
	hub := gateway.NewHub(metrics.NewGateway(metrics.NewRegistry()))
	w := &world{t: t, share: func(d *gateway.Deps) { d.Hub = hub }, setups: setups}
	w.sessions = gatewaytest.NewSessions(hub)
	t.Cleanup(w.sessions.Close)
	return w
}

func (w *world) node() *node {
	w.t.Helper()
	cfg := gateway.DefaultConfig()
	cfg.Listen, cfg.Version = "127.0.0.1:0", "test"
	deps := gateway.Deps{Sessions: w.sessions, Logger: slog.New(slog.DiscardHandler), Secret: []byte("of all nodes")}
	w.share(&deps)
	for _, change := range w.setups {
		change(&cfg, &deps)
	}
	server, err := gateway.New(cfg, deps)
	if err != nil {
		w.t.Fatal(err)
	}
	addr, err := server.Listen()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	transport := &http.Transport{}
	n := &node{world: w, url: "http://" + addr.String(), http: &http.Client{Transport: transport, Timeout: patience}}
	n.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	w.t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = n.stop()
	})
	return n
}

func start(t *testing.T, setups ...setup) *node { return newWorld(t, setups...).node() }

// keyring knows users by their tokens, and can take them back.
type keyring struct {
	users map[string]*service.Principal
	mu    sync.Mutex
	ended map[string]func()
}

func (*keyring) Mode() string { return "keys" }

func (k *keyring) Authenticate(_ context.Context, c service.Credential) (*service.Principal, error) {
	if p := k.users[c.Token]; p != nil {
		return p, nil
	}
	return nil, conversation.Errorf(conversation.Unauthenticated, "who are you?")
}

// Watch implements service.Watcher.
func (k *keyring) Watch(p *service.Principal, ended func()) func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended[p.Credential] = ended
	return func() {}
}

func (k *keyring) revoke(credential string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended[credential]()
}

func newKeyring() *keyring {
	chat := []string{service.ScopeChat, service.ScopeReadTools}
	return &keyring{ended: map[string]func(){}, users: map[string]*service.Principal{
		"ann": {Tenant: "default", User: "ann", Scopes: chat, Credential: "ann"}, "bob": {Tenant: "default", User: "bob", Scopes: chat},
		"eve": {Tenant: "other", User: "ann", Scopes: chat}, "ops": {Tenant: "default", User: "ops", Scopes: []string{service.ScopeRuntime}},
		"low": {Tenant: "default", User: "ann", Scopes: []string{service.ScopeChat}},
	}}
}

func withKeys(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = newKeyring() }

// answer is what a request was answered with.
type answer struct {
	*http.Response
	t    *testing.T
	body *bufio.Reader
	end  context.CancelFunc
}

// send makes a request. Headers come in pairs; "" takes one away.
func (n *node) send(method, body string, headers ...string) *answer {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, n.url+"/mcp", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	response, err := n.http.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = response.Body.Close() })
	return &answer{response, n.t, bufio.NewReader(response.Body), cancel}
}

// event is a server-sent event: its id, and its message of JSON-RPC.
type event struct {
	id, raw string
	m       message
}

type message struct {
	ID     any             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	} `json:"error"`
}

// next is the next event, also one without a message; false = the stream has ended.
func (a *answer) next() (e event, ok bool) {
	a.t.Helper()
	for some := false; ; {
		line, err := a.body.ReadString('\n')
		if err != nil {
			return e, false
		}
		switch line = strings.TrimRight(line, "\n"); {
		case strings.HasPrefix(line, "id: "):
			e.id, some = line[4:], true
		case strings.HasPrefix(line, "data: "):
			e.raw, some = line[6:], true
			if e.raw != "" {
				if err := json.Unmarshal([]byte(e.raw), &e.m); err != nil {
					a.t.Fatalf("%s: %v", e.raw, err)
				}
			}
		case line == "" && some && (e.id != "" || e.raw != ""):
			return e, true
		}
	}
}

// until reads up to a message of a method; "" up to the response.
func (a *answer) until(method string) (all []event) {
	a.t.Helper()
	for {
		e, ok := a.next()
		if !ok {
			a.t.Fatalf("it ended before %q, behind %v", method, raws(all))
		}
		if all = append(all, e); e.raw != "" && e.m.Method == method {
			return all
		}
	}
}

func (a *answer) rest() (all []event) {
	for {
		e, ok := a.next()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

func raws(all []event) (texts []string) {
	for _, e := range all {
		texts = append(texts, e.raw)
	}
	return texts
}

// whole is an answer that is one message.
func (a *answer) whole() (m message) {
	a.t.Helper()
	b, err := io.ReadAll(a.body)
	if err != nil || json.Unmarshal(b, &m) != nil {
		a.t.Fatalf("%d %q %v", a.StatusCode, b, err)
	}
	return m
}

// host is a client of an older version of the protocol.
type host struct {
	*node
	headers []string
}

// host says hello. capabilities are JSON.
func (n *node) host(token, capabilities string) *host {
	n.t.Helper()
	h := &host{node: n}
	if token != "" {
		h.headers = []string{"Authorization", "Bearer " + token}
	}
	a := n.send("POST", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"test","version":"1"}}}`, h.headers...)
	if m := a.whole(); m.Error != nil {
		n.t.Fatal(m.Error)
	}
	h.headers = append(h.headers, "Mcp-Session-Id", a.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25")
	return h
}

// at is the same host at another node.
func (h *host) at(n *node) *host { return &host{n, h.headers} }

func (h *host) post(body string) *answer { h.t.Helper(); return h.send("POST", body, h.headers...) }

func (h *host) get(lastEvent string) *answer {
	h.t.Helper()
	if lastEvent == "" {
		return h.send("GET", "", h.headers...)
	}
	return h.send("GET", "", append([]string{"Last-Event-ID", lastEvent}, h.headers...)...)
}

// call calls a tool. The id of the request is its token for progress, too.
func (h *host) call(id int, tool, arguments string) *answer {
	h.t.Helper()
	return h.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":%d}}}`, id, tool, arguments, id))
}

// result is what a tool says.
type result struct {
	Content           []struct{ Text string }
	IsError           bool
	StructuredContent struct {
		Session, Message, Task, Status, Note string
		Texts                                []struct{ Text string }
		Questions                            []struct {
			Question, Text, Args string
			Choices              []string
		}
		Receipt *struct{ How, Evidence string }
		Lines   []struct {
			Role, Text string
			Seq        int
		}
		Earlier, More bool
		Sessions      []struct{ Session string }
	}
	ResultType    string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
	RequestState string
}

func (m message) result(t *testing.T) (r result) {
	t.Helper()
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil {
		t.Fatalf("%s %+v", m.Result, m.Error)
	}
	return r
}

// text is what a result says first.
func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// session is the session of a message that is worked on, which another request sees.
func (h *host) begun(name, text string) (*answer, conversation.SessionKey, conversation.TaskID) {
	h.t.Helper()
	a := h.call(7, "send_message", `{"session":`+quote(name)+`,"text":`+quote(text)+`}`)
	running := a.until("notifications/progress")
	var c struct {
		Task conversation.TaskID `json:"t"`
	}
	cursorOf(h.t, running[len(running)-1].id, &c)
	session, _ := c.Task.Session()
	return a, gatewaytest.Key(string(session)), c.Task
}

func quote(s string) string { b, _ := json.Marshal(s); return string(b) }

// cursorOf reads the id of an event.
func cursorOf(t *testing.T, id string, into any) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(id)
	if err == nil && into != nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatalf("%q: %v", id, err)
	}
	return string(b)
}
