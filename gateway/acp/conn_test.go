package acp_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"
)

func text(s string) conversation.Item { return conversation.Item{Kind: conversation.ItemText, Text: s} }

func prompting(session, text, more string) string {
	return `{"sessionId":"` + session + `","prompt":[{"type":"text","text":"` + text + `"}]` + more + `}`
}

// prompt sends one and does not wait for its answer.
func (c *client) prompt(id, session, text, more string) {
	c.t.Helper()
	c.write(`{"jsonrpc":"2.0","id":"` + id + `","method":"session/prompt","params":` + prompting(session, text, more) + `}`)
}

// want fails unless a frame has all of these.
func want(t *testing.T, frame string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(frame, p) {
			t.Errorf("%s is not in %s", p, frame)
		}
	}
}

func last(frames []string) string { return frames[len(frames)-1] }

// Who may not connect is told so by HTTP, as everywhere.
func TestHandshake(t *testing.T) {
	r := begin(t, withKeys)
	for token, status := range map[string]int{"": 401, "nobody": 401, "ops": 403} {
		_, response, err := dial(r.addr, token)
		if err == nil || response.StatusCode != status {
			t.Fatalf("%q: %v", token, err)
		}
		body, _ := io.ReadAll(response.Body)
		if response.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(body), `"detail"`) {
			t.Errorf("%q: %s", token, body)
		}
		if (status == 401) != (response.Header.Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%q: %v", token, response.Header)
		}
	}
	req, _ := http.NewRequest(http.MethodGet, "http://"+r.addr+"/acp", nil)
	req.Header.Set("Authorization", "Bearer ann")
	response, err := http.DefaultClient.Do(req)
	if err != nil || response.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("without an upgrade: %v %v", response, err)
	}
	_ = response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

// Each wrong message has its code, and the connection goes on.
func TestErrors(t *testing.T) {
	r := begin(t, withKeys, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.TextBytes, c.Limits.FollowsPerConnection = 100, 3 })
	r.sessions.Open("S", "ann")
	r.sessions.Open("theirs", "bob")
	c := r.connect("ann")
	c.write(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`)
	want(t, c.read(), `"id":1`, "-32600", "initialize first")
	c.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"_meta":{"parley":{"client":"a b"}}}}`)
	want(t, c.read(), "-32602", "client")
	c.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":99}}`)
	want(t, c.read(), `"protocolVersion":1`, `"loadSession":true`)
	for _, x := range []struct{ send, id, code, says string }{
		{`{`, "null", "-32700", "no JSON"},
		{"\"\xff\"", "null", "-32700", "no JSON"},
		{`[]`, "null", "-32600", "no batches"},
		{`7`, "null", "-32600", "object"},
		{`{"jsonrpc":"2.0","id":{},"method":"x"}`, "null", "-32600", "an id"},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"x"}`, "null", "-32600", "an id"},
		{`{"jsonrpc":"2.0","id":2,"method":7}`, "null", "-32600", "no message"},
		{`{"jsonrpc":"1.0","id":2,"method":"x"}`, "2", "-32600", "2.0"},
		{`{"jsonrpc":"2.0","id":2}`, "2", "-32600", "neither"},
		{`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}`, "2", "-32600", "before"},
		{`{"jsonrpc":"2.0","id":null,"method":"no/such"}`, "null", "-32601", "no/such"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/set_mode","params":{}}`, "2", "-32601", "session/set_mode"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/delete","params":{}}`, "2", "-32601", "session/delete"},
		{`{"jsonrpc":"2.0","id":2,"method":"authenticate","params":{"methodId":"x"}}`, "2", "-32602", "sign in"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt"}`, "2", "-32602", "params"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":[]}`, "2", "-32602", "params"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":7}}`, "2", "-32602", "do not fit"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"prompt":[]}}`, "2", "-32602", "sessionId is missing"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"S","prompt":[{"type":"image","data":"","mimeType":"image/png"}]}}`, "2", "-32602", "promptCapabilities"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"S","prompt":[{"type":"resource","resource":{"uri":"x","blob":"AA=="}}]}}`, "2", "-32602", "promptCapabilities"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"S","prompt":[]}}`, "2", "-32602", "message"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":` + prompting("S", strings.Repeat("x", 101), "") + `}`, "2", "-32602", "too_large"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":` + prompting("S", "x", `,"_meta":{"parley":{"mode":"later"}}`) + `}`, "2", "-32602", "do not fit"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":` + prompting("S", "x", `,"_meta":{"parley":{"question":"q7"}}`) + `}`, "2", "-32002", "no such question"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":` + prompting("nowhere", "x", "") + `}`, "2", "-32002", "no such session"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":` + prompting("theirs", "x", "") + `}`, "2", "-32002", "no such session"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"theirs"}}`, "2", "-32002", "no such session"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"` + strings.Repeat("x", 500) + `"}}`, "2", "-32002", "no such session"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/resume","params":{"sessionId":"S","_meta":{"parley":{"after":"x"}}}}`, "2", "-32602", "cursor"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/resume","params":{"sessionId":"S","_meta":{"parley":{"after":"0-9007199254740991"}}}}`, "2", "-32603", "conflict"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/list","params":{"cursor":"x"}}`, "2", "-32602", "cursor"},
		{`{"jsonrpc":"2.0","id":2,"method":"session/close","params":{"sessionId":"nowhere"}}`, "2", "-32002", "no such session"},
	} {
		c.write(x.send)
		frame := c.read()
		want(t, frame, `"id":`+x.id+`,"error"`, `"code":`+x.code, x.says)
		if t.Failed() {
			t.Fatalf("%s → %s", x.send, frame)
		}
	}
	// What is no request has no answer; answers to nothing change nothing.
	for _, quiet := range []string{
		`{"jsonrpc":"2.0","method":"no/such"}`, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nowhere"}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`, `{"jsonrpc":"2.0","method":"session/cancel","params":7}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"S#q9","result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`,
		`{"jsonrpc":"2.0","id":"#","result":7}`, `{"jsonrpc":"2.0","id":"S#q9","error":{"code":-1,"message":"no"}}`,
	} {
		c.write(quiet)
	}
	answer, before := c.do("session/list", `{}`)
	if want(t, answer, `"sessionId":"S"`, `"cwd":"/"`); len(before) > 0 || strings.Contains(answer, "theirs") {
		t.Errorf("%s, before it %s", answer, before)
	}
	// So many sessions, and no more, as long as they are open.
	for i := range 3 {
		r.sessions.Open(fmt.Sprint("M", i), "ann")
	}
	c = r.editor("ann", `{}`)
	for i, ok := range []bool{true, true, true, false} {
		answer, _ := c.do("session/resume", fmt.Sprintf(`{"sessionId":"%s"}`, []string{"M0", "M1", "M2", "S"}[i]))
		if strings.Contains(answer, `"result"`) != ok || !ok && !strings.Contains(answer, "follows_per_connection") {
			t.Errorf("%d: %s", i, answer)
		}
	}
	if answer, _ := c.do("session/close", `{"sessionId":"M1"}`); !strings.Contains(answer, `"result":{}`) {
		t.Error(answer)
	}
	if answer, _ := c.do("session/resume", `{"sessionId":"S"}`); !strings.Contains(answer, `"result"`) {
		t.Error(answer)
	}
}

// A prompt that is said again under its id, on another connection too, takes effect once and is
// answered each time.
func TestRepeatedPrompt(t *testing.T) {
	r := begin(t)
	key := r.sessions.Open("S", "local")
	first, second := r.editor("", `{}`), r.editor("", `{}`)
	for _, c := range []*client{first, second} {
		c.do("session/resume", `{"sessionId":"S"}`)
		c.prompt("p", "S", "Go", `,"_meta":{"parley":{"id":"1"}}`)
		if c == first {
			c.until(`"status":"RUNNING"`)
			continue
		}
		c.prompt("p2", "S", "Something else", `,"_meta":{"parley":{"id":"1"}}`)
		want(t, last(c.until(`"id":"p2"`)), "-32603", "conflict")
	}
	r.sessions.Model(key, text("Done"))
	for _, c := range []*client{first, second} {
		frames := c.until(`"id":"p"`)
		want(t, last(frames), `"stopReason":"end_turn"`, `"how":"answered"`, `"status":"COMPLETE"`)
		if all := strings.Join(frames, ""); strings.Count(all, `"text":"Done"`) != 1 || strings.Contains(all, "user_message_chunk") {
			t.Errorf("%s", frames)
		}
	}
	third := r.editor("", `{}`)
	third.prompt("p", "S", "Go", `,"_meta":{"parley":{"id":"1"}}`)
	want(t, last(third.until(`"id":"p"`)), `"stopReason":"end_turn"`)
	third.prompt("q", "S", "Go", "") // without an id it is another one
	third.until(`"status":"RUNNING"`)
}

// A session that is opened again under its id is the same.
func TestRepeatedNew(t *testing.T) {
	r := begin(t)
	c := r.editor("", `{}`)
	first, _ := c.do("session/new", `{"cwd":"/w","mcpServers":[{"name":"x"}],"additionalDirectories":["/y"],"_meta":{"parley":{"id":"n"}}}`)
	want(t, first, `"ignored":["cwd","mcpServers","additionalDirectories"]`)
	again, _ := r.editor("", `{}`).do("session/new", `{"cwd":"/w","mcpServers":[],"_meta":{"parley":{"id":"n"}}}`)
	other, _ := c.do("session/new", `{"cwd":"/w","mcpServers":[]}`)
	id := func(frame string) string { s, _ := between(frame, `"sessionId":"`, `"`); return s }
	if id(first) == "" || id(first) != id(again) || id(first) == id(other) {
		t.Errorf("%s %s %s", first, again, other)
	}
	if bad, _ := c.do("session/new", `{"cwd":"/w","_meta":{"parley":{"agent":"nobody"}}}`); !strings.Contains(bad, "-32602") {
		t.Error(bad)
	}
}

// Cancelling ends the prompts of this connection, waiting ones too, and nobody else's.
func TestCancel(t *testing.T) {
	r := begin(t)
	r.sessions.Open("S", "local")
	a, b := r.editor("", `{}`), r.connect("")
	b.write(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`)
	b.read()
	b.prompt("b", "S", "Theirs", "")
	b.until(`"status":"RUNNING"`)
	a.prompt("a1", "S", "Mine", "")
	a.prompt("a2", "S", "Mine, too", "")
	a.write(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a2"}}`)
	want(t, last(a.until(`"id":"a2"`)), `"stopReason":"cancelled"`)
	a.write(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"S"}}`)
	want(t, last(a.until(`"id":"a1"`)), `"stopReason":"cancelled"`)
	r.sessions.Model(gatewaytest.Key("S"), text("Theirs it is"))
	want(t, last(b.until(`"id":"b"`)), `"stopReason":"end_turn"`)
	// A session that is closed is left when the work on its prompts has ended.
	a.prompt("a3", "S", "Once more", "")
	a.write(`{"jsonrpc":"2.0","id":"end","method":"session/close","params":{"sessionId":"S"}}`)
	frames := a.until(`"id":"end"`)
	want(t, frames[len(frames)-2], `"id":"a3"`, `"cancelled"`)
}

// A session that is erased, or that one may not read any more, ends.
func TestErased(t *testing.T) {
	r := begin(t)
	key := r.sessions.Open("S", "local")
	c := r.editor("", `{}`)
	c.prompt("a", "S", "Go", "")
	c.until(`"status":"RUNNING"`)
	if err := r.sessions.Erase(t.Context(), key, "local"); err != nil {
		t.Fatal(err)
	}
	want(t, last(c.until(`"id":"a"`)), "-32002")
	answer, _ := c.do("session/load", `{"sessionId":"S"}`)
	want(t, answer, "-32002")
}

// A question that is open when a client comes is put to it, once, under the same id; who cannot
// show it says so, and answers it by the next prompt.
func TestQuestionsOfBefore(t *testing.T) {
	r := begin(t)
	key := r.sessions.Open("S", "local")
	first := r.editor("", forms)
	first.prompt("a", "S", "Go", "")
	first.until(`"status":"RUNNING"`)
	r.sessions.Model(key, conversation.Item{Kind: conversation.ItemCall, ID: "k1", Tool: "askUser", Args: `{"question":"Which?"}`})
	asked := last(first.until("elicitation/create"))
	id, _ := between(asked, `"id":"`, `"`)
	second := r.editor("", forms)
	answer, before := second.do("session/load", `{"sessionId":"S"}`)
	want(t, answer, `"asks":["`+id+`"]`)
	want(t, strings.Join(before, ""), `"text":"Which?"`)
	want(t, second.read(), `"id":"`+id+`"`, "elicitation/create")
	plain := r.editor("", `{}`)
	answer, _ = plain.do("session/resume", `{"sessionId":"S"}`)
	want(t, answer, `"asks":[]`)
	second.write(`{"jsonrpc":"2.0","id":"` + id + `","result":{"action":"decline"}}`)
	first.write(`{"jsonrpc":"2.0","id":"` + id + `","error":{"code":-32601,"message":"no forms"}}`)
	want(t, last(first.until(`"id":"a"`)), `"stopReason":"end_turn"`, `"status":"AWAITING_RESPONSE"`, `"question":`)
	plain.prompt("b", "S", "This one", "")
	plain.until(`"reason":"answered"`)
	r.sessions.Model(key, text("This one it is"))
	want(t, last(plain.until(`"id":"b"`)), `"stopReason":"end_turn"`, `"status":"COMPLETE"`)
}
