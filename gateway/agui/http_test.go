package agui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/waystest"
)

func TestMain(m *testing.M) { waystest.Main(m) }

// rig is a running server with a stand-in for the engine: the real machine in memory.
type rig struct {
	*waystest.Rig
	t        *testing.T
	sessions *gatewaytest.Sessions
	token    string
	stop     func() error
}

func start(t *testing.T, changes ...waystest.Setup) *rig {
	t.Helper()
	s := waystest.Begin(t, changes...)
	return &rig{Rig: s, t: t, sessions: s.Sessions, stop: s.Stop}
}

// told is one event: what it is called, its id, and its members.
type told struct {
	id, kind string
	m        map[string]any
	raw      string
}

func (e told) text(name string) string { s, _ := e.m[name].(string); return s }

// stream is an answer with events.
type stream struct {
	t      *testing.T
	status int
	header http.Header
	body   io.Reader
	lines  *bufio.Scanner
	close  func()
}

func (r *rig) request(method, path, body string, headers ...string) *stream {
	r.t.Helper()
	if r.token != "" {
		headers = append([]string{"Authorization", "Bearer " + r.token}, headers...)
	}
	a := r.Call(method, path, body, headers...)
	s := &stream{t: r.t, status: a.StatusCode, header: a.Header, body: a.Lines, lines: bufio.NewScanner(a.Lines), close: a.End}
	s.lines.Buffer(nil, 8<<20)
	return s
}

// next is the next event; false = the stream has ended.
func (s *stream) next() (e told, ok bool) {
	for s.lines.Scan() {
		switch line := s.lines.Text(); {
		case strings.HasPrefix(line, "id: "):
			e.id = line[4:]
		case strings.HasPrefix(line, "data: "):
			e.raw = line[6:]
			if err := json.Unmarshal([]byte(e.raw), &e.m); err != nil {
				s.t.Fatalf("%s: %v", e.raw, err)
			}
			e.kind = e.text("type")
			if e.kind == "CUSTOM" {
				e.kind = e.text("name")
			}
		case line == "" && e.m != nil:
			return e, true
		}
	}
	return e, false
}

// until reads up to an event of a kind.
func (s *stream) until(kind string) (all []told) {
	s.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			s.t.Fatalf("it ended before %s, behind %v", kind, kinds(all))
		}
		if all = append(all, e); e.kind == kind {
			return all
		}
	}
}

// rest reads to the end.
func (s *stream) rest() (all []told) {
	for {
		e, ok := s.next()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

func kinds(all []told) (k []string) {
	for _, e := range all {
		k = append(k, e.kind)
	}
	return k
}

// texts are the messages of the assistant that events bring, by their ids, put together.
func texts(all []told) map[string]string {
	m := map[string]string{}
	for _, e := range all {
		if e.kind == "TEXT_MESSAGE_CONTENT" {
			m[e.text("messageId")] += e.text("delta")
		}
	}
	return m
}

// input is a RunAgentInput.
func input(thread string, messages []map[string]any, more map[string]any) string {
	in := map[string]any{"threadId": thread, "runId": "r1", "messages": messages, "tools": []any{}, "context": []any{}}
	if messages == nil {
		in["messages"] = []any{}
	}
	for k, v := range more {
		in[k] = v
	}
	b, _ := json.Marshal(in)
	return string(b)
}

func user(id, text string) map[string]any {
	return map[string]any{"id": id, "role": "user", "content": text}
}

func says(messages ...map[string]any) []map[string]any { return messages }

// key is the session that a stream is of, by the task of its first own event.
func key(t *testing.T, all []told) (conversation.SessionKey, conversation.TaskID) {
	t.Helper()
	i := slices.IndexFunc(all, func(e told) bool { return e.kind == "parley.run" })
	if i < 0 {
		t.Fatalf("no parley.run in %v", kinds(all))
	}
	value, _ := all[i].m["value"].(map[string]any)
	task := conversation.TaskID(value["task"].(string))
	session, _ := task.Session()
	return gatewaytest.Key(string(session)), task
}

// say begins a run with a message, in a thread, and reads up to where the model is asked.
func (r *rig) say(thread, id, text string) (*stream, []told, conversation.SessionKey, conversation.TaskID) {
	r.t.Helper()
	s := r.request("POST", "/agui", input(thread, says(user(id, text)), nil))
	if s.status != 200 {
		b, _ := io.ReadAll(s.body)
		r.t.Fatalf("%d %s", s.status, b)
	}
	begun := s.until("parley.run")
	session, task := key(r.t, begun)
	return s, begun, session, task
}

// streamed is a text of a model whose words were shown.
func streamed(text string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemText, Text: text, Streamed: true}
}

// A client that was cut off behind any event goes on behind it, while the text streams and later,
// and has each text once and whole. It is on the same stream for it: the run does not begin again.
func TestGoOn(t *testing.T) {
	r := start(t)
	s, all, session, task := r.say("mine", "u1", "Go")
	show := func(at int, text string) {
		r.sessions.Show(session, conversation.Delta{Task: task, Draft: "1.1.0", At: at, Text: text})
	}
	show(0, "One ")
	show(4, "twö ")
	for len(texts(all)) == 0 || !strings.HasSuffix(texts(all)["1.1.0-"+string(task)], "twö ") {
		e, _ := s.next()
		all = append(all, e)
	}
	follow := s.header.Get("Content-Location")
	s.close()
	cut := slices.Clone(all)
	show(8, "three ")
	r.sessions.Drafts(session, conversation.DraftView{Task: task, Draft: "1.1.0", Text: "One twö three "})
	live := r.request("GET", follow, "", "Last-Event-ID", all[len(all)-1].id)
	next, ok := live.next()
	if !ok || next.text("delta") != "three " {
		t.Fatalf("it goes on with %s", next.raw)
	}
	all = append(all, next)
	show(14, "four")
	r.sessions.Drafts(session)
	r.sessions.Model(session, streamed("One twö three four"))
	all = append(all, live.rest()...)
	id := "1.1.0-" + string(task)
	if got := texts(all); got[id] != "One twö three four" || len(got) != 1 {
		t.Errorf("%v", got)
	}
	if k := kinds(all); k[len(k)-1] != "RUN_FINISHED" || slices.Contains(k[1:], "RUN_STARTED") {
		t.Errorf("%v", k)
	}
	whole := r.request("GET", follow, "").rest()
	if k := kinds(whole); texts(whole)[id] != "One twö three four" || k[0] != "RUN_STARTED" || k[len(k)-1] != "RUN_FINISHED" {
		t.Errorf("from its beginning it is %v", k)
	}
	for i, e := range all {
		if e.id == "" || e.kind == "RUN_FINISHED" {
			continue
		}
		rest := r.request("GET", follow, "", "Last-Event-ID", e.id).rest()
		got := slices.Concat(all[:i+1], rest)
		if texts(got)[id] != "One twö three four" || rest[len(rest)-1].kind != "RUN_FINISHED" || slices.Contains(kinds(rest), "RUN_STARTED") {
			t.Errorf("cut off behind %d (%s of %d): %q %v", i, e.kind, len(cut), texts(got), kinds(rest))
		}
	}
}

// A run says of which message it is, by the client's own id, also of one that has joined the task, and to a client
// that joins what runs; to others by the server's.
func TestRunNamesItsMessage(t *testing.T) {
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = everybody{} })
	r.token = "ann:chat"
	_, first, session, _ := r.say("mine", "u1", "Go")
	steers := r.request("POST", "/agui", input("mine", says(user("u1", "Go"), map[string]any{"id": "a1", "role": "assistant", "content": "x"}, user("u2", "Faster")), map[string]any{"forwardedProps": map[string]any{"parley": map[string]any{"mode": "steer"}}}))
	second := steers.until("parley.run")
	called := func(all []told) string {
		value, _ := all[len(all)-1].m["value"].(map[string]any)
		name, _ := value["messageId"].(string)
		return name
	}
	if called(first) != "u1" || called(second) != "u2" {
		t.Fatalf("%s, %s", called(first), called(second))
	}
	follow := func(all []told) string {
		value, _ := all[len(all)-1].m["value"].(map[string]any)
		return value["follow"].(string)
	}
	for path, want := range map[string]string{follow(first): "u1", follow(second): "u2"} {
		if got := called(r.request("GET", path, "").until("parley.run")); got != want {
			t.Errorf("%s is of %s, want %s", path, got, want)
		}
	}
	if got := called(r.request("POST", "/agui", input("mine", says(), nil)).until("parley.run")); got != "u1" {
		t.Errorf("who joins is told %s", got)
	}
	r.Call("PATCH", "/api/sessions/"+string(session.Session), `{"access":"tenant"}`, "Authorization", "Bearer ann:chat").Want(200)
	r.token = "amy:chat"
	path := strings.Replace(follow(first), "/mine/", "/"+string(session.Session)+"/", 1)
	if got := called(r.request("GET", path, "").until("parley.run")); got != "m1-"+string(session.Session) {
		t.Errorf("another user is told %s", got)
	}
}

// A run that is sent again takes effect once, and is followed again: what the client has of it is
// taken away first, so that nothing comes twice.
func TestAgain(t *testing.T) {
	r := start(t)
	s, _, session, task := r.say("mine", "u1", "Go")
	r.sessions.Model(session, machinetest.Text("Done"))
	s.rest()
	half := map[string]any{"id": "1.1.0-" + string(task), "role": "assistant", "content": "Do"}
	for _, messages := range [][]map[string]any{says(user("u1", "Go")), says(user("u1", "Go"), half)} {
		all := r.request("POST", "/agui", input("mine", messages, map[string]any{"runId": "r2"})).rest()
		if k := kinds(all); k[len(k)-1] != "RUN_FINISHED" || len(texts(all)) != 1 || slices.Contains(k, "MESSAGES_SNAPSHOT") != (len(messages) == 2) {
			t.Errorf("%v", k)
		}
		if _, again := key(t, all); again != task {
			t.Errorf("it is %s, and was %s", again, task)
		}
	}
	other := r.request("POST", "/agui", input("mine", says(user("u1", "Something else")), nil))
	if e := other.refusal(); other.status != 409 || e["code"] != "conflict" || e["message"] != `the id "u1" was used for another message` {
		t.Errorf("%d %v", other.status, e)
	}
}

// refusal is the answer to a request that has failed.
func (s *stream) refusal() (m map[string]any) {
	b, err := io.ReadAll(s.body)
	if err != nil || json.Unmarshal(b, &m) != nil {
		s.t.Fatalf("%d %s %v", s.status, b, err)
	}
	return m
}

// Questions are answered in any order, one at a time: one that is not answered stays open.
func TestInterrupts(t *testing.T) {
	r := start(t)
	s, _, session, _ := r.say("mine", "u1", "Go")
	r.sessions.Model(session, machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`), machinetest.Call(conversation.ToolAsk, `{"question":"When?"}`))
	outcome := func(all []told) (kind string, ids []string) {
		t.Helper()
		last := all[len(all)-1]
		o, _ := last.m["outcome"].(map[string]any)
		list, _ := o["interrupts"].([]any)
		for _, i := range list {
			ids = append(ids, i.(map[string]any)["id"].(string))
		}
		kind, _ = o["type"].(string)
		return kind, ids
	}
	kind, ids := outcome(s.until("RUN_FINISHED"))
	if kind != "interrupt" || len(ids) != 2 {
		t.Fatalf("%s %v", kind, ids)
	}
	resume := func(entries ...map[string]any) []told {
		t.Helper()
		return r.request("POST", "/agui", input("mine", says(user("u1", "Go")), map[string]any{"resume": entries})).until("RUN_FINISHED")
	}
	all := resume(map[string]any{"interruptId": ids[1], "status": "resolved", "payload": "now"}, map[string]any{"interruptId": ids[0], "status": "cancelled"})
	if kind, open := outcome(all); kind != "interrupt" || !slices.Equal(open, ids[:1]) {
		t.Errorf("%s %v", kind, open)
	}
	done := make(chan []told)
	go func() {
		done <- resume(map[string]any{"interruptId": ids[0], "status": "resolved", "payload": map[string]any{"city": "Oslo"}})
	}()
	for answered := false; !answered; { // then the model is asked
		r.sessions.Play(func(w *machinetest.World) {
			view := w.Session(session).Machine.View()
			answered = len(view.Questions) == 0
		})
	}
	r.sessions.Model(session, machinetest.Text("Oslo, now"))
	if all := <-done; !slices.Contains(slices.Collect(values(texts(all))), "Oslo, now") {
		t.Errorf("%v", kinds(all))
	}
	if all := resume(map[string]any{"interruptId": ids[0], "status": "resolved", "payload": "elsewhere"}); !slices.Contains(kinds(all), "parley.ignored") {
		t.Errorf("%v", kinds(all))
	}
}

func values(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// What a client's tools, its system prompt and its context become: policies of the session.
// Nothing that it leaves out is taken away.
func TestSettings(t *testing.T) {
	r := start(t)
	tools := []any{map[string]any{"name": "get_weather", "description": "The weather", "parameters": map[string]any{"type": "object"}}}
	messages := says(map[string]any{"id": "s", "role": "system", "content": "Be kind."}, user("u1", "Go"))
	page := []any{map[string]any{"description": "The page", "value": "Prices"}}
	s := r.request("POST", "/agui", input("mine", messages, map[string]any{"tools": tools, "context": page}))
	session, _ := key(t, s.until("parley.run"))
	policy := func() string {
		var p conversation.Overrides
		r.sessions.Play(func(w *machinetest.World) { p = w.Session(session).Machine.View().Policy })
		b, _ := json.Marshal(p)
		return string(b)
	}
	want := `{"instructions":"Be kind.\n\nThe page:\nPrices","tools.caller":[{"description":"The weather","name":"get_weather","parameters":{"type":"object"}}]}`
	if got := policy(); got != want {
		t.Errorf("%s", got)
	}
	r.sessions.Model(session, machinetest.Call("get_weather", `{}`))
	finished := s.until("RUN_FINISHED")
	outcome, _ := finished[len(finished)-1].m["outcome"].(map[string]any)
	pending, _ := outcome["pendingToolCallIds"].([]any)
	if outcome["type"] != "success" || len(pending) != 1 {
		t.Fatalf("%v", outcome)
	}
	result := map[string]any{"id": "t1", "role": "tool", "toolCallId": pending[0], "content": "", "error": "no network"}
	s = r.request("POST", "/agui", input("mine", append(messages, result), map[string]any{"context": page}))
	s.until("parley.run")
	r.sessions.Model(session, machinetest.Text("I cannot tell"))
	s.until("RUN_FINISHED")
	var said []string
	r.sessions.Play(func(w *machinetest.World) {
		for _, e := range w.Session(session).Events() {
			if b, is := e.Body.(conversation.ToolFinished); is {
				said = append(said, b.Summary)
			}
		}
	})
	if !slices.Equal(said, []string{"error: no network"}) {
		t.Errorf("%q", said)
	}
	if got := policy(); got != want {
		t.Errorf("%s", got)
	}
}

// A result that cannot be taken refuses all of the input: also the tools that it brings.
func TestResultThatIsTooLong(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.TextBytes = 64 })
	tool := func(name string) map[string]any {
		return map[string]any{"tools": []any{map[string]any{"name": name, "parameters": map[string]any{"type": "object"}}}}
	}
	messages := says(user("u1", "Go"))
	s := r.request("POST", "/agui", input("mine", messages, tool("mine")))
	session, _ := key(t, s.until("parley.run"))
	r.sessions.Model(session, machinetest.Call("mine", `{}`))
	finished := s.until("RUN_FINISHED")
	outcome, _ := finished[len(finished)-1].m["outcome"].(map[string]any)
	pending, _ := outcome["pendingToolCallIds"].([]any)
	if len(pending) != 1 {
		t.Fatalf("%v", outcome)
	}
	head := func() (seq conversation.Seq) {
		r.sessions.Play(func(w *machinetest.World) { seq = w.Session(session).Machine.View().Head })
		return seq
	}
	before := head()
	result := map[string]any{"id": "t1", "role": "tool", "toolCallId": pending[0], "content": strings.Repeat("x", 65)}
	s = r.request("POST", "/agui", input("mine", append(messages, result, user("u2", "And this")), tool("other")))
	if e := s.refusal(); s.status != 413 || e["code"] != "too_large" {
		t.Errorf("%d %v", s.status, e)
	}
	if now := head(); now != before {
		t.Errorf("%d events came of it", now-before)
	}
}

// everybody has a key with their name, in the tenant of its first letter.
type everybody struct{ gateway.NoAuth }

func (everybody) Mode() string { return "keys" }

func (everybody) Authenticate(_ context.Context, c gateway.Credential) (*gateway.Principal, error) {
	user, scopes, ok := strings.Cut(c.Token, ":")
	if !ok {
		return nil, conversation.Errorf(conversation.Unauthenticated, "nobody is called that")
	}
	return &gateway.Principal{Tenant: "default", User: conversation.UserID(user), Scopes: strings.Fields(scopes), Credential: user}, nil
}

// Each refusal has its status, and says why in the words of the protocol's own error.
func TestRefusals(t *testing.T) {
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = everybody{} }, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.BodyBytes = 64 << 10 })
	r.token = "ann:chat"
	_, begun, session, task := r.say("mine", "u1", "Go")
	r.sessions.Model(session, machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
	cursor := begun[len(begun)-1].id
	run := "/agui/mine/runs/" + string(task)
	entry := func(members string) string {
		return `{"threadId":"mine","runId":"r","messages":[],"resume":[` + members + `]}`
	}
	bytes := func(data, kind string) string {
		return `{"type":"document","source":{"type":"data","value":"` + data + `","mimeType":"` + kind + `"}}`
	}
	many := strings.TrimSuffix(strings.Repeat(`{"id":"x","role":"user","content":"y"},`, 17), ",")
	for _, c := range []struct {
		name, token, method, path, body string
		status                          int
		code                            string
	}{
		{"no key", "-", "POST", "/agui", `{}`, 401, "unauthenticated"},
		{"no scope", "ann:runtime", "POST", "/agui", `{}`, 403, "forbidden"},
		{"no JSON", "", "POST", "/agui", `{`, 400, "invalid_json"},
		{"no body", "", "POST", "/agui", ``, 400, "invalid_json"},
		{"no object", "", "POST", "/agui", `[]`, 400, "bad_request"},
		{"no thread", "", "POST", "/agui", `{"runId":"r","messages":[]}`, 400, "bad_request"},
		{"no run", "", "POST", "/agui", `{"threadId":"t","messages":[]}`, 400, "bad_request"},
		{"no messages", "", "POST", "/agui", `{"threadId":"t","runId":"r"}`, 400, "bad_request"},
		{"messages of another kind", "", "POST", "/agui", `{"threadId":"t","runId":"r","messages":[7]}`, 400, "bad_request"},
		{"a message without an id", "", "POST", "/agui", `{"threadId":"t","runId":"r","messages":[{"role":"user","content":"x"}]}`, 400, "bad_request"},
		{"blank", "", "POST", "/agui", `{"threadId":"t","runId":"r","messages":[{"id":"x","role":"user","content":" "}]}`, 400, "bad_request"},
		{"a long id", "", "POST", "/agui", `{"threadId":"t","runId":"r","messages":[{"id":"` + strings.Repeat("x", 124) + `","role":"user","content":"x"}]}`, 400, "bad_request"},
		{"a long thread", "", "POST", "/agui", `{"threadId":"` + strings.Repeat("x", 129) + `","runId":"r","messages":[]}`, 400, "bad_request"},
		{"a long run", "", "POST", "/agui", `{"threadId":"t","runId":"` + strings.Repeat("x", 257) + `","messages":[]}`, 400, "bad_request"},
		{"much at once", "", "POST", "/agui", `{"threadId":"t","runId":"r","messages":[` + many + `]}`, 400, "bad_request"},
		{"an unknown mode", "", "POST", "/agui", `{"threadId":"t","runId":"r","messages":[],"forwardedProps":{"parley":{"mode":"shout"}}}`, 400, "bad_request"},
		{"a bad tool", "", "POST", "/agui", `{"threadId":"t2","runId":"r","messages":[{"id":"x","role":"user","content":"y"}],"tools":[{"name":"no such name!"}]}`, 400, "bad_request"},
		{"an unknown status", "", "POST", "/agui", entry(`{"interruptId":"q1","status":"maybe"}`), 400, "bad_request"},
		{"no payload", "", "POST", "/agui", entry(`{"interruptId":"q1","status":"resolved"}`), 400, "bad_request"},
		{"twice the same", "", "POST", "/agui", entry(`{"interruptId":"q1","status":"cancelled"},{"interruptId":"q1","status":"cancelled"}`), 400, "bad_request"},
		{"a blank answer", "", "POST", "/agui", entry(`{"interruptId":"q1-` + string(session.Session) + `","status":"resolved","payload":" "}`), 400, "bad_request"},
		{"a long interrupt", "", "POST", "/agui", entry(`{"interruptId":"q1","status":"resolved","payload":"Berlin"},{"interruptId":"` + strings.Repeat("x", 128) + `","status":"resolved","payload":"y"}`), 400, "bad_request"},
		{"a blank answer behind a good one", "", "POST", "/agui", entry(`{"interruptId":"q1","status":"resolved","payload":"Berlin"},{"interruptId":"q9","status":"resolved","payload":" "}`), 400, "bad_request"},
		{"nothing but bytes that are none", "", "POST", "/agui", `{"threadId":"t","runId":"r","messages":[{"id":"x","role":"user","content":[` + bytes("!!", "text/plain") + `]}]}`, 400, "bad_request"},
		{"nothing but what is no picture", "", "POST", "/agui", `{"threadId":"t","runId":"r","messages":[{"id":"x","role":"user","content":[` + bytes("AAAA", "image/png") + `]}]}`, 400, "bad_request"},
		{"many files", "", "POST", "/agui", `{"threadId":"t","runId":"r","messages":[{"id":"x","role":"user","content":[` + bytes("QQ==", "text/plain") + strings.Repeat(","+bytes("QQ==", "text/plain"), 10) + `]}]}`, 413, "too_large"},
		{"too large", "", "POST", "/agui", `{"threadId":"` + strings.Repeat("x", 65<<10) + `"}`, 413, "too_large"},
		{"no such run", "", "GET", "/agui/mine/runs/t9-" + string(session.Session), "", 404, "not_found"},
		{"no such thread", "", "GET", "/agui/theirs/runs/" + string(task), "", 404, "not_found"},
		{"another's run", "bob:chat", "GET", run, "", 404, "not_found"},
		{"another's run by its session", "bob:chat", "GET", "/agui/" + string(session.Session) + "/runs/" + string(task), "", 404, "not_found"},
		{"no number", "", "GET", run, "", 400, "bad_request"},
		{"a number of another log", "", "GET", run, "", 409, "conflict"},
		{"nothing to stop", "", "POST", "/agui/theirs/cancel", `{}`, 404, "not_found"},
		{"another's to stop", "bob:chat", "POST", "/agui/" + string(session.Session) + "/cancel", `{}`, 404, "not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := *r
			from.t = t
			if c.token != "" {
				from.token = c.token
			}
			var headers []string
			switch c.name {
			case "no number":
				headers = []string{"Last-Event-ID", "x"}
			case "a number of another log":
				headers = []string{"Last-Event-ID", "9000000000000000"}
			}
			s := from.request(c.method, c.path, c.body, headers...)
			e := s.refusal()
			if s.status != c.status || e["code"] != c.code {
				t.Errorf("%d %v, want %d %s", s.status, e, c.status, c.code)
			}
			if c.name != "too large" && e["type"] != "RUN_ERROR" { // which is refused before it is known whose it is
				t.Errorf("%v", e)
			}
			if c.status == 401 && s.header.Get("WWW-Authenticate") != "Bearer" {
				t.Error("no WWW-Authenticate")
			}
		})
	}
	// Nothing of it has happened.
	if s := r.request("GET", run, "", "Last-Event-ID", cursor); s.status != 200 {
		t.Error(s.status)
	}
	var questions int
	r.sessions.Play(func(w *machinetest.World) { questions = len(w.Session(session).Machine.View().Questions) })
	if questions != 1 {
		t.Errorf("%d questions", questions)
	}
	// The session of another user, as a thread, is one of one's own with that name.
	bob := *r
	bob.token = "bob:chat"
	s := bob.request("POST", "/agui", input(string(session.Session), nil, nil))
	if all := s.rest(); s.status != 200 || len(texts(all)) != 0 || !slices.Equal(kinds(all), []string{"RUN_STARTED", "parley.run", "RUN_FINISHED"}) {
		t.Errorf("%d %v", s.status, kinds(all))
	}
	// What is refused, and what says nothing, has made no session.
	var mine struct{ Items []struct{ ID string } }
	if s := r.request("GET", "/api/sessions", ""); json.NewDecoder(s.body).Decode(&mine) != nil || len(mine.Items) != 1 {
		t.Errorf("%d %+v", s.status, mine)
	}
}

// Whoever may write, but does not own the session, goes on without tools and context of his own,
// and is told.
func TestMembersSettings(t *testing.T) {
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = everybody{} })
	r.token = "ann:chat"
	s, _, session, _ := r.say("mine", "u1", "Go")
	r.sessions.Model(session, machinetest.Text("Done"))
	s.rest()
	if s := r.request("PUT", "/api/sessions/"+string(session.Session)+"/members/bob", `{"role":"writer"}`); s.status != 200 && s.status != 204 {
		t.Fatal(s.status)
	}
	r.token = "bob:chat"
	s = r.request("POST", "/agui", input(string(session.Session), says(user("b1", "Me too")), map[string]any{"context": []any{map[string]any{"description": "a", "value": "b"}}}))
	all := s.until("parley.run")
	if k := kinds(all); !slices.Equal(k, []string{"RUN_STARTED", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT", "parley.ignored", "parley.run"}) {
		t.Errorf("%v", k)
	}
	r.sessions.Model(session, machinetest.Text("You too"))
	if all := s.rest(); len(all) == 0 || all[len(all)-1].kind != "RUN_FINISHED" {
		t.Errorf("%v", kinds(all))
	}
}

// Parts with bytes become attachments. What cannot be used is left out, and the client is told.
func TestFiles(t *testing.T) {
	r := start(t)
	part := func(kind, value string) map[string]any {
		return map[string]any{"type": "document", "source": map[string]any{"type": "data", "value": value, "mimeType": kind}, "metadata": map[string]any{"filename": "a.txt"}}
	}
	parts := []any{
		map[string]any{"type": "text", "text": "Read "}, part("text/plain", "SGVsbG8="), map[string]any{"type": "text", "text": "this"}, part("text/plain", "no base64!"),
		map[string]any{"type": "image", "source": map[string]any{"type": "url", "value": "http://127.0.0.1/x.png"}},
	}
	said := says(map[string]any{"id": "u1", "role": "user", "content": parts})
	all := r.request("POST", "/agui", input("mine", said, nil)).until("parley.run")
	if k := kinds(all); !slices.Equal(k, []string{"RUN_STARTED", "parley.ignored", "parley.ignored", "parley.run"}) {
		t.Errorf("%v", k)
	}
	session, _ := key(t, all)
	var text string
	var names []string
	r.sessions.Play(func(w *machinetest.World) {
		for _, e := range w.Session(session).Events() {
			if b, is := e.Body.(conversation.MessageAccepted); is {
				for text = b.Text; len(names) < len(b.Files); {
					names = append(names, b.Files[len(names)].Name)
				}
			}
		}
	})
	if text != "Read this" || !slices.Equal(names, []string{"a.txt"}) {
		t.Errorf("%q %q", text, names)
	}
	s := r.request("POST", "/agui", input("mine", says(map[string]any{"id": "u2", "role": "user", "content": parts[3:4]}), nil))
	if e := s.refusal(); s.status != 400 || e["code"] != "bad_request" {
		t.Errorf("%d %v", s.status, e)
	}
}

// A client that wants no snapshots gets none.
func TestNoSnapshot(t *testing.T) {
	r := start(t)
	s, _, session, _ := r.say("mine", "u1", "Go")
	r.sessions.Model(session, machinetest.Text("Done"))
	s.rest()
	for want, parley := range map[bool]map[string]any{true: {}, false: {"snapshot": false}} {
		props := map[string]any{"forwardedProps": map[string]any{"parley": parley, "theirs": 1}}
		all := r.request("POST", "/agui", input("mine", nil, props)).rest()
		if k := kinds(all); slices.Contains(k, "MESSAGES_SNAPSHOT") != want || k[len(k)-1] != "RUN_FINISHED" {
			t.Errorf("%v: %v", parley, k)
		}
	}
}

// A task is stopped by a command, and a run that is stopped says so.
func TestCancel(t *testing.T) {
	r := start(t)
	s, _, _, task := r.say("mine", "u1", "Go")
	c := r.request("POST", "/agui/mine/cancel", `{"reason":"enough"}`)
	if e := c.refusal(); c.status != 202 || e["task"] != string(task) || e["oldStatus"] != "RUNNING" {
		t.Errorf("%d %v", c.status, e)
	}
	all := s.until("RUN_FINISHED")
	if outcome, _ := all[len(all)-1].m["outcome"].(map[string]any); outcome["type"] != "cancelled" {
		t.Errorf("%v", outcome)
	}
}

// A server that goes away ends streams without a word: the client comes back.
func TestAway(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) {
		c.Times.Drain = time.Second
		c.Times.DrainSpread = time.Millisecond
	})
	s, _, _, _ := r.say("mine", "u1", "Go")
	go r.stop()
	for _, e := range s.rest() {
		if e.kind == "RUN_FINISHED" || e.kind == "RUN_ERROR" {
			t.Errorf("it ends with %s", e.raw)
		}
	}
}

// What can be expected is said in the protocol's words.
func TestCapabilities(t *testing.T) {
	r := start(t)
	s := r.request("GET", "/agui", "")
	m := s.refusal()
	if tools, _ := m["tools"].(map[string]any); s.status != 200 || tools["clientProvided"] != true {
		t.Errorf("%d %v", s.status, m)
	}
}

// A thread's name may hold anything that a path's part can, escaped.
func TestThreadNames(t *testing.T) {
	r := start(t)
	const name = "a thread/with ü?&"
	s, begun, session, _ := r.say(name, "u1", "Go")
	s.close()
	follow := s.header.Get("Content-Location")
	if !strings.HasPrefix(follow, "/agui/"+url.PathEscape(name)+"/runs/") {
		t.Fatal(follow)
	}
	r.sessions.Model(session, machinetest.Text("Done"))
	all := r.request("GET", follow, "", "Last-Event-ID", begun[len(begun)-1].id).rest()
	if k := kinds(all); len(k) == 0 || k[len(k)-1] != "RUN_FINISHED" || all[len(all)-1].text("runId") != "r1" || all[len(all)-1].text("threadId") != name {
		t.Errorf("%s", fmt.Sprint(k))
	}
}
