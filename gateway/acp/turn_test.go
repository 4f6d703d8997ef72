package acp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway"

	"github.com/coder/websocket"
)

// An editor that ends a turn ends what it was asked in it, too: the turn is cancelled, and does not
// end with the question.
func TestCancelWhileAsked(t *testing.T) {
	r := begin(t)
	key := r.sessions.Open("S", "local")
	c := r.editor("", forms)
	for i := range 20 {
		prompt := fmt.Sprintf("p%d", i)
		c.prompt(prompt, "S", "Go", "")
		c.until(`"status":"RUNNING"`)
		r.sessions.Model(key, conversation.Item{Kind: conversation.ItemCall, ID: fmt.Sprint("k", i), Tool: "askUser", Args: `{"question":"Which?"}`})
		asked := last(c.until("elicitation/create"))
		id, _ := between(asked, `"id":"`, `"`)
		c.write(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"S"}}`)
		c.write(`{"jsonrpc":"2.0","id":"` + id + `","result":{"action":"cancel"}}`)
		want(t, last(c.until(`"id":"`+prompt+`"`)), `"stopReason":"cancelled"`)
	}
}

// Before it has said who it is, a client's answers are not heard.
func TestAnswersBeforeInitialize(t *testing.T) {
	r := begin(t)
	r.sessions.Open("S", "local")
	c := r.connect("")
	for range 20 {
		c.write(`{"jsonrpc":"2.0","id":"S#q1","result":{"action":"accept","content":{"answer":"x"}}}`)
	}
	c.write(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":1,"_meta":{"parley":{"client":"ed"}}}}`)
	c.until(`"id":"hello"`)
	r.play(r.sessions.Open("S", "local"), plays["answer"])
	answer, before := c.do("session/resume", `{"sessionId":"S"}`)
	if want(t, answer, `"result"`); len(before) > 0 {
		t.Errorf("it was told %s", before)
	}
}

// What has no id has no answer.
func TestNotifications(t *testing.T) {
	r := begin(t)
	r.sessions.Open("S", "local")
	c := r.editor("", `{}`)
	for _, quiet := range []string{
		`"session/list","params":{}`, `"session/new","params":{"cwd":"/","mcpServers":[]}`, `"session/resume","params":{"sessionId":"S"}`,
		`"session/load","params":{"sessionId":"nowhere"}`, `"session/prompt","params":{"sessionId":"nowhere","prompt":[]}`,
		`"session/prompt","params":{"sessionId":"S","prompt":[]}`, `"session/close","params":{"sessionId":"S"}`,
	} {
		c.write(`{"jsonrpc":"2.0","method":` + quiet + `}`)
	}
	for range 3 {
		if answer, before := c.do("session/resume", `{"sessionId":"S"}`); strings.Contains(answer, "error") || len(before) > 0 {
			t.Errorf("%s, before it %s", answer, before)
		}
	}
}

// Every request has an answer, also when its session is erased before all of it was told.
func TestErasedWhileLoading(t *testing.T) {
	r := begin(t)
	key := r.sessions.Open("S", "local")
	for i := range 40 {
		r.sessions.Store(key, conversation.Event{Body: accepted(fmt.Sprintf("m%d-S", i), "k", strings.Repeat("x", 1<<20))})
	}
	c := r.editor("", `{}`)
	c.write(`{"jsonrpc":"2.0","id":"load","method":"session/load","params":{"sessionId":"S"}}`)
	c.write(`{"jsonrpc":"2.0","id":"again","method":"session/load","params":{"sessionId":"S"}}`)
	c.until("user_message_chunk")
	if err := r.sessions.Erase(t.Context(), key, "local"); err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{"load": true, "again": true}
	for len(open) > 0 {
		id, _ := between(c.read(), `"id":"`, `"`)
		delete(open, id)
	}
}

// A prompt that is said again takes effect once, and is answered as it was: also when a question
// came between, which it would answer if it were another one, and when it has answered one.
func TestRepeatedAroundAQuestion(t *testing.T) {
	r := begin(t)
	key := r.sessions.Open("S", "local")
	first := r.editor("", `{}`)
	first.prompt("a", "S", "Go", `,"_meta":{"parley":{"id":"1"}}`)
	first.until(`"status":"RUNNING"`)
	r.sessions.Model(key, conversation.Item{Kind: conversation.ItemCall, ID: "k1", Tool: "askUser", Args: `{"question":"Which?"}`})
	want(t, last(first.until(`"id":"a"`)), `"stopReason":"end_turn"`, `"question":"q1"`)
	again := r.editor("", `{}`)
	again.prompt("a", "S", "Go", `,"_meta":{"parley":{"id":"1"}}`)
	want(t, last(again.until(`"id":"a"`)), `"stopReason":"end_turn"`, `"status":"AWAITING_RESPONSE"`, `"question":"q1"`)
	first.prompt("b", "S", "This one", `,"_meta":{"parley":{"id":"2"}}`)
	first.until(`"reason":"answered"`)
	again.prompt("b", "S", "This one", `,"_meta":{"parley":{"id":"2"}}`)
	r.sessions.Model(key, text("This one it is"))
	for _, c := range []*client{first, again} {
		want(t, last(c.until(`"id":"b"`)), `"stopReason":"end_turn"`, `"status":"COMPLETE"`)
	}
}

// The order in which an editor ends a turn and dismisses what it was asked in it is its own.
func TestDismissedThenCancelled(t *testing.T) {
	r := begin(t)
	key := r.sessions.Open("S", "local")
	c := r.editor("", forms)
	c.prompt("p", "S", "Go", "")
	c.until(`"status":"RUNNING"`)
	r.sessions.Model(key, conversation.Item{Kind: conversation.ItemCall, ID: "k1", Tool: "askUser", Args: `{"question":"Which?"}`})
	asked := last(c.until("elicitation/create"))
	id, _ := between(asked, `"id":"`, `"`)
	c.write(`{"jsonrpc":"2.0","id":"` + id + `","result":{"action":"cancel"}}`)
	c.write(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"S"}}`)
	c.until(`"status":"CANCELLED"`)
}

// An answer for which there is no room is not lost in silence: the connection ends, and who comes
// back is asked again.
func TestTooManyAnswers(t *testing.T) {
	r := begin(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.CommandsPerSecond = 0 })
	r.sessions.Open("S", "local")
	c := r.editor("", forms)
	c.do("session/resume", `{"sessionId":"S"}`)
	release := r.sessions.Hold()
	defer release()
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.ws.Read(context.Background())
		ended <- err
	}()
	for range 400 {
		if c.ws.Write(t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":"S#q1","result":{"action":"accept","content":{"answer":"x"}}}`)) != nil {
			break
		}
	}
	if err := <-ended; websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("%v", err)
	}
}
