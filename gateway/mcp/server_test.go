package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/gatewaytest"
)

// streamed is a text of a model whose words were shown.
func streamed(text string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemText, Text: text, Streamed: true}
}

// progress is a notification.
type progress struct {
	Token    any     `json:"progressToken"`
	Progress float64 `json:"progress"`
	Message  string  `json:"message"`
	Meta     struct {
		Kind string `json:"parley/kind"`
		ID   string `json:"parley/id"`
	} `json:"_meta"`
}

func steps(t *testing.T, all []event) (steps []progress) {
	t.Helper()
	for _, e := range all {
		if e.m.Method != "notifications/progress" {
			continue
		}
		var p progress
		if err := json.Unmarshal(e.m.Params, &p); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, p)
	}
	return steps
}

// shown is the text that progress has told of each item.
func shown(steps []progress) string {
	text := ""
	for _, p := range steps {
		if p.Meta.Kind == "text" {
			text += p.Message
		}
	}
	return text
}

var words = strings.Repeat("wörter und ", 12) + "ende"

// play begins a call, and has the model write its text in pieces.
func (h *host) play(name string) (*answer, conversation.SessionKey, conversation.TaskID) {
	h.t.Helper()
	a, session, task := h.begun(name, "Go")
	at := 0
	for piece := range slices.Chunk([]rune(words), 25) {
		h.sessions.Show(session, conversation.Delta{Task: task, Draft: "1.1.0", At: at, Text: string(piece)})
		at += len(piece)
	}
	return a, session, task
}

// What is sent for a call, byte for byte but for what is random.
func TestGolden(t *testing.T) {
	n := start(t)
	h := n.host("", `{"elicitation":{}}`)
	a, session, _ := h.begun("mine", "Go")
	n.sessions.Model(session, machinetest.Call(conversation.ToolAsk, `{"question":"Which?","choices":["A","B"]}`))
	asked := a.until("elicitation/create")
	if s := h.post(`{"jsonrpc":"2.0","id":` + idOf(t, asked[len(asked)-1]) + `,"result":{"action":"accept","content":{"answer":"B"}}}`).StatusCode; s != 202 {
		t.Fatal(s)
	}
	n.awaitModel(session)
	n.sessions.Model(session, machinetest.Text("B it is"))
	all := append(asked, a.rest()...)
	var b strings.Builder
	for _, e := range all {
		if e.id != "" {
			b.WriteString("id: " + cursorOf(t, e.id, nil) + "\n")
		}
		b.WriteString(e.raw + "\n\n")
	}
	text := strings.ReplaceAll(b.String(), string(session.Session), "SESSION")
	text = regexp.MustCompile(`"u":\d+`).ReplaceAllString(text, `"u":0`)
	text = regexp.MustCompile(`("x":"|form:)[A-Z0-9]{26}`).ReplaceAllString(text, "${1}FORMS")
	gatewaytest.Golden(t, "call.txt", []byte(text))
}

func idOf(t *testing.T, e event) string {
	t.Helper()
	b, err := json.Marshal(e.m.ID)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// awaitModel waits until nothing is asked any more in a session, and so its model is.
func (n *node) awaitModel(session conversation.SessionKey) {
	for asked := true; asked; {
		n.sessions.Play(func(w *machinetest.World) { asked = len(w.Session(session).Machine.View().Questions) > 0 })
	}
}

// A host that is cut off behind any event of a call goes on behind it at another node: while the
// text streams, and when all is over. It has each piece of the text once, and the one response.
func TestGoOnAnywhere(t *testing.T) {
	w := newWorld(t)
	here, there := w.node(), w.node()
	h := here.host("", `{}`)
	a, session, task := h.play("mine")
	all := a.until("notifications/progress") // the first of the text
	a.end()
	n := len([]rune(words))
	w.sessions.Show(session, conversation.Delta{Task: task, Draft: "1.1.0", At: n, Text: ", oder doch nicht: " + words})
	w.sessions.Drafts(session, conversation.DraftView{Task: task, Draft: "1.1.0", Text: words + ", oder doch nicht: " + words})
	live := h.at(there).get(all[len(all)-1].id)
	more := live.until("notifications/progress")
	w.sessions.Drafts(session)
	full := words + ", oder doch nicht: " + words
	w.sessions.Model(session, streamed(full))
	told := slices.Concat(all, more, live.rest())
	if got := shown(steps(t, told)); got != full {
		t.Errorf("%q", got)
	}
	last := told[len(told)-1].m
	if r := last.result(t); fmt.Sprint(last.ID) != "7" || r.text() != full || r.StructuredContent.Status != "COMPLETE" || r.StructuredContent.Receipt == nil {
		t.Errorf("%v %+v", last.ID, r)
	}
	at := 0.0
	for _, p := range steps(t, told) {
		if p.Progress <= at || fmt.Sprint(p.Token) != "7" {
			t.Errorf("progress %v behind %v, for %v", p.Progress, at, p.Token)
		}
		at = p.Progress
	}
	for i, e := range told {
		if e.id == "" {
			continue
		}
		rest := h.at(there).get(e.id).rest()
		got := slices.Concat(told[:i+1], rest)
		if text := shown(steps(t, got)); text != full {
			t.Errorf("cut off behind %d: %q", i, text)
		}
		if r := rest[len(rest)-1].m.result(t); r.text() != full {
			t.Errorf("cut off behind %d it is %+v", i, r)
		}
	}
}

// A form is answered at any node. Who is first, answers; a form that is not answered stays open.
func TestForms(t *testing.T) {
	w := newWorld(t)
	here, there := w.node(), w.node()
	h := here.host("", `{"elicitation":{}}`)
	for _, c := range []struct{ name, result, says, note string }{
		{"accepted", `{"action":"accept","content":{"answer":"Oslo"}}`, "Oslo", ""},
		{"declined", `{"action":"decline"}`, "", "The user has not answered"},
		{"dismissed", `{"action":"cancel"}`, "", "The user has not answered"},
		{"accepted with nothing", `{"action":"accept"}`, "", "The user has not answered"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, session, _ := h.begun(c.name, "Go")
			w.sessions.Model(session, machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
			asked := a.until("elicitation/create")
			form := idOf(t, asked[len(asked)-1])
			at := h
			if c.says != "" {
				at = h.at(there)
			}
			if a := at.post(`{"jsonrpc":"2.0","id":` + form + `,"result":` + c.result + `}`); a.StatusCode != 202 {
				t.Fatalf("%d", a.StatusCode)
			}
			if c.says != "" {
				w.awaitModelOf(session)
				w.sessions.Model(session, machinetest.Text("There, then"))
			}
			rest := a.until("")
			r := rest[len(rest)-1].m.result(t)
			if c.says == "" && (r.StructuredContent.Status != "AWAITING_RESPONSE" || !strings.Contains(r.StructuredContent.Note, c.note) || len(r.StructuredContent.Questions) != 1) {
				t.Errorf("%+v", r)
			}
			if c.says != "" && r.text() != "There, then" {
				t.Errorf("%+v", r)
			}
			if a := h.post(`{"jsonrpc":"2.0","id":` + form + `,"result":` + c.result + `}`); a.StatusCode != 202 {
				t.Errorf("again it is %d", a.StatusCode)
			}
		})
	}
	t.Run("a host that cannot", func(t *testing.T) {
		a, session, _ := h.begun("cannot", "Go")
		w.sessions.Model(session, machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
		asked := a.until("elicitation/create")
		h.post(`{"jsonrpc":"2.0","id":` + idOf(t, asked[len(asked)-1]) + `,"error":{"code":-32601,"message":"no"}}`)
		rest := a.until("")
		if r := rest[len(rest)-1].m.result(t); len(r.StructuredContent.Questions) != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func (w *world) awaitModelOf(session conversation.SessionKey) { (&node{world: w}).awaitModel(session) }

// The newest version has no sessions: a host is asked by the result of its call, and calls again.
func TestNewest(t *testing.T) {
	w := newWorld(t)
	here, there := w.node(), w.node()
	call := func(n *node, more, capabilities string) *answer {
		return n.send("POST", `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"send_message","arguments":{"session":"mine","text":"Go"}`+more+
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+capabilities+`,"progressToken":"p"}}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "send_message")
	}
	a := call(here, "", `{"elicitation":{"form":{}}}`)
	if id := a.Header.Get("Mcp-Session-Id"); id != "" {
		t.Errorf("it has a session: %s", id)
	}
	a.until("notifications/progress")
	session := w.only()
	w.sessions.Model(session, machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
	all := a.until("")
	for _, e := range all {
		if e.id != "" {
			t.Errorf("an event has an id: %+v", e)
		}
	}
	r := all[len(all)-1].m.result(t)
	if r.ResultType != "input_required" || len(r.InputRequests) != 1 || len(r.Content) != 0 {
		t.Fatalf("%+v", r)
	}
	for id, ask := range r.InputRequests {
		if ask.Method != "elicitation/create" || !strings.Contains(string(ask.Params), "Where?") {
			t.Errorf("%+v", ask)
		}
		left := call(there, `,"requestState":`+quote(r.RequestState)+`,"inputResponses":{`+quote(id)+`:{"action":"decline"}}`, `{"elicitation":{"form":{}}}`).until("")
		if r := left[len(left)-1].m.result(t); r.ResultType != "complete" || !strings.Contains(r.StructuredContent.Note, "not answered") {
			t.Errorf("%+v", r)
		}
		again := call(there, `,"requestState":`+quote(r.RequestState)+`,"inputResponses":{`+quote(id)+`:{"action":"accept","content":{"answer":"Oslo"}}}`, `{"elicitation":{"form":{}}}`)
		w.awaitModelOf(session)
		w.sessions.Model(session, machinetest.Text("Oslo, then"))
		rest := again.until("")
		if r := rest[len(rest)-1].m.result(t); r.text() != "Oslo, then" || r.ResultType != "complete" {
			t.Errorf("%+v", r)
		}
	}
}

// only is the one session that there is.
func (w *world) only() (key conversation.SessionKey) {
	w.t.Helper()
	n := 0
	for row, err := range w.sessions.Sessions(w.t.Context(), conversation.Page{Tenant: "default"}) {
		if err != nil {
			w.t.Fatal(err)
		}
		key = row.Key
		n++
	}
	if n != 1 {
		w.t.Fatalf("there are %d sessions", n)
	}
	return key
}

// Each refusal that comes before the SDK has its status, and is an error of JSON-RPC.
func TestRefusals(t *testing.T) {
	n := start(t, withKeys, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.BodyBytes = 64 << 10 })
	ann := n.host("ann", `{}`)
	session := ann.headers[3]
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	newest := func(method, meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{` + meta + `}}}`
	}
	const version, all = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	for _, c := range []struct {
		name, method, token, body string
		headers                   []string
		status, code              int
		data                      string
	}{
		{"without a key", "POST", "", list, nil, 401, -32000, "unauthenticated"},
		{"with another text", "POST", "nobody", list, nil, 401, -32000, "unauthenticated"},
		{"a key that is not for chats", "POST", "ops", list, nil, 403, -32000, "forbidden"},
		{"without a key to hear", "GET", "", "", nil, 401, -32000, "unauthenticated"},
		{"another user's MCP session", "POST", "bob", list, []string{"Mcp-Session-Id", session}, 404, -32000, "not_found"},
		{"one of another tenant", "POST", "eve", list, []string{"Mcp-Session-Id", session}, 404, -32000, "not_found"},
		{"one that nobody made", "GET", "ann", "", []string{"Mcp-Session-Id", "x"}, 404, -32000, "not_found"},
		{"another user ends it", "DELETE", "bob", "", []string{"Mcp-Session-Id", session}, 404, -32000, "not_found"},
		{"nothing to end", "DELETE", "ann", "", nil, 400, -32000, ""},
		{"nothing to hear", "GET", "ann", "", nil, 400, -32000, ""},
		{"no events wanted", "GET", "ann", "", []string{"Mcp-Session-Id", session, "Accept", "application/json"}, 406, -32000, ""},
		{"the newest hears nothing", "GET", "ann", "", []string{"Mcp-Protocol-Version", "2026-07-28"}, 405, -32000, ""},
		{"an id of no event", "GET", "ann", "", []string{"Mcp-Session-Id", session, "Last-Event-ID", "1_2"}, 400, -32000, ""},
		{"a version of the future", "POST", "ann", list, []string{"Mcp-Protocol-Version", "2099-01-01"}, 400, -32022, ""},
		{"no body", "POST", "ann", "", nil, 400, -32700, ""},
		{"no JSON", "POST", "ann", "{", nil, 400, -32700, ""},
		{"no message", "POST", "ann", `{"jsonrpc":"1.0"}`, nil, 400, -32600, ""},
		{"a batch", "POST", "ann", " [" + list + "]", nil, 400, -32600, ""},
		{"no text", "POST", "ann", "{\"jsonrpc\":\"\xff\"}", nil, 400, -32000, "invalid_json"},
		{"another type", "POST", "ann", list, []string{"Content-Type", "text/plain"}, 415, -32000, "unsupported_media_type"},
		{"too much", "POST", "ann", list + strings.Repeat(" ", 70<<10), nil, 413, 0, ""},
		{"an answer to nothing", "POST", "ann", `{"jsonrpc":"2.0","id":4,"result":{}}`, nil, 400, -32000, "bad_request"},
		{"an answer in a session that is not there", "POST", "ann", `{"jsonrpc":"2.0","id":"form:X:q1:none","result":{}}`, nil, 404, -32000, "not_found"},
		{"headers that say another version", "POST", "ann", newest("tools/list", all), nil, 400, -32020, ""},
		{"no method in the headers", "POST", "ann", newest("tools/list", all), []string{"Mcp-Protocol-Version", "2026-07-28"}, 400, -32020, ""},
		{"another name in the headers", "POST", "ann", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cancel","_meta":{` + all + `}}}`,
			[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "read_session"}, 400, -32020, ""},
		{"no version in the request", "POST", "ann", newest("tools/list", ""), []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, 400, -32602, ""},
		{"no capabilities", "POST", "ann", newest("tools/list", version), []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, 400, -32602, ""},
		{"a method that is none", "POST", "ann", newest("tools/none", all), []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/none"}, 404, -32601, ""},
		{"in older versions", "POST", "ann", `{"jsonrpc":"2.0","id":1,"method":"tools/none"}`, nil, 200, -32601, ""},
		{"a tool that is none", "POST", "ann", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}`, nil, 200, -32602, ""},
		{"a subscription of nobody", "POST", "ann", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"parley://sessions/none"}}`, nil, 200, -32602, ""},
		{"a cursor of another list", "POST", "ann", `{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{"cursor":"` + session + `"}}`, nil, 200, -32602, "bad_request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := c.headers
			if c.token != "" {
				headers = append([]string{"Authorization", "Bearer " + c.token}, headers...)
			}
			a := n.send(c.method, c.body, headers...)
			m := a.whole()
			if c.code == 0 && a.StatusCode == c.status {
				return // it has not come to a route
			}
			if a.StatusCode != c.status || m.Error == nil || m.Error.Code != c.code || c.data != "" && !strings.Contains(string(m.Error.Data), `"`+c.data+`"`) {
				t.Fatalf("%d %+v", a.StatusCode, m.Error)
			}
			if c.status == 401 && a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Error("it does not say how to sign in")
			}
		})
	}
}

// What a tool cannot do it says in its result, with the code and a sentence. Others' sessions are
// not there; who may read only is told so.
func TestToolsRefuse(t *testing.T) {
	n := start(t, withKeys, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.TextBytes = 100 })
	ann, bob, eve := n.host("ann", `{}`), n.host("bob", `{}`), n.host("eve", `{}`)
	a, session, task := ann.begun("mine", "Go")
	n.sessions.Model(session, machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
	a.until("")
	id := string(session.Session)
	share := func(role string) {
		req, err := http.NewRequestWithContext(t.Context(), "PUT", n.url+"/api/sessions/"+id+"/members/bob", strings.NewReader(`{"role":"`+role+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer ann")
		req.Header.Set("Content-Type", "application/json")
		r, err := n.http.Do(req)
		if err != nil || r.StatusCode >= 300 {
			t.Fatal(r, err)
		}
		_ = r.Body.Close()
	}
	refused := func(name string, h *host, tool, arguments, code string) {
		t.Helper()
		a := h.call(1, tool, arguments)
		var m message
		if strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
			all := a.until("")
			m = all[len(all)-1].m
		} else {
			m = a.whole()
		}
		if r := m.result(t); !r.IsError || !strings.HasPrefix(r.text(), code) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for who, h := range map[string]*host{"a stranger": bob, "another tenant": eve} {
		refused(who, h, "read_session", `{"session":"`+id+`"}`, "not_found")
		refused(who, h, "answer", `{"session":"`+id+`","question":"q1","text":"x"}`, "not_found")
		refused(who, h, "cancel", `{"task":"`+string(task)+`"}`, "not_found")
		refused(who, h, "cancel", `{"session":"`+id+`"}`, "not_found")
		if m := h.post(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"parley://sessions/` + id + `"}}`).whole(); m.Error == nil {
			t.Errorf("%s reads it", who)
		}
		if m := h.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"parley://sessions/` + id + `"}}`).whole(); m.Error == nil {
			t.Errorf("%s subscribes to it", who)
		}
		if r := h.call(1, "list_sessions", `{}`).whole().result(t); len(r.StructuredContent.Sessions) != 0 {
			t.Errorf("%s sees %+v", who, r.StructuredContent.Sessions)
		}
		if a := h.post(`{"jsonrpc":"2.0","id":"form:X:q1:` + id + `","result":{"action":"accept","content":{"answer":"x"}}}`); a.StatusCode != 404 {
			t.Errorf("%s answers a form: %d", who, a.StatusCode)
		}
	}
	share("reader")
	refused("a reader", bob, "send_message", `{"session":"`+id+`","text":"x"}`, "forbidden")
	refused("a reader", bob, "cancel", `{"session":"`+id+`"}`, "forbidden")
	if a := bob.post(`{"jsonrpc":"2.0","id":"form:X:q1:` + id + `","result":{"action":"accept","content":{"answer":"x"}}}`); a.StatusCode != 403 {
		t.Errorf("a reader answers a form: %d", a.StatusCode)
	}
	if r := bob.call(1, "read_session", `{"session":"`+id+`"}`).whole().result(t); len(r.StructuredContent.Questions) != 1 {
		t.Errorf("a reader reads %+v", r)
	}
	refused("no text", ann, "send_message", `{"text":""}`, "bad_request")
	refused("too much", ann, "send_message", `{"text":"`+strings.Repeat("x", 101)+`"}`, "too_large")
	refused("a mode", ann, "send_message", `{"text":"x","mode":"never"}`, "bad_request")
	refused("a name", ann, "send_message", `{"text":"x","session":"`+strings.Repeat("x", 200)+`"}`, "bad_request")
	refused("an argument that is none", ann, "send_message", `{"text":"x","colour":"red"}`, "validating")
	refused("a state that is none", ann, "send_message", `{"text":"x"},"requestState":"x"`, "bad_request")
	refused("one of others", eve, "send_message", `{"text":"x"},"requestState":`+quote(`{"t":"`+string(task)+`"}`), "not_found")
	refused("nothing to cancel", ann, "cancel", `{}`, "bad_request")
	refused("a task of another session", ann, "cancel", `{"session":"mine","task":"t1-other"}`, "not_found")
	refused("a question that is none", ann, "answer", `{"session":"mine","question":"q9","text":"x"}`, "not_found")
	refused("both", ann, "answer", `{"session":"mine","question":"q1","text":"x","approve":true}`, "bad_request")
	refused("lines", ann, "read_session", `{"session":"mine","limit":1000}`, "bad_request")
	refused("a place", ann, "read_session", `{"session":"mine","since":-1}`, "bad_request")
}

// Who may not read what tools are given and say is not asked to approve it blindly either.
func TestRedacted(t *testing.T) {
	n := start(t, withKeys)
	low, ann := n.host("low", `{"elicitation":{}}`), n.host("ann", `{}`)
	a, session, task := low.begun("mine", "Go")
	n.sessions.Play(func(w *machinetest.World) {
		w.Append(session, true, conversation.Event{Task: task, Body: conversation.Asked{Question: "q1", Text: "May I?", Blocking: true, Approval: &conversation.Approval{Call: "c1", Tool: "deploy", Args: `{"host":"secret"}`}}},
			conversation.Event{Task: task, Body: conversation.TaskStatusChanged{Old: conversation.TaskRunning, New: conversation.TaskAwaiting}})
	})
	asked := a.until("elicitation/create")
	if text := asked[len(asked)-1].raw; strings.Contains(text, "secret") || !strings.Contains(text, "boolean") {
		t.Error(text)
	}
	a.end()
	for who, h := range map[string]*host{"low": low, "ann": ann} {
		r := h.call(1, "read_session", `{"session":"mine"}`).whole()
		if strings.Contains(string(r.Result), "secret") != (who == "ann") {
			t.Errorf("%s reads %s", who, r.Result)
		}
	}
}

// A call may be made again: the same client_id is the same message, also without a session, and
// when it need not wait.
func TestAgain(t *testing.T) {
	n := start(t)
	h := n.host("", `{}`)
	first := h.call(1, "send_message", `{"text":"Go","client_id":"one","wait_seconds":0}`).whole().result(t)
	if s := first.StructuredContent; s.Status != "RUNNING" || !strings.Contains(s.Note, "goes on") {
		t.Fatalf("%+v", first)
	}
	session := n.only()
	n.sessions.Model(session, machinetest.Text("Done"))
	n.sessions.Do(func() {})
	for _, wait := range []string{"", `,"wait_seconds":0`} {
		a := h.call(1, "send_message", `{"text":"Go","client_id":"one"`+wait+`}`)
		var m message
		if wait == "" {
			all := a.until("")
			m = all[len(all)-1].m
		} else {
			m = a.whole()
		}
		if r := m.result(t); r.text() != "Done" || r.StructuredContent.Message != first.StructuredContent.Message {
			t.Errorf("%+v", r)
		}
	}
	n.only()
	if r := h.call(1, "send_message", `{"text":"Something else","client_id":"one","session":`+quote(string(session.Session))+`,"wait_seconds":0}`).whole().result(t); !r.IsError || !strings.HasPrefix(r.text(), "conflict") {
		t.Errorf("%+v", r)
	}
}

// A message that the model gives to a question of an earlier task is answered by that task: the call
// waits for it.
func TestAnswersAnEarlierTask(t *testing.T) {
	n := start(t)
	h := n.host("", `{}`)
	h.call(1, "send_message", `{"session":"mine","text":"Set up auth","wait_seconds":0}`).whole()
	session := n.only()
	n.sessions.Model(session, machinetest.Call(conversation.ToolAsk, `{"question":"OAuth or JWT?","blocking":false}`))
	n.sessions.Model(session)
	a, _, _ := h.begun("mine", "JWT it is")
	n.sessions.Model(session, machinetest.Call(conversation.ToolCover, `{"messageId":1,"as":"answer","question":"q1"}`))
	n.sessions.Model(session, machinetest.Text("Auth is set up."))
	all := a.until("")
	if r := all[len(all)-1].m.result(t); r.text() != "Auth is set up." || r.StructuredContent.Status != "COMPLETE" {
		t.Errorf("%+v", r)
	}
}

// A message that joined a task is answered when that ends, also if nothing proves what answers it.
func TestJoined(t *testing.T) {
	n := start(t)
	n.sessions.Play(func(w *machinetest.World) { w.Rules.Policy.MaxNudges = 0 })
	h := n.host("", `{}`)
	h.call(1, "send_message", `{"session":"mine","text":"Is order 17 shipped?","wait_seconds":0}`).whole()
	session := n.only()
	a := h.call(7, "send_message", `{"session":"mine","text":"Is order 18 shipped?","mode":"steer"}`)
	for waits := false; !waits; {
		n.sessions.Play(func(w *machinetest.World) { waits = len(w.Session(session).Machine.View().Inbox) > 0 })
	}
	n.sessions.Model(session, machinetest.Text("Order 17 is shipped."))
	a.until("notifications/progress")
	n.sessions.Model(session, machinetest.Text("Order 17 is shipped.")) // it says the same again
	all := a.rest()
	r := all[len(all)-1].m.result(t)
	if s := r.StructuredContent; r.IsError || s.Status != "COMPLETE" || s.Receipt == nil || s.Receipt.How != "unanswered" || len(s.Texts) != 2 {
		t.Errorf("%+v", r)
	}
}

// A host that does not take events is answered without a wait.
func TestWithoutEvents(t *testing.T) {
	n := start(t)
	a := n.send("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send_message","arguments":{"text":"Go"}}}`, "Accept", "application/json")
	if r := a.whole().result(t); !strings.Contains(r.StructuredContent.Note, "goes on") {
		t.Errorf("%+v", r)
	}
}

// The places of a session: the newest lines, and from anywhere on.
func TestPages(t *testing.T) {
	n := start(t)
	h := n.host("", `{}`)
	for i := range 6 {
		r := h.call(1, "send_message", fmt.Sprintf(`{"session":"mine","text":"message %d","wait_seconds":0}`, i)).whole().result(t)
		n.sessions.Model(gatewaytest.Key(r.StructuredContent.Session), machinetest.Text(fmt.Sprintf("answer %d", i)))
		n.sessions.Do(func() {})
	}
	read := func(more string) result {
		t.Helper()
		return h.call(1, "read_session", `{"session":"mine"`+more+`}`).whole().result(t)
	}
	texts := func(r result) (all []string) {
		for _, l := range r.StructuredContent.Lines {
			all = append(all, l.Text)
		}
		return all
	}
	if r := read(`,"limit":3`); !slices.Equal(texts(r), []string{"answer 4", "message 5", "answer 5"}) || !r.StructuredContent.Earlier || r.StructuredContent.More {
		t.Errorf("the newest: %+v", r.StructuredContent)
	}
	if r := read(""); len(texts(r)) != 12 || r.StructuredContent.Earlier || r.StructuredContent.More {
		t.Errorf("all: %+v", r.StructuredContent)
	}
	var all []string
	for since := 0; ; {
		r := read(fmt.Sprintf(`,"limit":5,"since":%d`, since))
		all = append(all, texts(r)...)
		if !r.StructuredContent.More {
			break
		}
		since = r.StructuredContent.Lines[len(r.StructuredContent.Lines)-1].Seq
	}
	if !slices.Equal(all, texts(read(""))) {
		t.Errorf("page by page: %v", all)
	}
}

// A call whose host waits no more ends, and its task goes on.
func TestGivenUp(t *testing.T) {
	n := start(t)
	h := n.host("", `{}`)
	a, session, _ := h.begun("mine", "Go")
	other := n.host("", `{}`)
	cancelled := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}`
	if s := other.post(cancelled).StatusCode; s != 202 { // it is another host's request
		t.Fatal(s)
	}
	if s := h.post(cancelled).StatusCode; s != 202 {
		t.Fatal(s)
	}
	all := a.until("")
	if r := all[len(all)-1].m.result(t); r.StructuredContent.Status != "RUNNING" {
		t.Errorf("%+v", r)
	}
	n.sessions.Model(session, machinetest.Text("Done"))
	n.sessions.Do(func() {})
	if r := h.call(1, "read_session", `{"session":"mine"}`).whole().result(t); len(r.StructuredContent.Lines) != 2 {
		t.Errorf("%+v", r)
	}
}

// A wait has an end, and so has a server: both say that the work goes on.
func TestWaitEnds(t *testing.T) {
	hasty := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Times.WaitMax = 50 * time.Millisecond })
	short := hasty.host("", `{}`).call(1, "send_message", `{"session":"short","text":"Go"}`).until("")
	if r := short[len(short)-1].m.result(t); !strings.Contains(r.StructuredContent.Note, "goes on") {
		t.Errorf("%+v", r)
	}
	n := start(t)
	h := n.host("", `{}`)
	a, _, _ := h.begun("mine", "Go")
	watch := h.get("")
	ended := make(chan error, 1)
	go func() { ended <- n.stop() }()
	all := a.until("")
	if r := all[len(all)-1].m.result(t); r.StructuredContent.Status != "RUNNING" || !strings.Contains(r.StructuredContent.Note, "goes on") {
		t.Errorf("%+v", r)
	}
	watch.rest()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Whose credential is taken back hears nothing more.
func TestRevoked(t *testing.T) {
	keys := newKeyring()
	n := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = keys })
	h := n.host("ann", `{}`)
	a, _, _ := h.begun("mine", "Go")
	keys.revoke("ann")
	for _, e := range a.rest() {
		if e.raw != "" && e.m.Method == "" {
			t.Errorf("it says %s", e.raw)
		}
	}
}

// Calls that wait and streams that are heard have places under the limits.
func TestLimits(t *testing.T) {
	n := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.Streams, c.Limits.FollowsPerConnection = 1, 1 })
	h := n.host("", `{}`)
	a, session, _ := h.begun("mine", "Go")
	busy := h.call(2, "send_message", `{"session":"mine","text":"x"}`)
	if m := busy.whole(); busy.StatusCode != 503 || m.Error == nil || busy.Header.Get("Retry-After") == "" {
		t.Errorf("%d %+v", busy.StatusCode, m)
	}
	if a := h.get(""); a.StatusCode != 503 {
		t.Errorf("%d", a.StatusCode)
	}
	seen := h.call(3, "read_session", `{"session":"mine"}`).whole().result(t)
	if len(seen.StructuredContent.Lines) != 1 { // nothing is done of what is refused
		t.Errorf("%+v", seen)
	}
	other := h.call(4, "send_message", `{"session":"other","text":"x","wait_seconds":0}`).whole().result(t)
	for i, id := range []string{string(session.Session), other.StructuredContent.Session} {
		m := h.post(`{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"parley://sessions/` + id + `"}}`).whole()
		if (m.Error != nil) != (i == 1) {
			t.Errorf("subscription %d: %+v", i, m.Error)
		}
	}
	a.end()
}
