package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/metrics"

	"github.com/gofiber/fiber/v2"
)

// contracted is a server with every route that there may be.
func contracted(t *testing.T) *Server {
	t.Helper()
	registry := metrics.NewRegistry()
	m := metrics.NewGateway(registry)
	hub := NewHub(m)
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

// The routes of the server and of openapi.yaml are the same list.
func TestRoutesAreDocumented(t *testing.T) {
	c := gatewaytest.Documents(t)
	have, documented := make(map[string]bool), make(map[string]bool)
	param := regexp.MustCompile(`:(\w+)`)
	for _, r := range contracted(t).app.GetRoutes(true) {
		if r.Method != fiber.MethodHead { // GET answers it
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
		want, err := os.ReadFile(name)
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

// What both documents describe is described in the same way.
func TestDocumentsAgree(t *testing.T) {
	c := gatewaytest.Documents(t)
	api, err := c.HTTP.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var http struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(api, &http); err != nil {
		t.Fatal(err)
	}
	shared := 0
	for name, schema := range schemas(c) {
		other, both := http.Components.Schemas[name]
		if !both {
			continue
		}
		shared++
		if a, b := canonical(t, schema), canonical(t, other); a != b {
			t.Errorf("%s\n asyncapi %s\n openapi  %s", name, a, b)
		}
	}
	if shared < 20 {
		t.Errorf("the documents share only %d schemas", shared)
	}
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(b, &plain); err != nil {
		t.Fatal(err)
	}
	b, err = json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// inside walks into a document.
func inside(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func schemas(c *gatewaytest.Contract) map[string]any {
	m, _ := inside(c.Async, "components", "schemas").(map[string]any)
	return m
}

// Every reference of asyncapi.yaml leads somewhere, nothing of it is unused, and
// no operation, command or frame is left out of the channel.
func TestAsyncAPIHoldsTogether(t *testing.T) {
	c := gatewaytest.Documents(t)
	used := make(map[string]bool)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				used[ref] = true
				path := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
				if inside(c.Async, path...) == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(c.Async)
	for name := range schemas(c) {
		if !used["#/components/schemas/"+name] {
			t.Errorf("nothing uses the schema %s", name)
		}
	}
	for _, name := range c.Messages() {
		for _, from := range []string{"#/components/messages/", "#/channels/socket/messages/"} {
			if !used[from+name] {
				t.Errorf("nothing uses %s%s", from, name)
			}
		}
		examples, _ := inside(c.Async, "components", "messages", name, "examples").([]any)
		if len(examples) == 0 {
			t.Errorf("message %s has no example", name)
		}
		for _, e := range examples {
			if err := c.Payload(name, []byte(canonical(t, inside(e, "payload")))); err != nil {
				t.Errorf("the example of %s: %v", name, err)
			}
		}
	}
}

// The commands of the document are those of the server, and need an id and a
// session when the server wants them.
func TestCommandsAreDocumented(t *testing.T) {
	c := gatewaytest.Documents(t)
	if got, want := c.Commands(), slices.Sorted(maps.Keys(commandTable)); !slices.Equal(got, want) {
		t.Errorf("documented %v\nthe server has %v", got, want)
	}
	for name, rule := range commandTable {
		required, _ := inside(schemas(c)["command_"+name], "required").([]any)
		if slices.Contains(required, any("id")) == rule.silent {
			t.Errorf("%s: id is required %v, and silent is %v", name, !rule.silent, rule.silent)
		}
		if slices.Contains(required, any("session")) != rule.session {
			t.Errorf("%s: the document and the server differ about session", name)
		}
	}
}

// Every stored event has a schema that is closed, so that a private field or a
// new one cannot get out unnoticed: not into the frame, nor into its data.
func TestEveryEventHasAClosedSchema(t *testing.T) {
	c := gatewaytest.Documents(t)
	var want []string
	for _, kind := range conversation.EventKinds() {
		want = append(want, kind.String())
	}
	if got := c.Durable(); !slices.Equal(got, want) {
		t.Errorf("documented %v\nthe vocabulary has %v", got, want)
	}
	for name, e := range samples() {
		kind := e.Body.Kind().String()
		for _, path := range [][]string{{}, {"properties", "data"}} {
			if open := inside(schemas(c)["event_"+kind], append(path, "additionalProperties")...); open != false {
				t.Errorf("%s: the schema is open at %v", kind, path)
			}
		}
		for _, redact := range []bool{false, true} {
			frame := appendEvent(nil, "s1", &e, redact)
			if err := c.Event(frame); err != nil {
				t.Errorf("%s: %s\n%v", name, frame, err)
			}
			var members map[string]any
			if err := json.Unmarshal(frame, &members); err != nil {
				t.Fatal(err)
			}
			data, _ := members["data"].(map[string]any)
			for _, in := range []map[string]any{members, data} {
				in["leak"] = "private"
				if c.Event([]byte(canonical(t, members))) == nil {
					t.Errorf("%s: a member that nobody knows is let through: %v", name, members)
				}
				delete(in, "leak")
			}
		}
	}
}

// Every event and every ephemeral frame is sent over a socket, in a page and in a
// stream, whole and redacted, and is what the document says.
func TestEveryFrameOverTheWire(t *testing.T) {
	c := gatewaytest.Documents(t)
	for name, who := range map[string]Authenticator{"whole": NoAuth{}, "redacted": chatOnly{}} {
		t.Run(name, func(t *testing.T) {
			s := contracted(t)
			s.auth = who
			s.cfg.Times.Heartbeat, s.cfg.Times.DrainSpread = 50*time.Millisecond, 0
			s.cfg.Listen = "127.0.0.1:0"
			addr, err := s.Listen()
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			sessions, _ := s.sessions.(*gatewaytest.Sessions)
			key := sessions.Open("s1", "local")
			sessions.With(key, func(l *gatewaytest.Log) {
				l.Drafts = []conversation.DraftView{{Task: "t1-s1", Draft: "1.1.0", Text: "Hel"}}
			})
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
			a, b := gatewaytest.Connect(t, addr.String(), "deltas"), gatewaytest.Connect(t, addr.String())
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
				conversation.Progress{Task: "t1-s1", Call: "c1", Note: "half", Percent: ptr(50)}, conversation.Thinking{Task: "t1-s1", Agent: "coordinator", Step: 2},
			} {
				sessions.Show(key, e)
			}
			until("thinking")
			b.Send("typing", "s1", map[string]any{"on": true})
			until("typing")
			until("hb")
			events := slices.SortedFunc(maps.Values(samples()), func(a, b conversation.Event) int {
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
				if code, _, _ := x.Closed(); code != closeRestart {
					t.Errorf("closed with %d", code)
				}
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			for _, kind := range c.Pushed() {
				if !seen[kind] && kind != "rendered" { // shown by nothing yet
					t.Errorf("%s was not seen", kind)
				}
			}
		})
	}
}

// chatOnly is a user without read:tools.
type chatOnly struct{ NoAuth }

func (chatOnly) Authenticate(context.Context, Credential) (*Principal, error) {
	return &Principal{Tenant: "default", User: "local", Scopes: []string{ScopeChat}}, nil
}

// Every golden frame is what the document says, and every frame that the server
// sends by itself has one.
func TestGoldenFramesMatchTheDocument(t *testing.T) {
	c := gatewaytest.Documents(t)
	answers := map[string]string{"follow": "ok_follow", "ok": "ok_seq", "ok.empty": "ok_empty", "error": "error", "error.unreadable": "error"}
	seen := make(map[string]bool)
	for _, folder := range []string{"events", "ephemeral"} {
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
		if err != nil || len(files) < 10 {
			t.Fatalf("%d golden frames in %s: %v", len(files), folder, err)
		}
		for _, file := range files {
			frame, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			switch message, isAnswer := answers[name]; {
			case folder == "events":
				err = c.Event(frame)
			case isAnswer:
				err = c.Payload(message, frame)
			default:
				err = c.Frame(frame)
			}
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			kind, _, _ := strings.Cut(name, ".")
			seen[kind] = true
		}
	}
	for _, kind := range c.Pushed() {
		if !seen[kind] {
			t.Errorf("%s has no golden frame", kind)
		}
	}
}

// words are the spellings of a stored number: those before the first unknown one.
func words[T ~uint8](from T, spell func(T) string) (all []any) {
	for i := from; !strings.HasPrefix(spell(i), "unknown("); i++ {
		all = append(all, spell(i))
	}
	return all
}

// The documents' lists of words are those of the vocabulary.
func TestWordsAreDocumented(t *testing.T) {
	c := gatewaytest.Documents(t)
	data := func(event string) []string { return []string{"event_" + event, "properties", "data", "properties"} }
	calls := words(conversation.CallOK, conversation.CallStatus.String)
	both := func(path []string, more ...string) []string { return append(slices.Clone(path), more...) }
	for _, x := range []struct {
		name string
		path []string
		want []any
	}{
		{"Via", []string{"via", "enum"}, words(conversation.ViaWebSocket, conversation.Via.String)},
		{"Mode", []string{"mode", "enum"}, words(conversation.ModeSteer, conversation.Mode.String)},
		{"Disposition", []string{"disposition", "enum"}, words(conversation.Started, conversation.Disposition.String)},
		{"Resolution", []string{"resolution", "enum"}, words(conversation.ResolvedAnswered, conversation.Resolution.String)},
		{"TaskStatus", []string{"task_status", "enum"}, words(conversation.TaskQueued, conversation.TaskStatus.String)},
		{"Access", []string{"access", "enum"}, words(conversation.AccessPrivate, conversation.Access.String)},
		{"ResponseKind", []string{"response_kind", "enum"}, words(conversation.ResponseError, conversation.ResponseKind.String)},
		{"CancelBy", both(data("task_cancelling"), "by", "enum"), words(conversation.ByUser, conversation.CancelBy.String)},
		{"Cause", both(data("step_started"), "cause", "enum"), words(conversation.CauseError, conversation.Cause.String)},
		{"StepOutcome", both(data("step_finished"), "outcome", "enum"), words(conversation.StepOK, conversation.StepOutcome.String)},
		{"Decision", both(data("step_finished"), "decisions", "items", "enum"), words(conversation.DecisionAnswer, conversation.Decision.String)},
		{"ClosedReason", both(data("question_closed"), "reason", "enum"), words(conversation.QuestionExpired, conversation.ClosedReason.String)},
		{"CallStatus", both(data("tool_finished"), "status", "enum"), slices.DeleteFunc(slices.Clone(calls), func(w any) bool { return w == "failed" })},
	} {
		if got := inside(schemas(c), x.path...); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: documented %v, want %v", x.name, got, x.want)
		}
	}
	var keys []string
	if p, ok := inside(schemas(c), "policy", "properties").(map[string]any); ok {
		keys = slices.Sorted(maps.Keys(p))
	}
	if want := conversation.OverrideKeys(); !slices.Equal(keys, want) {
		t.Errorf("policies: documented %v, want %v", keys, want)
	}
}

// constants are the values of the constants of a file that are fit by their names.
func constants(t *testing.T, file string, fits func(name, typ string) bool) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		typ := ""
		if i, ok := spec.Type.(*ast.Ident); ok {
			typ = i.Name
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok && fits(spec.Names[0].Name, typ) {
			all = append(all, strings.Trim(value.Value, `"`))
		}
		return true
	})
	slices.Sort(all)
	return all
}

// Close codes, error codes with their statuses, and limits with their defaults
// are those of the server.
func TestCodesAndLimitsAreDocumented(t *testing.T) {
	c := gatewaytest.Documents(t)
	list := func(name string) (all []map[string]any) {
		items, _ := c.Async[name].([]any)
		for _, i := range items {
			m, _ := i.(map[string]any)
			all = append(all, m)
		}
		return all
	}

	var closes []string
	for _, x := range list("x-close-codes") {
		closes = append(closes, fmt.Sprint(x["code"]))
		code, _ := strconv.Atoi(fmt.Sprint(x["code"]))
		// The protocol's split: 4000 to 4499 are worth coming back for, 4500 and above are not.
		if code >= 4000 && (x["reconnect"] == true) != (code < 4500) {
			t.Errorf("close code %d: reconnect is %v", code, x["reconnect"])
		}
		if closeLabel(code) == "other" {
			t.Errorf("close code %d has no label in the metrics", code)
		}
	}
	slices.Sort(closes)
	want := constants(t, "client.go", func(name, _ string) bool {
		return strings.HasPrefix(name, "close") && len(name) > len("close") && name[5] >= 'A' && name[5] <= 'Z'
	})
	if !slices.Equal(closes, want) {
		t.Errorf("close codes: documented %v, the server has %v", closes, want)
	}

	var codes []string
	for _, x := range list("x-error-codes") {
		name, _ := x["code"].(string)
		codes = append(codes, name)
		e := conversation.Error{Code: conversation.Code(name)}
		if got := fmt.Sprint(x["status"]); got != strconv.Itoa(statusOf(e.Code)) || x["retryable"] != e.Retryable() {
			t.Errorf("%s: documented %s, retryable %v; the server has %d, %v", name, got, x["retryable"], statusOf(e.Code), e.Retryable())
		}
	}
	enumerated, _ := inside(schemas(c), "error_code", "enum").([]any)
	for _, code := range enumerated {
		if !slices.Contains(codes, code.(string)) {
			t.Errorf("%s has no line in x-error-codes", code)
		}
	}
	slices.Sort(codes)
	known := constants(t, filepath.Join("..", "conversation", "error.go"), func(_, typ string) bool { return typ == "Code" })
	if !slices.Equal(codes, known) || len(enumerated) != len(known) {
		t.Errorf("error codes: documented %v, the vocabulary has %v", codes, known)
	}

	var told struct{ Limits map[string]any }
	o := open(nil)
	DefaultConfig().Limits.append(&o)
	if err := json.Unmarshal(o.close(), &told); err != nil {
		t.Fatal(err)
	}
	if got, want := canonical(t, c.Async["x-limits"]), canonical(t, told.Limits); got != want {
		t.Errorf("limits: documented %s\nthe server has %s", got, want)
	}
	required, _ := inside(schemas(c), "limits", "required").([]any)
	if len(required) != len(told.Limits) {
		t.Errorf("the schema of limits requires %v", required)
	}
}

// noted takes the place of a test and keeps what it is told.
type noted struct {
	testing.TB
	said []string
}

func (n *noted) Name() string              { return "" }
func (n *noted) Helper()                   {}
func (n *noted) Errorf(f string, a ...any) { n.said = append(n.said, fmt.Sprintf(f, a...)) }

// The listener reports what the document does not allow; a guard that lets
// everything through would look the same as a server without faults.
func TestListenerNotices(t *testing.T) {
	c := gatewaytest.Documents(t)
	const ping, ok = `{"type":"ping","id":"1"}`, `{"type":"ok","re":"1","data":{}}`
	const badRequest = `{"type":"error","re":"1","error":{"code":"bad_request","message":"x","retryable":false}}`
	for _, x := range []struct {
		name, sent, received string
		fine                 bool
	}{
		{"an ok", ping, ok, true},
		{"a refusal", `{"type":"ping"}`, `{"type":"error","re":null,"error":{"code":"bad_request","message":"x","retryable":false}}`, true},
		{"a refusal of what is wrong", `{"type":"seen","id":"1","session":"s1","data":{}}`, badRequest, true},
		{"an event", "", `{"type":"session_closed","session":"s1","seq":7,"ts":"2026-11-21T08:30:05.007Z","data":{"reason":"done"}}`, true},
		{"no JSON", "", `hello`, false},
		{"an unknown event", "", `{"type":"news","session":"s1","seq":7,"ts":"2026-11-21T08:30:05.007Z","data":{}}`, false},
		{"a private field", "", `{"type":"session_closed","session":"s1","seq":7,"ts":"2026-11-21T08:30:05.007Z","data":{"reason":"done","model_call":"x"}}`, false},
		{"a time without milliseconds", "", `{"type":"session_closed","session":"s1","seq":7,"ts":"2026-11-21T08:30:05Z","data":{"reason":"done"}}`, false},
		{"an ok that nobody waits for", "", ok, false},
		{"an ok without re", ping, `{"type":"ok","re":null,"data":{}}`, false},
		{"the ok of another command", `{"type":"create","id":"1"}`, ok, false},
		{"an unknown code", ping, `{"type":"error","re":"1","error":{"code":"oops","message":"x","retryable":false}}`, false},
		{"an ok to what is wrong", `{"type":"seen","id":"1","session":"s1","data":{}}`, ok, false},
		{"an ok to an unknown command", `{"type":"dance","id":"1"}`, ok, false},
		{"a bad request that is none", ping, badRequest, false},
	} {
		n := &noted{}
		l := c.Listen(n)
		if x.sent != "" {
			l.Sent([]byte(x.sent))
		}
		l.Received([]byte(x.received))
		if fine := len(n.said) == 0; fine != x.fine {
			t.Errorf("%s: %v", x.name, n.said)
		}
	}
}

// canned answers every request with one response.
type canned struct {
	status       int
	header, body string
}

func (r canned) RoundTrip(req *http.Request) (*http.Response, error) {
	h := http.Header{"X-Request-Id": {"r1"}, "Cache-Control": {"no-cache"}}
	if name, value, ok := strings.Cut(r.header, ": "); ok {
		h.Set(name, value)
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	return &http.Response{StatusCode: r.status, Header: h, Request: req, Body: io.NopCloser(strings.NewReader(r.body))}, nil
}

// The same of the transport.
func TestTransportNotices(t *testing.T) {
	c := gatewaytest.Documents(t)
	problem := func(status int, code string) canned {
		return canned{status, "Content-Type: application/problem+json", fmt.Sprintf(
			`{"type":"about:blank","title":"T","status":%d,"detail":"d","instance":"/","code":%q,"request_id":"r1","retryable":false}`, status, code)}
	}
	stream := func(body string) canned {
		return canned{200, "Content-Type: text/event-stream", body}
	}
	const frame = `{"type":"session_closed","session":"s1","seq":7,"ts":"2026-11-21T08:30:05.007Z","data":{"reason":"done"}}`
	for _, x := range []struct {
		name, method, path, body string
		answer                   canned
		fine                     bool
	}{
		{"fine", "GET", "/livez", "", canned{200, "", `{"status":"alive"}`}, true},
		{"another word", "GET", "/livez", "", canned{200, "", `{"status":"well"}`}, false},
		{"another member", "GET", "/livez", "", canned{200, "", `{"status":"alive","more":1}`}, false},
		{"another status", "GET", "/livez", "", canned{201, "", `{"status":"alive"}`}, false},
		{"another type", "GET", "/livez", "", canned{200, "Content-Type: text/plain", `{"status":"alive"}`}, false},
		{"an unknown path", "GET", "/nothing", "", problem(404, "not_found"), true},
		{"an unknown path that is there", "GET", "/nothing", "", canned{200, "", `{}`}, false},
		{"a wrong method", "PUT", "/livez", "", problem(405, "method_not_allowed"), true},
		{"a wrong method that is fine", "PUT", "/livez", "", canned{200, "", `{"status":"alive"}`}, false},
		{"a code of another status", "GET", "/api/sessions/s1", "", problem(404, "conflict"), false},
		{"a status that the route has not", "GET", "/api/sessions/s1", "", problem(409, "conflict"), false},
		{"a delegation", "GET", "/api/sessions/s1%2Fd1", "", problem(404, "not_found"), true},
		{"a made session without its place", "POST", "/api/sessions", "{}", canned{201, "", `{"session":"s1"}`}, false},
		{"a made session", "POST", "/api/sessions", "{}", canned{201, "Location: /api/sessions/s1", `{"session":"s1"}`}, true},
		{"a wrong body that is taken", "POST", "/api/sessions", `{"title":1}`, canned{201, "Location: /api/sessions/s1", `{"session":"s1"}`}, false},
		{"a wrong body", "POST", "/api/sessions", `{"title":1}`, problem(400, "bad_request"), true},
		{"a right body that is refused", "POST", "/api/sessions", `{"title":"x"}`, problem(400, "bad_request"), false},
		{"a wrong query", "GET", "/api/sessions?limit=0", "", problem(400, "bad_request"), true},
		{"a right query that is refused", "GET", "/api/sessions?limit=1", "", problem(400, "bad_request"), false},
		{"a page of events", "GET", "/api/sessions/s1/events", "", canned{200, "", `{"items":[` + frame + `],"next_cursor":null}`}, true},
		{"a leak in a page", "GET", "/api/sessions/s1/events", "", canned{200, "", `{"items":[` + strings.Replace(frame, `"reason"`, `"leak":1,"reason"`, 1) + `],"next_cursor":null}`}, false},
		{"a stream", "GET", "/api/sessions/s1/stream", "", stream("retry: 2000\n\n: hb\n\nid: 7\nevent: session_closed\ndata: " + frame + "\n\n"), true},
		{"a stream without ids", "GET", "/api/sessions/s1/stream", "", stream("event: session_closed\ndata: " + frame + "\n\n"), false},
		{"a leak in a stream", "GET", "/api/sessions/s1/stream", "", stream("id: 7\nevent: session_closed\ndata: " + strings.Replace(frame, `"reason"`, `"leak":1,"reason"`, 1) + "\n\n"), false},
		{"an unknown field in a stream", "GET", "/api/sessions/s1/stream", "", stream("what: 7\n\n"), false},
	} {
		n := &noted{}
		req, err := http.NewRequest(x.method, "http://localhost"+x.path, strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.Transport(n, x.answer).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		if fine := len(n.said) == 0; fine != x.fine {
			t.Errorf("%s: %v", x.name, n.said)
		}
	}
}
