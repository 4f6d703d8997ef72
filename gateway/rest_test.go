package gateway_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/gatewaytest"
)

// A key of one route is never that of another, whatever clients call theirs.
// PROTOCOL.md, rule 7.6.
func TestKeysOfRoutes(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	said := r.call("POST", "/api/sessions/s1/messages", `{"text":"one"}`, "Idempotency-Key", "task:k1").want(t, 202).get(t, "task")
	task := r.call("POST", "/api/tasks", `{"prompt":"one","session":"s1"}`, "Idempotency-Key", "k1").want(t, 202).get(t, "task_id")
	if task == said {
		t.Errorf("the task of the key k1 is the message's of the key task:k1, %s", task)
	}
	if again := r.call("POST", "/api/tasks", `{"prompt":"one","session":"s1"}`, "Idempotency-Key", "k1").want(t, 202).get(t, "task_id"); again != task {
		t.Errorf("repeated it is %s instead of %s", again, task)
	}
	long := strings.Repeat("k", 200)
	first := r.call("POST", "/api/tasks", `{"prompt":"two","session":"s1"}`, "Idempotency-Key", long).want(t, 202).get(t, "task_id")
	sum := sha256.Sum256([]byte("task:" + long))
	said = r.call("POST", "/api/sessions/s1/messages", `{"text":"two"}`, "Idempotency-Key", "sha256:"+hex.EncodeToString(sum[:])).want(t, 202).get(t, "task")
	if said == first {
		t.Errorf("the hash of a long key is taken for it: %s", said)
	}
	for _, id := range []string{`\u0001task:k1`, `\u0001`} {
		r.call("POST", "/api/sessions/s1/messages", `{"text":"one","client_msg_id":"`+id+`"}`).problem(t, 400, "bad_request")
		r.call("POST", "/api/sessions", `{"client_session_id":"`+id+`"}`).problem(t, 400, "bad_request")
	}
}

// PROTOCOL.md, rules 7.4, 8.1.
func TestSessionsRoutes(t *testing.T) {
	r := start(t)
	a := r.call("POST", "/api/sessions", `{"title":"one","access":"private","policy":{"inbox.mode":"queue"}}`, "Idempotency-Key", "k1").want(t, 201)
	id := a.get(t, "session")
	if a.header.Get("Location") != "/api/sessions/"+id {
		t.Errorf("Location %q", a.header.Get("Location"))
	}
	if again := r.call("POST", "/api/sessions", `{"title":"one"}`, "Idempotency-Key", "k1").want(t, 200).get(t, "session"); again != id {
		t.Errorf("a repeated key made %s", again)
	}
	if other := r.call("POST", "/api/sessions", "").want(t, 201).get(t, "session"); other == id {
		t.Error("two sessions are one")
	}
	read := r.call("GET", "/api/sessions/"+id, "").want(t, 200)
	for name, want := range map[string]string{"session": id, "head": "1", "log": "log-1", "closed": "false"} {
		if got := read.get(t, name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if state := read.get(t, "state"); !strings.Contains(state, `"policy":{"inbox.mode":"queue"}`) || !strings.Contains(state, `"questions":[]`) {
		t.Errorf("state %s", state)
	}
	patched := r.call("PATCH", "/api/sessions/"+id, `{"title":"two","access":"tenant","policy":{"task.max_steps":3}}`).want(t, 200)
	if state := patched.get(t, "state"); !strings.Contains(state, `"title":"two"`) || !strings.Contains(state, `"access":"tenant"`) || !strings.Contains(state, `"task.max_steps":3`) {
		t.Errorf("state %s", state)
	}
	if state := r.call("PATCH", "/api/sessions/"+id, `{"agent":"developer"}`).want(t, 200).get(t, "state"); !strings.Contains(state, `"agent":"developer"`) {
		t.Errorf("state %s", state)
	}
	r.call("PATCH", "/api/sessions/"+id, `{"agent":"outside"}`).problem(t, 409, "conflict")
	for _, bad := range []string{`{}`, `{"title":1}`, `{"agent":1}`, `{"agent":""}`, `{"agent":"nobody"}`, `{"access":"all"}`, `{"access":""}`, `{"closed":false}`, `{"policy":{"x":1}}`, `{"title":"` + strings.Repeat("x", 600) + `"}`} {
		r.call("PATCH", "/api/sessions/"+id, bad).problem(t, 400, "bad_request")
	}
	r.call("PATCH", "/api/sessions/"+id, `{"closed":true,"reason":"done"}`).want(t, 200)
	r.call("POST", "/api/sessions/"+id+"/messages", `{"text":"x"}`).problem(t, 410, "session_closed")
	r.call("DELETE", "/api/sessions/"+id, "").want(t, 204)
	r.call("GET", "/api/sessions/"+id, "").problem(t, 404, "not_found")
	r.call("DELETE", "/api/sessions/"+id, "").problem(t, 404, "not_found")
	// The name of an erased session is free: the same request makes a new session, and
	// repeated it finds that one, on every way.
	next := r.call("POST", "/api/sessions", `{"title":"one"}`, "Idempotency-Key", "k1").want(t, 201).get(t, "session")
	if next == id {
		t.Errorf("the erased session %s is back", id)
	}
	for _, again := range []answer{
		r.call("POST", "/api/sessions", `{"title":"one"}`, "Idempotency-Key", "k1"), r.call("POST", "/api/sessions", `{"client_session_id":"k1"}`),
	} {
		if got := again.want(t, 200).get(t, "session"); got != next {
			t.Errorf("repeated it found %s instead of %s", got, next)
		}
	}
	if f := gatewaytest.Connect(t, r.addr).Do("create", "", obj{"client_session_id": "k1"}); f.Get("session") != next {
		t.Errorf("%s", f.Raw)
	}
	r.call("GET", "/api/sessions/"+id, "").problem(t, 404, "not_found")
	task := r.call("POST", "/api/tasks", `{"prompt":"x"}`, "Idempotency-Key", "k2").want(t, 202).get(t, "session")
	r.call("DELETE", "/api/sessions/"+task, "").want(t, 204)
	if again := r.call("POST", "/api/tasks", `{"prompt":"x"}`, "Idempotency-Key", "k2").want(t, 202).get(t, "session"); again == task {
		t.Errorf("the erased session %s is back", task)
	}
}

// A session without a title is called by the first words of its first message: when it
// is read, listed and followed, and no event says so.
func TestDerivedTitle(t *testing.T) {
	r := start(t)
	id := r.call("POST", "/api/sessions", "").want(t, 201).get(t, "session")
	own := r.call("POST", "/api/sessions", `{"title":"Mine"}`).want(t, 201).get(t, "session")
	c := gatewaytest.Connect(t, r.addr)
	called := func(session, want string) {
		t.Helper()
		want = `"title":` + strconv.Quote(want)
		f := c.Do("follow", session, obj{"tail": 1})
		c.Do("unfollow", session, nil)
		list := string(r.call("GET", "/api/sessions", "").want(t, 200).body)
		_, row, _ := strings.Cut(list, `"session":"`+session+`"`)
		row, _, _ = strings.Cut(row, "}")
		for where, got := range map[string]string{"GET": r.call("GET", "/api/sessions/"+session, "").want(t, 200).get(t, "state"), "list": row, "follow": string(f.Data)} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s\nwant %s", where, got, want)
			}
		}
	}
	called(id, "")
	for _, s := range []string{id, own} {
		r.call("POST", "/api/sessions/"+s+"/messages", `{"text":"Write to Max\n\nand to Eve"}`).want(t, 202)
	}
	called(id, "Write to Max and to Eve")
	called(own, "Mine")
	r.call("POST", "/api/sessions/"+id+"/clear", "").want(t, 200)
	called(id, "Write to Max and to Eve")
	r.call("PATCH", "/api/sessions/"+id, `{"title":"Letters"}`).want(t, 200)
	called(id, "Letters")
	r.call("PATCH", "/api/sessions/"+id, `{"title":""}`).want(t, 200)
	called(id, "Write to Max and to Eve")
	if log := string(r.call("GET", "/api/sessions/"+id+"/events?since=0", "").want(t, 200).body); strings.Contains(log, `"title":"Write`) {
		t.Errorf("an event has the title: %s", log)
	}
}

// a clear is an event that every follower sees; the session, its key and its log
// go on. By HTTP and by the socket it is the same, and right after a clear that one. In
// a delegation's session there is none.
func TestClearSession(t *testing.T) {
	r := start(t)
	id := r.call("POST", "/api/sessions", `{"client_session_id":"chat"}`).want(t, 201).get(t, "session")
	key := gatewaytest.Key(id)
	c := gatewaytest.Connect(t, r.addr)
	c.Do("follow", id, obj{"since": 1})
	c.Until(func(f gatewaytest.Frame) bool { return f.Type == "synced" })
	shown := func(text string) string {
		t.Helper()
		r.call("POST", "/api/sessions/"+id+"/messages", `{"text":"`+text+`"}`).want(t, 202)
		var entries []string
		r.sessions.Play(func(w *machinetest.World) {
			request, _ := w.Session(key).Request()
			for _, e := range request.Entries {
				entries = append(entries, e.Text)
			}
		})
		r.sessions.Model(key, machinetest.Text("ok"))
		return strings.Join(entries, "|")
	}
	shown("My name is Ann.")
	path := "/api/sessions/" + id + "/clear"
	seq := r.call("POST", path, "").want(t, 200).get(t, "seq")
	f := c.Until(func(f gatewaytest.Frame) bool { return f.Type == "context_cleared" })
	if strconv.Itoa(int(f.Seq)) != seq || f.Get("by") != "local" {
		t.Errorf("seq %s became %s", seq, f.Raw)
	}
	if again := r.call("POST", path, "{}").want(t, 200).get(t, "seq"); again != seq {
		t.Errorf("cleared at %s, and again at %s", seq, again)
	}
	if f := c.Do("clear", id, nil); f.Get("seq") != seq {
		t.Errorf("cleared at %s, and on the socket %s", seq, f.Raw)
	}
	if got := shown("Who am I?"); got != "Who am I?" {
		t.Errorf("the model is shown %q", got)
	}
	if again := r.call("POST", "/api/sessions", `{"client_session_id":"chat"}`).want(t, 200).get(t, "session"); again != id {
		t.Errorf("the key leads to %s instead of %s", again, id)
	}
	if log := r.call("GET", "/api/sessions/"+id+"/messages", "").want(t, 200).body; !strings.Contains(string(log), "My name is Ann.") {
		t.Errorf("the conversation is %s", log)
	}
	r.call("POST", path, `[]`).problem(t, 400, "bad_request")
	r.call("POST", "/api/sessions/nobody/clear", "").problem(t, 404, "not_found")
	r.sessions.Open("s1", "local")
	r.sessions.Open("s1/d1", "local")
	r.call("POST", "/api/sessions/s1%2Fd1/clear", "").problem(t, 403, "forbidden")
	if f := c.Do("clear", "s1/d1", nil); f.Error == nil || f.Error.Code != "forbidden" {
		t.Errorf("%s", f.Raw)
	}
}

// Lists are paged to their end, each item once.
// PROTOCOL.md, rule 7.5.
func TestListSessions(t *testing.T) {
	r := start(t)
	for _, s := range []string{"s1", "s2", "s3", "s4", "s5"} {
		r.sessions.Open(s, "local")
	}
	r.sessions.Open("s6", "somebody")
	var seen []string
	cursor := ""
	for range 10 {
		a := r.call("GET", "/api/sessions?limit=2&cursor="+cursor, "").want(t, 200)
		var page struct {
			Items []struct{ Session string }
			Next  *string `json:"next_cursor"`
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			seen = append(seen, i.Session)
		}
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	if got := strings.Join(seen, " "); got != "s5 s4 s3 s2 s1" {
		t.Errorf("listed %s", got)
	}
	for _, bad := range []string{"x", "x.y", "5", "5."} {
		r.call("GET", "/api/sessions?cursor="+bad, "").problem(t, 400, "bad_request")
		r.call("GET", "/api/tasks?cursor="+bad, "").problem(t, 400, "bad_request")
	}
	for _, bad := range []string{"0", "-1", "x", "1.5"} {
		r.call("GET", "/api/sessions?limit="+bad, "").problem(t, 400, "bad_request")
	}
}

// PROTOCOL.md, rules 8.2, 8.6.
func TestMessagesRoutes(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	a := r.call("POST", "/api/sessions/s1/messages", `{"text":"hi","client_msg_id":"a"}`).want(t, 202)
	if got := string(a.body); got != `{"message":"m1-s1","seq":2,"duplicate":false,"disposition":"started","task":"t1-s1"}` {
		t.Errorf("%s", got)
	}
	if got := string(r.call("POST", "/api/sessions/s1/messages", `{"text":"hi"}`, "Idempotency-Key", "a").want(t, 202).body); got != `{"message":"m1-s1","seq":2,"duplicate":true,"disposition":"started","task":"t1-s1"}` {
		t.Errorf("repeated: %s", got)
	}
	r.call("POST", "/api/sessions/s1/messages", `{"text":"other","client_msg_id":"a"}`).problem(t, 409, "conflict")
	r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`).want(t, 202)
	r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`, "Idempotency-Key", strings.Repeat("k", 200)).want(t, 202)
	r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`, "Idempotency-Key", strings.Repeat("k", 256)).problem(t, 400, "bad_request")
	r.call("PATCH", "/api/sessions/s1/messages/m1-s1", `{"text":"ho"}`).problem(t, 409, "conflict") // it was read
	r.call("PATCH", "/api/sessions/s1/messages/m2-s1", `{"text":"ho"}`).want(t, 200)
	r.call("PATCH", "/api/sessions/s1/messages/m2-s1", `{}`).problem(t, 400, "bad_request")
	r.call("DELETE", "/api/sessions/s1/messages/m2-s1", "").want(t, 200)
	r.sessions.Open("s1/d1", "local")
	r.call("POST", "/api/sessions/s1%2Fd1/messages", `{"text":"x"}`).problem(t, 403, "forbidden")
	r.call("POST", "/api/sessions/s1/messages?wait=soon", `{"text":"x"}`).problem(t, 400, "bad_request")
}

// which is a question that the task waits for.
var which = machinetest.Call(conversation.ToolAsk, `{"question":"Which?"}`)

// ?wait= answers when this very message is resolved, when its task awaits, or in
// time as if nobody had waited: it is accepted, and nothing has failed. A
// repetition of it waits for the same message.
// PROTOCOL.md, rule 8.3.
func TestWait(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	post := func(wait string, done chan answer) {
		done <- r.call("POST", "/api/sessions/s1/messages?wait="+wait, `{"text":"hi","client_msg_id":"a"}`)
	}
	late := make(chan answer, 1)
	go post("10ms", late)
	if got := string((<-late).want(t, 202).body); got != `{"message":"m1-s1","seq":2,"duplicate":false,"disposition":"started","task":"t1-s1"}` {
		t.Errorf("%s", got)
	}
	done := make(chan answer, 2)
	go post("20s", done)
	go post("20s", done)
	r.sessions.Model(key, machinetest.Text("first"), machinetest.Text("second"))
	for range 2 {
		a := (<-done).want(t, 200)
		if a.get(t, "how") != "answered" || a.get(t, "evidence") != "only" || a.get(t, "status") != "COMPLETE" || a.get(t, "message") != "m1-s1" || a.get(t, "task") != "t1-s1" {
			t.Errorf("%s", a.body)
		}
		var body struct{ Parts []struct{ Text string } }
		if json.Unmarshal(a.body, &body) != nil || len(body.Parts) != 2 || body.Parts[1].Text != "second" {
			t.Errorf("%s", a.body)
		}
	}
	// Long done: answered at once.
	r.call("POST", "/api/sessions/s1/messages?wait=20s", `{"text":"hi","client_msg_id":"a"}`).want(t, 200)

	waiting := make(chan answer, 1)
	go func() {
		waiting <- r.call("POST", "/api/sessions/s1/messages?wait=20s", `{"text":"ask me","client_msg_id":"b"}`)
	}()
	waitFor(t, func() bool { return r.call("GET", "/api/tasks/t2-s1", "").status == 200 })
	r.sessions.Model(key, which)
	if a := (<-waiting).want(t, 200); a.get(t, "status") != "AWAITING_RESPONSE" || a.get(t, "how") != "" || !strings.Contains(a.get(t, "question"), "Which?") {
		t.Errorf("%s", a.body)
	}
}

// ?wait= of a message that answers a question waits for what comes of it: the next part of
// the question's task, its end, or that it awaits again.
// PROTOCOL.md, rule 8.3.
func TestWaitForWhatComesOfAnAnswer(t *testing.T) {
	r := start(t)
	const fresh = "" // nothing is open: the task of the message before has ended
	one, two := machinetest.Call(conversation.ToolAsk, `{"question":"One?"}`), machinetest.Call(conversation.ToolAsk, `{"question":"Two?"}`)
	later := machinetest.Call(conversation.ToolAsk, `{"question":"Which?","blocking":false}`)
	say := machinetest.Call(conversation.ToolRespond, `{"message":"On it."}`)
	covers := machinetest.Call(conversation.ToolCover, `{"messageId":1,"as":"answer","question":"q1"}`)
	none := machinetest.Call(conversation.ToolCover, `{"messageId":9,"as":"answered"}`) // a call that brings on another step
	amends := machinetest.Call(conversation.ToolCover, `{"messageId":2,"as":"amendment"}`)
	type items = []conversation.Item
	for name, x := range map[string]struct {
		asks   []items // what the model does before
		say    string  // what the client says and waits for
		models []items // what the model does then
		status string
		parts  string
		asked  string
	}{
		"its answer":                  {[]items{{which}}, `{"text":"this"}`, []items{{machinetest.Text("Done.")}}, "COMPLETE", "Done.", fresh},
		"two texts":                   {[]items{{which}}, `{"text":"this"}`, []items{{machinetest.Text("Well."), machinetest.Text("Done.")}}, "COMPLETE", "Well. Done.", fresh},
		"a part, and it works on":     {[]items{{which}}, `{"text":"this"}`, []items{{say}}, "RUNNING", "On it.", fresh},
		"another question":            {[]items{{which}}, `{"text":"this"}`, []items{{one}}, "AWAITING_RESPONSE", "", "One?"},
		"silence":                     {[]items{{which}}, `{"text":"this"}`, []items{{machinetest.Text("NO_REPLY")}}, "COMPLETE", "", fresh},
		"one of two questions":        {[]items{{one, two}}, `{"text":"this"}`, nil, "AWAITING_RESPONSE", "", "One?"},
		"an answer that another gave": {[]items{{later}, {}}, `{"text":"this","mode":"queue"}`, []items{{covers}, {machinetest.Text("Done.")}}, "COMPLETE", "Done.", fresh},
		"an amendment":                {nil, `{"text":"rather","mode":"steer"}`, []items{{none}, {amends}, {machinetest.Text("Done.")}}, "COMPLETE", "Done.", fresh},
	} {
		t.Run(name, func(t *testing.T) {
			session := "s-" + strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
			key := r.sessions.Open(session, "local")
			r.call("POST", "/api/sessions/"+session+"/messages", `{"text":"go","client_msg_id":"a"}`).want(t, 202)
			for _, items := range x.asks {
				r.sessions.Model(key, items...)
			}
			x.say = strings.Replace(x.say, "{", `{"client_msg_id":"b",`, 1)
			answered := make(chan answer, 1)
			go func() { answered <- r.call("POST", "/api/sessions/"+session+"/messages?wait=20s", x.say) }()
			waitFor(t, func() bool { return r.sessions.Seq(key, conversation.MessageID("m2-"+session)) > 0 })
			for _, items := range x.models {
				r.sessions.Model(key, items...)
			}
			for _, a := range []answer{<-answered, r.call("POST", "/api/sessions/"+session+"/messages?wait=20s", x.say)} {
				var body struct {
					How, Status string
					Parts       []struct{ Text string }
					Question    struct{ Text string }
				}
				if err := json.Unmarshal(a.want(t, 200).body, &body); err != nil {
					t.Fatal(err)
				}
				var texts []string
				for _, p := range body.Parts {
					texts = append(texts, p.Text)
				}
				if body.How != "merged" || body.Status != x.status || strings.Join(texts, " ") != x.parts || body.Question.Text != x.asked {
					t.Errorf("%s, want %s, %q, %q", a.body, x.status, x.parts, x.asked)
				}
			}
		})
	}
	r.call("POST", "/api/sessions/s-another-question/messages?wait=10ms", `{"text":"this","client_msg_id":"c"}`).want(t, 202)
}

// viewing is the engine of a test that chooses how sessions are viewed.
type viewing struct {
	*standIn
	view func(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error))
}

func (v *viewing) View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
	v.view(key, as, done)
}

// A message that was accepted has not failed because nothing can be waited for: a
// client that was told so would send it again.
func TestWaitWithoutView(t *testing.T) {
	engine := &viewing{view: func(_ conversation.SessionKey, _ conversation.UserID, done func(conversation.View, error)) {
		done(conversation.View{}, conversation.Errorf(conversation.Overloaded, "too many views"))
	}}
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		engine.standIn = d.Sessions.(*gatewaytest.Sessions)
		d.Sessions = engine
	})
	r.sessions.Open("s1", "local")
	a := r.call("POST", "/api/sessions/s1/messages?wait=20s", `{"text":"hi","client_msg_id":"a"}`).want(t, 202)
	if a.get(t, "message") != "m1-s1" || a.get(t, "disposition") != "started" {
		t.Errorf("%s", a.body)
	}
}

// A session that is erased while a request begins to follow it is gone, as it is
// for one that follows it already.
func TestWaitErased(t *testing.T) {
	engine := &viewing{}
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		engine.standIn = d.Sessions.(*gatewaytest.Sessions)
		d.Sessions = engine
	})
	engine.view = func(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
		engine.standIn.View(key, as, func(v conversation.View, err error) {
			r.hub.Gone(key, "erased")
			done(v, err)
		})
	}
	r.sessions.Open("s1", "local")
	r.call("POST", "/api/sessions/s1/messages?wait=20s", `{"text":"hi","client_msg_id":"a"}`).problem(t, 404, "not_found")
}

// M-20 N-15: the life of a message is shown in GET messages: accepted, read, resolved,
// delivered; parts are among them in order.
// PROTOCOL.md, rule 8.4.
func TestListMessages(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.sessions.Full(true)
	r.call("POST", "/api/sessions/s1/messages", `{"text":"hi","client_msg_id":"a"}`).want(t, 202)
	a := r.call("GET", "/api/sessions/s1/messages", "").want(t, 200)
	if s := string(a.body); strings.Contains(s, "read_at") || strings.Contains(s, "how") || !strings.Contains(s, `"accepted_at":"2026`) {
		t.Errorf("%s", s)
	}
	r.sessions.Full(false)
	r.sessions.Model(key, machinetest.Call(conversation.ToolRespond, `{"message":"first","inReplyTo":"m1-s1"}`))
	r.sessions.Model(key, machinetest.Text("second"))
	r.call("POST", "/api/sessions/s1/messages", `{"text":"more","client_msg_id":"b"}`).want(t, 202)
	a = r.call("GET", "/api/sessions/s1/messages", "").want(t, 200)
	var page struct {
		Items []struct {
			Type, Message, Text, How, Evidence, Via, Author string
			Final                                           bool
			Seq                                             int
			Accepted                                        string `json:"accepted_at"`
			Read                                            string `json:"read_at"`
			Resolved                                        string `json:"resolved_at"`
			Delivered                                       string `json:"delivered_at"`
		}
		Next *string `json:"next_cursor"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil || len(page.Items) != 4 || page.Next != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	m := page.Items[0]
	if m.Type != "message" || m.How != "answered" || m.Evidence != "named" || m.Via != "http" || m.Author != "local" ||
		!(m.Accepted < m.Read && m.Read < m.Resolved && m.Resolved < m.Delivered) {
		t.Errorf("%+v", m)
	}
	if p := page.Items[2]; p.Type != "part" || p.Text != "second" || !p.Final {
		t.Errorf("%+v", p)
	}
	if p := page.Items[1]; p.Final {
		t.Errorf("%+v", p)
	}
	var all []string
	cursor := ""
	for {
		a := r.call("GET", "/api/sessions/s1/messages?limit=1&cursor="+cursor, "").want(t, 200)
		page.Items, page.Next = nil, nil
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			all = append(all, i.Message)
			if i.Message == "m1-s1" && i.Delivered == "" {
				t.Errorf("on a short page: %+v", i)
			}
		}
		if page.Next == nil {
			break
		}
		cursor = *page.Next
	}
	if got := strings.Join(all, " "); got != "m1-s1 p1-s1 p2-s1 m2-s1" {
		t.Errorf("paged %s", got)
	}
}

// M-10, M-11, M-13, M-14, M-21: parts of outside runtimes.
// PROTOCOL.md, rules 8.7, 8.8.
func TestPartsRoute(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	post := func(body string, headers ...string) answer {
		return r.call("POST", "/api/sessions/s1/parts", body, headers...)
	}
	if got := string(post(`{"source_id":"n1","part_index":0,"text":"a"}`).want(t, 201).body); got != `{"message":"p1-s1","seq":2,"part_index":0,"duplicate":false}` {
		t.Errorf("%s", got)
	}
	for _, again := range []string{`{"source_id":"n1","part_index":0,"text":"a"}`, `{"source_id":"n1","text":"a"}`} {
		if got := string(post(again).want(t, 200).body); got != `{"message":"p1-s1","seq":2,"part_index":0,"duplicate":true}` {
			t.Errorf("%s", got)
		}
	}
	post(`{"source_id":"n1","part_index":1,"text":"b","final":true}`).want(t, 201)
	post(`{"text":"plain"}`).want(t, 201)
	post(`{"text":"plain"}`).want(t, 201)
	a := post(`{"text":"plain","part_index":3}`, "Idempotency-Key", "k").want(t, 201)
	again := post(`{"text":"plain","part_index":3}`, "Idempotency-Key", "k").want(t, 200)
	if got := string(again.body); got != strings.Replace(string(a.body), `"duplicate":false`, `"duplicate":true`, 1) || a.get(t, "part_index") != "0" {
		t.Errorf("%s\nagain %s", a.body, got)
	}
	// A plain message shows neither source nor part: its key is nobody's business.
	for _, path := range []string{"messages", "events"} {
		body := string(r.call("GET", "/api/sessions/s1/"+path, "").want(t, 200).body)
		at := strings.Index(body, `"message":"`+a.get(t, "message")+`"`)
		shown, _, _ := strings.Cut(body[max(at, 0):], `"text"`)
		if at < 0 || strings.Contains(shown, "source") || strings.Contains(shown, `"part"`) || strings.Contains(body, "part:") {
			t.Errorf("%s: %s", path, body)
		}
	}
	// A key and a source_id of the same name are two things.
	post(`{"source_id":"k","text":"of source k"}`).want(t, 201)
	post(`{"text":"plain"}`, "Idempotency-Key", "n1").want(t, 201)
	post(`{"source_id":"n1","part_index":2,"text":" \n"}`).want(t, 204)
	for _, bad := range []string{`{}`, `{"text":1}`, `{"text":"x","part_index":-1}`, `{"text":"x","part_index":"0"}`, `{"text":"x","final":"yes"}`, `{"text":"x","source_id":5}`} {
		post(bad).problem(t, 400, "bad_request")
	}
}

// R-02…: the reply protocol, words and statuses verbatim.
// PROTOCOL.md, rules 8.15, 8.16.
func TestReplyProtocol(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.sessions.Full(true)
	a := r.call("POST", "/api/tasks", `{"prompt":"do it","session":"s1","client_msg_id":"a"}`).want(t, 202)
	if got := string(a.body); got != `{"task_id":"t1-s1","session":"s1","status":"QUEUED"}` || a.header.Get("Location") != "/api/tasks/t1-s1" {
		t.Errorf("%s", got)
	}
	//
	p := r.call("POST", "/api/tasks/t1-s1/reply", `{"reply":"x"}`).problem(t, 409, "task_not_awaiting")
	if p.get(t, "task_status") != "QUEUED" {
		t.Errorf("%s", p.body)
	}
	r.sessions.Full(false)
	r.sessions.Model(key, machinetest.Text("working"), which)
	r.sessions.Full(true)
	got := r.call("GET", "/api/tasks/t1-s1", "").want(t, 200)
	for name, want := range map[string]string{"task_id": "t1-s1", "session": "s1", "status": "AWAITING_RESPONSE", "prompt": "do it", "output": "working\n\nWhich?", "reply_history": "[]", "user_reply": ""} {
		if g := got.get(t, name); g != want {
			t.Errorf("%s = %q, want %q", name, g, want)
		}
	}
	if q := got.get(t, "question"); !strings.Contains(q, `"question":"q1"`) {
		t.Errorf("question %s", q)
	}
	//
	for _, bad := range []string{``, `{}`, `{"reply":""}`, `{"reply":"  \n"}`, `{"reply":null}`, `{"reply":5}`, `{"reply":["x"]}`, `[]`} {
		r.call("POST", "/api/tasks/t1-s1/reply", bad).problem(t, 400, "bad_request")
	}
	r.call("POST", "/api/tasks/t1-s1/reply", `{"reply":`).problem(t, 400, "invalid_json")
	//
	for _, none := range []string{"t9-s1", "t1-nobody", "nonsense", "t1-", "x1-s1"} {
		r.call("POST", "/api/tasks/"+none+"/reply", `{"reply":"x"}`).problem(t, 404, "not_found")
		r.call("GET", "/api/tasks/"+none, "").problem(t, 404, "not_found")
	}
	// several lines, trimmed outside only
	ok := r.call("POST", "/api/tasks/t1-s1/reply", `{"reply":"  line 1\nline 2 \n"}`).want(t, 200)
	if string(ok.body) != `{"success":true,"task_id":"t1-s1","old_status":"AWAITING_RESPONSE","new_status":"QUEUED"}` {
		t.Errorf("%s", ok.body)
	}
	//
	r.call("POST", "/api/tasks/t1-s1/reply", `{"reply":"again"}`).problem(t, 409, "task_not_awaiting")
	//
	got = r.call("GET", "/api/tasks/t1-s1", "").want(t, 200)
	if got.get(t, "user_reply") != "line 1\nline 2" || got.get(t, "status") != "QUEUED" || !strings.Contains(got.get(t, "reply_history"), `{"content":"line 1\nline 2","timestamp":"2026-`) {
		t.Errorf("%s", got.body)
	}
	if got.get(t, "output") != "working" {
		t.Errorf("the answered question is still in the output: %s", got.body)
	}
	//
	r.sessions.Full(false)
	if got = r.call("GET", "/api/tasks/t1-s1", "").want(t, 200); got.get(t, "user_reply") != "" || got.get(t, "reply_history") == "[]" {
		t.Errorf("%s", got.body)
	}
	r.call("POST", "/api/tasks/t1-s1/cancel", "").want(t, 202)
	p = r.call("POST", "/api/tasks/t1-s1/cancel", "").problem(t, 409, "conflict")
	if p.get(t, "task_status") != "CANCELLED" {
		t.Errorf("%s", p.body)
	}
	r.call("POST", "/api/tasks/t9-s1/cancel", "").problem(t, 404, "not_found")
}

// A repeated cancel gets its first answer again on both routes, and what runs by
// then goes on. Without a key a cancel is a new one each time.
// PROTOCOL.md, rules 5.4, 8.12, 8.17.
func TestRepeatedCancel(t *testing.T) {
	for route, first := range map[string]string{
		"/api/sessions/s1/cancel": `{"task":"t1-s1","old_status":"RUNNING"}`,
		"/api/tasks/t1-s1/cancel": `{"task_id":"t1-s1","old_status":"RUNNING"}`,
	} {
		r := start(t)
		r.sessions.Open("s1", "local")
		r.call("POST", "/api/sessions/s1/messages", `{"text":"one"}`).want(t, 202)
		if got := string(r.call("POST", route, "", "Idempotency-Key", "k").want(t, 202).body); got != first {
			t.Errorf("%s: %s", route, got)
		}
		r.call("POST", "/api/sessions/s1/messages", `{"text":"two"}`).want(t, 202)
		if got := string(r.call("POST", route, "", "Idempotency-Key", "k").want(t, 202).body); got != first {
			t.Errorf("%s: again %s", route, got)
		}
		if got := r.call("GET", "/api/tasks/t2-s1", "").want(t, 200).get(t, "status"); got != "RUNNING" {
			t.Errorf("%s: the second task is %s", route, got)
		}
		r.call("POST", route, "", "Idempotency-Key", strings.Repeat("k", 256)).problem(t, 400, "bad_request")
		// A key is one of its route.
		r.call("POST", "/api/tasks/t2-s1/cancel", "", "Idempotency-Key", "k").want(t, 202)
		if strings.HasPrefix(route, "/api/tasks") {
			r.call("POST", route, "", "Idempotency-Key", "l").problem(t, 409, "conflict")
		} else {
			r.call("POST", route, "", "Idempotency-Key", "l").problem(t, 404, "not_found")
		}
	}
}

// A repeated reply gets its first answer again, also when the engine has forgotten it.
// PROTOCOL.md, rules 7.6, 8.16.
func TestRepeatedReply(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.call("POST", "/api/tasks", `{"prompt":"do it","session":"s1"}`).want(t, 202)
	r.sessions.Model(key, which)
	first := r.call("POST", "/api/tasks/t1-s1/reply", `{"reply":"x"}`, "Idempotency-Key", "k").want(t, 200)
	seq := r.sessions.Seq(key, "m2-s1")
	r.sessions.Do(func() {
		r.sessions.Script = func(x gatewaytest.Told) (gatewaytest.Outcome, bool) {
			if _, ok := x.Command.(conversation.Reply); !ok {
				return gatewaytest.Outcome{}, false
			}
			return gatewaytest.Outcome{Receipt: conversation.Receipt{Message: "m2-s1", Seq: seq, Duplicate: true}}, true
		}
	})
	again := r.call("POST", "/api/tasks/t1-s1/reply", `{"reply":"x"}`, "Idempotency-Key", "k").want(t, 200)
	if string(first.body) != string(again.body) {
		t.Errorf("first %s\nagain %s", first.body, again.body)
	}
}

// The first answer said that the task goes on waiting, for another of its questions
// was open. What moved the task since is not the repeated reply's.
func TestRepeatedReplyThatMovedNothing(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.call("POST", "/api/tasks", `{"prompt":"do it","session":"s1"}`).want(t, 202)
	r.sessions.Model(key, which, machinetest.Call(conversation.ToolAsk, `{"question":"Sure?","expiresIn":"1m","default":"d"}`))
	r.call("POST", "/api/sessions/s1/questions/q1/answer", `{"text":"x","client_msg_id":"k"}`).want(t, 200)
	r.sessions.Play(func(w *machinetest.World) { w.Pass(time.Minute) })
	seq := r.sessions.Seq(key, "m2-s1")
	r.sessions.Do(func() {
		r.sessions.Script = func(x gatewaytest.Told) (gatewaytest.Outcome, bool) {
			switch x.Command.(type) {
			case conversation.Reply, conversation.Answer:
				return gatewaytest.Outcome{Receipt: conversation.Receipt{Message: "m2-s1", Seq: seq, Duplicate: true}}, true
			}
			return gatewaytest.Outcome{}, false
		}
	})
	again := r.call("POST", "/api/tasks/t1-s1/reply", `{"reply":"x"}`, "Idempotency-Key", "k").want(t, 200)
	if string(again.body) != `{"success":true,"task_id":"t1-s1","old_status":"AWAITING_RESPONSE","new_status":"AWAITING_RESPONSE"}` {
		t.Errorf("%s", again.body)
	}
	want := `{"message":"m2-s1","seq":` + fmt.Sprint(seq) + `,"duplicate":true,"task":"t1-s1","old_status":"AWAITING_RESPONSE","new_status":"AWAITING_RESPONSE"}`
	again = r.call("POST", "/api/sessions/s1/questions/q1/answer", `{"text":"x","client_msg_id":"k"}`).want(t, 200)
	if string(again.body) != want {
		t.Errorf("HTTP: %s", again.body)
	}
	c := gatewaytest.Connect(t, r.addr)
	if f := c.Do("answer", "s1", obj{"client_msg_id": "k", "question": "q1", "text": "x"}); string(f.Data) != want {
		t.Errorf("WebSocket: %s", f.Raw)
	}
}

// admission.on_full=reject: a task that is refused at the door leaves no session behind.
func TestRefusedTask(t *testing.T) {
	r := start(t)
	r.sessions.Do(func() {
		r.sessions.Script = func(x gatewaytest.Told) (gatewaytest.Outcome, bool) {
			_, ok := x.Command.(conversation.Say)
			return gatewaytest.Outcome{Err: conversation.Errorf(conversation.Overloaded, "busy")}, ok
		}
	})
	r.call("POST", "/api/tasks", `{"prompt":"x"}`).problem(t, 503, "overloaded")
	if got := r.call("GET", "/api/sessions", "").want(t, 200).get(t, "items"); got != "[]" {
		t.Errorf("left behind: %s", got)
	}
	// With a key the session waits for the client's next attempt.
	for range 2 {
		r.call("POST", "/api/tasks", `{"prompt":"x"}`, "Idempotency-Key", "k").problem(t, 503, "overloaded")
	}
	r.sessions.Do(func() { r.sessions.Script = nil })
	r.call("POST", "/api/tasks", `{"prompt":"x"}`, "Idempotency-Key", "k").want(t, 202)
}

// PROTOCOL.md, rules 8.13, 8.14.
func TestTasksRoutes(t *testing.T) {
	r := start(t)
	r.sessions.Full(true) // the outside runtime needs no slot
	r.sessions.Open("s1", "local")
	// without a session a new one is made, the same one for the same key
	a := r.call("POST", "/api/tasks", `{"prompt":"x","agent":"outside"}`, "Idempotency-Key", "k").want(t, 202)
	b := r.call("POST", "/api/tasks", `{"prompt":"x","agent":"outside"}`, "Idempotency-Key", "k").want(t, 202)
	if string(a.body) != string(b.body) {
		t.Errorf("first %s\nagain %s", a.body, b.body)
	}
	c := r.call("POST", "/api/tasks", `{"prompt":"y"}`).want(t, 202)
	if c.get(t, "session") == a.get(t, "session") {
		t.Error("another task got the same session")
	}
	for _, bad := range []string{`{}`, `{"prompt":" "}`, `{"prompt":1}`, `{"prompt":"x","session":"s1","agent":"y"}`} {
		r.call("POST", "/api/tasks", bad).problem(t, 400, "bad_request")
	}
	r.call("POST", "/api/tasks", `{"prompt":"x","session":"nobody"}`).problem(t, 404, "not_found")
	list := func(query string) []string {
		var page struct {
			Items []struct {
				Task string `json:"task_id"`
			}
		}
		if err := json.Unmarshal(r.call("GET", "/api/tasks"+query, "").want(t, 200).body, &page); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, i := range page.Items {
			ids = append(ids, i.Task)
		}
		return ids
	}
	if got := list(""); len(got) != 2 || got[0] != c.get(t, "task_id") {
		t.Errorf("listed %v", got)
	}
	if got := list("?session=" + a.get(t, "session")); len(got) != 1 {
		t.Errorf("listed %v", got)
	}
	if got := list("?status=COMPLETE"); len(got) != 0 {
		t.Errorf("listed %v", got)
	}
	if got := list("?status=QUEUED&limit=1"); len(got) != 1 {
		t.Errorf("listed %v", got)
	}
	r.call("GET", "/api/tasks?status=DONE", "").problem(t, 400, "bad_request")
	r.call("GET", "/api/tasks?session=nobody", "").problem(t, 404, "not_found")
}

// A task of leftovers shows the prompt that was said before it was born.
func TestLeftoverTask(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	r.call("POST", "/api/sessions/s1/messages", `{"text":"go"}`).want(t, 202)
	r.call("POST", "/api/sessions/s1/messages", `{"text":"said early"}`).want(t, 202)
	r.call("PATCH", "/api/sessions/s1/messages/m2-s1", `{"text":"said better"}`).want(t, 200)
	r.call("POST", "/api/tasks/t1-s1/cancel", "").want(t, 202)
	if a := r.call("GET", "/api/tasks/t2-s1", "").want(t, 200); a.get(t, "prompt") != "said better" {
		t.Errorf("%s", a.body)
	}
}

// PROTOCOL.md, rules 8.11, 8.12.
func TestQuestionsAndCalls(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.call("POST", "/api/sessions/s1/messages", `{"text":"go"}`).want(t, 202)
	r.sessions.Model(key, machinetest.Call(conversation.ToolAsk, `{"question":"Which?","blocking":false}`))
	if a := r.call("GET", "/api/sessions/s1/questions", "").want(t, 200); !strings.Contains(string(a.body), `{"question":"q1","text":"Which?","blocking":false,"about":"m1-s1","task":"t1-s1","asked_at":"2026-11-21T09:00:00.003Z"}`) {
		t.Errorf("%s", a.body)
	}
	long := `{"text":"` + strings.Repeat("x", 10_000) + `"}`
	r.sessions.Model(key, machinetest.Call("mail", long))
	r.sessions.Play(func(w *machinetest.World) { w.Session(key).Return("c1", strings.Repeat("y", 9000), time.Second) })
	r.sessions.Model(key, machinetest.Call(conversation.ToolDelegate, `{"agent":"developer","objective":"o"}`))
	r.sessions.Model(gatewaytest.Key("s1/d1"), which)
	if a := r.call("POST", "/api/sessions/s1/questions/d1.q1/answer", `{"text":"A"}`).want(t, 200); a.get(t, "new_status") != "QUEUED" {
		t.Errorf("%s", a.body)
	}
	r.call("POST", "/api/sessions/s1/questions/q1/answer", `{}`).problem(t, 400, "bad_request")
	a := r.call("GET", "/api/sessions/s1/calls/c1", "").want(t, 200)
	if a.get(t, "args") != long || len(a.get(t, "result")) != 9000 || a.get(t, "status") != "ok" || a.get(t, "ms") != "1000" {
		t.Errorf("%s", a.body)
	}
	if a := r.call("GET", "/api/sessions/s1/calls/d1", "").want(t, 200); a.get(t, "session") != "s1/d1" || a.get(t, "status") != "" {
		t.Errorf("%s", a.body)
	}
	r.call("GET", "/api/sessions/s1/calls/c9", "").problem(t, 404, "not_found")
	if a := r.call("POST", "/api/sessions/s1/cancel", `{"reason":"enough"}`).want(t, 202); a.get(t, "task") != "t1-s1" {
		t.Errorf("%s", a.body)
	}
	r.call("POST", "/api/sessions/s1/cancel", "").problem(t, 404, "not_found")
}

// PROTOCOL.md, rule 8.9.
func TestEventsPages(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.sessions.Open("s1/d1", "local")
	r.sessions.Say(key, 9)
	r.sessions.Do(func() {})
	var page struct {
		Items []gatewaytest.Frame
		Next  *string `json:"next_cursor"`
	}
	next, since := uint64(1), "0"
	for {
		page.Next = nil
		if err := json.Unmarshal(r.call("GET", "/api/sessions/s1/events?limit=4&since="+since, "").want(t, 200).body, &page); err != nil {
			t.Fatal(err)
		}
		for _, f := range page.Items {
			if f.Seq != next {
				t.Fatalf("event %d, want %d", f.Seq, next)
			}
			next++
		}
		if page.Next == nil {
			break
		}
		since = *page.Next
	}
	if next != 11 {
		t.Errorf("%d events", next-1)
	}
	if err := json.Unmarshal(r.call("GET", "/api/sessions/s1%2Fd1/events", "").want(t, 200).body, &page); err != nil || len(page.Items) != 4 || page.Items[0].Session != "s1/d1" {
		t.Errorf("a sub-session: %v %v", err, page.Items)
	}
	r.call("GET", "/api/sessions/s1/events?since=x", "").problem(t, 400, "bad_request")
	r.call("GET", "/api/sessions/%ff/events", "").problem(t, 404, "not_found")
}

// A body that is a little too large is read to its end, and the connection stays:
// else its client would write into a closed connection and never read the answer.
func TestTooLargeBodyIsRead(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.BodyBytes = 10_000 }))
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	answers := bufio.NewReader(conn)
	for _, c := range []struct{ size, status int }{{39_000, 413}, {10_000, 413}, {10, 404}} {
		fmt.Fprintf(conn, "POST /api/sessions/nobody/messages HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"text\":\"%s\"}", r.addr, c.size+11, strings.Repeat("x", c.size))
		a, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, a.Body); err != nil || a.StatusCode != c.status {
			t.Errorf("%d bytes: %d, %v", c.size, a.StatusCode, err)
		}
	}
}

// Every error is a problem, also those of the HTTP library.
// PROTOCOL.md, rule 7.1.
func TestProblems(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.BodyBytes, l.TextBytes = 10_000, 1000 }))
	r.sessions.Open("s1", "local")
	r.call("GET", "/nothing", "").problem(t, 404, "not_found")
	r.call("GET", "/api/sessions/nobody", "").problem(t, 404, "not_found")
	r.call("GET", "/api/sessions/a%00b", "").problem(t, 404, "not_found")
	r.call("PUT", "/api/sessions", "").problem(t, 405, "method_not_allowed")
	r.call("GET", "/ws", "").problem(t, 426, "upgrade_required")
	r.call("POST", "/api/sessions/s1/messages", `{"text":"`+strings.Repeat("x", 1001)+`"}`).problem(t, 413, "too_large")
	for _, size := range []int{10_001, 40_000, 50_000} {
		r.call("POST", "/api/sessions/s1/messages", strings.Repeat("x", size)).problem(t, 413, "too_large")
	}
	r.call("GET", "/livez", "", "Cookie", strings.Repeat("x", 3000)).want(t, 200)
	r.call("GET", "/livez", "", "Cookie", strings.Repeat("x", 5000)).problem(t, 431, "too_large")
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/jsonx", "nonsense/"} {
		r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`, "Content-Type", kind).problem(t, 415, "unsupported_media_type")
	}
	r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`, "Content-Encoding", "gzip").problem(t, 415, "unsupported_media_type")
	r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`, "Content-Type", "application/json; charset=utf-8").want(t, 202)
	r.call("POST", "/api/sessions/s1/messages", `{"text"}`).problem(t, 400, "invalid_json")
	r.call("POST", "/api/sessions/s1/messages", "{\"text\":\"\xff\"}").problem(t, 400, "invalid_json")
	var next error
	r.sessions.Do(func() {
		r.sessions.Script = func(gatewaytest.Told) (gatewaytest.Outcome, bool) { return gatewaytest.Outcome{Err: next}, true }
	})
	for code, status := range map[conversation.Code]int{
		conversation.SessionBusy: 409, conversation.QuestionNotOpen: 409, conversation.InboxFull: 429, conversation.RateLimited: 429,
		conversation.Overloaded: 503, conversation.Unavailable: 503, conversation.Timeout: 504, conversation.StorageFull: 507, conversation.Internal: 500,
		conversation.Forbidden: 403, conversation.Unauthenticated: 401, conversation.TokenExpired: 401,
	} {
		next = conversation.Errorf(code, "says the engine")
		a := r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`).problem(t, status, code)
		if (status == 429 || status == 503) != (a.header.Get("Retry-After") != "") {
			t.Errorf("%s: Retry-After %q", code, a.header.Get("Retry-After"))
		}
	}
	next = errTest
	if a := r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`).problem(t, 500, "internal"); strings.Contains(string(a.body), "secret") {
		t.Errorf("%s", a.body)
	}
	a := r.call("GET", "/nothing", "", "X-Request-Id", "mine-7")
	if a.get(t, "request_id") != "mine-7" {
		t.Errorf("%s", a.body)
	}
	if a := r.call("GET", "/nothing", "", "X-Request-Id", strings.Repeat("x", 65)); a.get(t, "request_id") == strings.Repeat("x", 65) {
		t.Error("any request id is taken")
	}
}

// A panic of a handler is a problem without its text.
func TestPanicInHandler(t *testing.T) {
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = panicking{} })
	a := r.call("GET", "/api/sessions", "").problem(t, 500, "internal")
	if strings.Contains(string(a.body), "secret") || !strings.Contains(r.log.String(), "secret internals") {
		t.Errorf("%s\nlog %s", a.body, r.log)
	}
	if n := r.metric("parley_gateway_panics_total"); n != 1 {
		t.Errorf("counted %v", n)
	}
}

// A hung engine is a timeout, not a hung request.
// PROTOCOL.md, rule 7.7.
func TestEngineHangs(t *testing.T) {
	r := start(t, times(func(x *gateway.Times) { x.Request = 20 * time.Millisecond }))
	r.sessions.Open("s1", "local")
	hold := r.sessions.Hold()
	defer hold()
	r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`).problem(t, 504, "timeout")
	r.call("GET", "/api/sessions/s1", "").problem(t, 504, "timeout")
	r.call("POST", "/api/sessions", `{}`).problem(t, 504, "timeout")
	r.call("GET", "/api/sessions/s1/stream", "").problem(t, 504, "timeout")
}

// Origin and Host, on every route, before anything else.
// PROTOCOL.md, rules 7.3, 9.6.
func TestOriginAndHost(t *testing.T) {
	r := start(t, withAuth(anybody{}), func(c *gateway.Config, _ *gateway.Deps) {
		c.AllowedOrigins = []string{"https://chat.example"}
		c.PublicHosts = []string{"api.example", "https://site.example"}
	})
	_, port, _ := strings.Cut(r.addr, ":")
	for _, x := range []struct {
		host, origin string
		ok           bool
	}{
		{"", "", true}, // a program
		{"", "http://" + r.addr, true},
		{"", "HTTP://" + r.addr, true},
		{"localhost:" + port, "http://localhost:" + port, true},
		{"", "https://chat.example", true},
		{"", "https://chat.example:443", true},
		{"api.example", "http://api.example", true},
		{"api.example", "https://api.example", true},
		{"site.example", "https://site.example", true},
		{"site.example", "", true},
		{"site.example", "http://site.example", false}, // it came unencrypted
		{"site.example:8443", "https://site.example:8443", false},
		{"api.example", "https://site.example", false},
		{"", "https://" + r.addr, false}, // this server speaks http
		{"", "http://evil.example", false},
		{"", "null", false},
		{"", "http://chat.example", false},
		{"", "https://chat.example.evil.example", false},
		{"", "http://127.0.0.1:1", false},
		{"", "http://localhost:" + port, false},
		{"", "file://" + r.addr, false},
		{"evil.example:" + port, "http://evil.example:" + port, false}, // DNS rebinding
		{"evil.example", "", false},
		{"192.168.0.1", "", false},
	} {
		for _, path := range []string{"/api/sessions", "/livez", "/metrics", "/nothing"} {
			var headers []string
			if x.host != "" {
				headers = append(headers, "Host", x.host)
			}
			if x.origin != "" {
				headers = append(headers, "Origin", x.origin)
			}
			a := r.call("GET", path, "", headers...)
			if !x.ok {
				a.problem(t, 403, "forbidden")
			} else if a.status == 403 {
				t.Errorf("%+v %s: %s", x, path, a.body)
			}
		}
		header := http.Header{}
		if x.origin != "" {
			header.Set("Origin", x.origin)
		}
		if x.host != "" {
			continue // the client library sets Host itself
		}
		_, response, err := gatewaytest.TryDial(t, r.addr, header)
		if (err == nil) != x.ok || (!x.ok && (response == nil || response.StatusCode != 403)) {
			t.Errorf("socket %+v: %v %v", x, response, err)
		}
	}
	if n := r.metric("parley_gateway_handshakes_total", "result", "forbidden"); n != 8 {
		t.Errorf("counted %v refused handshakes", n)
	}
}

// Pages of an allowed origin may read answers; others are not even told so.
func TestAllowedOriginReads(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.AllowedOrigins = []string{"https://chat.example"} })
	a := r.call("GET", "/api/sessions", "", "Origin", "https://chat.example").want(t, 200)
	if a.header.Get("Access-Control-Allow-Origin") != "https://chat.example" || a.header.Get("Vary") != "Origin" {
		t.Errorf("%v", a.header)
	}
	a = r.call("OPTIONS", "/api/sessions", "", "Origin", "https://chat.example", "Access-Control-Request-Method", "POST").want(t, 204)
	if allowed := a.header.Get("Access-Control-Allow-Headers"); !strings.Contains(allowed, "Idempotency-Key") {
		t.Errorf("%v", a.header)
	}
	for asked, want := range map[string]string{ // SDKs of other protocols have headers of their own
		"authorization,a2a-version,x-stainless-lang": "authorization,a2a-version,x-stainless-lang",
		"mcp-session-id": "mcp-session-id",
		"no<header>":     "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id",
	} {
		a = r.call("OPTIONS", "/mcp", "", "Origin", "https://chat.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asked).want(t, 204)
		if allowed := a.header.Get("Access-Control-Allow-Headers"); allowed != want {
			t.Errorf("%q: %q", asked, allowed)
		}
	}
	a = r.call("OPTIONS", "/api/sessions", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST").problem(t, 403, "forbidden")
	if a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", a.header)
	}
	if a := r.call("GET", "/api/sessions", "").want(t, 200); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", a.header)
	}
}

// Strings of a request that a session keeps are still the same after the next request.
func TestRetainedStrings(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	var told []conversation.Command
	r.sessions.Do(func() {
		r.sessions.Script = func(x gatewaytest.Told) (gatewaytest.Outcome, bool) {
			told = append(told, x.Command)
			return gatewaytest.Outcome{Receipt: conversation.Receipt{Message: "m1", Disposition: conversation.Started}}, true
		}
	})
	want := []string{"aaaa", "bbbb", "cccc", "dddd"}
	for _, id := range want {
		r.call("PATCH", "/api/sessions/s1/messages/"+id, `{"text":"`+id+`"}`).want(t, 200)
		r.call("POST", "/api/sessions/s1/messages", `{"text":"x"}`, "Idempotency-Key", id).want(t, 202)
	}
	for i, id := range want {
		edit, _ := told[2*i].(conversation.Edit)
		say, _ := told[2*i+1].(conversation.Say)
		if string(edit.Message) != id || edit.Text != id || string(say.ClientMsgID) != id {
			t.Errorf("%s became %+v and %+v", id, edit, say)
		}
	}
}

// auth.mode=none is for loopback only; the refusal names the ways out.
// PROTOCOL.md, rule 9.1.
func TestNoAuthNeedsLoopback(t *testing.T) {
	hub := gateway.NewHub(nil)
	sessions := gatewaytest.NewSessions(hub)
	defer sessions.Close()
	for listen, ok := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "127.9.9.9:80": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "192.168.1.1:80": false, "chat.example:80": false,
	} {
		cfg := gateway.DefaultConfig()
		cfg.Listen = listen
		_, err := gateway.New(cfg, gateway.Deps{Sessions: sessions, Hub: hub})
		if (err == nil) != ok {
			t.Errorf("%s: %v", listen, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "auth.mode") || !strings.Contains(err.Error(), "127.0.0.1") || !strings.Contains(err.Error(), "keys")) {
			t.Errorf("%s: the refusal names no way out: %v", listen, err)
		}
		if _, err := gateway.New(cfg, gateway.Deps{Sessions: sessions, Hub: hub, Authenticator: badAuth{}}); err != nil {
			t.Errorf("%s with keys: %v", listen, err)
		}
	}
}

func TestConfig(t *testing.T) {
	hub := gateway.NewHub(nil)
	sessions := gatewaytest.NewSessions(hub)
	defer sessions.Close()
	for want, change := range map[string]func(*gateway.Config){
		"listen":               func(c *gateway.Config) { c.Listen = "nonsense" },
		`port "99999" must`:    func(c *gateway.Config) { c.Listen = "127.0.0.1:99999" },
		`port "http" must be`:  func(c *gateway.Config) { c.AdminListen = "127.0.0.1:http" },
		"admin.listen":         func(c *gateway.Config) { c.AdminListen = "nonsense" },
		"allowed_origins":      func(c *gateway.Config) { c.AllowedOrigins = []string{"chat.example"} },
		"public_hosts":         func(c *gateway.Config) { c.PublicHosts = []string{"http://x/"} },
		"at most 8 texts":      func(c *gateway.Config) { c.Starters = strings.Fields("a b c d e f g h i") },
		"at most 300 bytes":    func(c *gateway.Config) { c.Starters = []string{strings.Repeat("a", 301)} },
		"page.starters":        func(c *gateway.Config) { c.Starters = []string{" "} },
		"replay_page":          func(c *gateway.Config) { c.Limits.ReplayPage = 0 },
		"head_bytes":           func(c *gateway.Config) { c.Limits.HeadBytes = 100 },
		"frame_bytes":          func(c *gateway.Config) { c.Limits.FrameBytes = -1 },
		"control_frames_burst": func(c *gateway.Config) { c.Limits.ControlFramesBurst = 0 },
		"commands_burst":       func(c *gateway.Config) { c.Limits.CommandsBurst = 0 },
		"commands_per_sec":     func(c *gateway.Config) { c.Limits.CommandsPerSecond = -1 },
		"heartbeat":            func(c *gateway.Config) { c.Times.Heartbeat = 0 },
		"read_deadline":        func(c *gateway.Config) { c.Times.ReadDeadline = c.Times.Heartbeat },
	} {
		cfg := gateway.DefaultConfig()
		change(&cfg)
		if _, err := gateway.New(cfg, gateway.Deps{Sessions: sessions, Hub: hub}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	most := gateway.DefaultConfig()
	for range 8 {
		most.Starters = append(most.Starters, strings.Repeat("a", 300))
	}
	if wrong := most.Validate(); wrong != nil {
		t.Errorf("eight starters of 300 bytes: %v", wrong)
	}
	if _, err := gateway.New(gateway.DefaultConfig(), gateway.Deps{}); err == nil {
		t.Error("a server without an engine")
	}
}

// /metrics and pprof are on the main address only when that is loopback, and on
// the administration's own when there is one.
// PROTOCOL.md, rule 8.20.
func TestAdministration(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.AdminListen = "127.0.0.1:0" })
	if a := r.call("GET", "/metrics", "").want(t, 200); !strings.Contains(string(a.body), "parley_gateway_connections") && !strings.Contains(string(a.body), "parley_gateway_frames_in_total") {
		t.Errorf("%.200s", a.body)
	}
	r.call("GET", "/debug/pprof/", "").want(t, 200)
	for _, path := range []string{"/metrics", "/debug/pprof/cmdline"} {
		response, err := r.http.Get("http://" + r.server.AdminAddr().String() + path)
		if err != nil || response.StatusCode != 200 {
			t.Errorf("%s: %v %v", path, response, err)
		} else {
			_ = response.Body.Close()
		}
	}
	public := start(t, withAuth(badAuth{}), func(c *gateway.Config, _ *gateway.Deps) { c.Listen = "0.0.0.0:0" })
	_, port, _ := strings.Cut(public.addr, "]:")
	public.addr = "127.0.0.1:" + port
	public.call("GET", "/metrics", "").problem(t, 404, "not_found")
	public.call("GET", "/debug/pprof/", "").problem(t, 404, "not_found")
	public.call("GET", "/api/sessions", "").problem(t, 401, "unauthenticated")
	public.call("GET", "/api/sessions", "", "Authorization", "Bearer nochat").problem(t, 403, "forbidden")
	public.call("GET", "/api/sessions", "", "Authorization", "bearer good").want(t, 200)
	public.call("POST", "/api/sessions/s1/parts", `{"text":"x"}`, "Authorization", "Bearer good").problem(t, 403, "forbidden")
}

// PROTOCOL.md, rule 8.20.
func TestHealth(t *testing.T) {
	r := start(t)
	r.call("GET", "/livez", "").want(t, 200)
	r.call("GET", "/readyz", "").want(t, 200)
	if a := r.call("GET", "/version", "").want(t, 200); a.get(t, "version") != "test" || a.get(t, "node") != "n1" || a.get(t, "proto") != "1" {
		t.Errorf("%s", a.body)
	}
	if a := r.call("GET", "/readyz", "").want(t, 200); a.get(t, "status") != "ready" {
		t.Errorf("%s", a.body)
	}
	// Damage is no reason to send the clients away, and its words are for the log.
	r.sessions.Unwell = errTest
	if a := r.call("GET", "/readyz", "").want(t, 200); a.get(t, "status") != "degraded" || a.get(t, "reason") == "" || strings.Contains(string(a.body), "secret") {
		t.Errorf("%s", a.body)
	}
	r.sessions.Unwell = nil
	r.sessions.NotReady = errTest
	if a := r.call("GET", "/readyz", "").problem(t, 503, "unavailable"); strings.Contains(string(a.body), "secret") {
		t.Errorf("%s", a.body)
	}
	r.call("GET", "/livez", "").want(t, 200)
	if n := r.metric("parley_gateway_http_requests_total", "route", "/readyz", "method", "GET", "status", "5xx"); n != 1 {
		t.Errorf("counted %v", n)
	}
	if n := r.metric("parley_gateway_http_request_seconds", "route", "/readyz"); n != 4 {
		t.Errorf("timed %v", n)
	}
}

// The page has a policy that lets it do nothing but what it needs.
func TestPage(t *testing.T) {
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		d.Page = fstest.MapFS{
			"index.html":    {Data: []byte("<!doctype html>")},
			"assets/app.js": {Data: []byte("export {}")},
			"style.css":     {Data: []byte("body{}")},
		}
	})
	a := r.call("GET", "/", "").want(t, 200)
	if a.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(a.header.Get("Content-Security-Policy"), "script-src 'self'") ||
		a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("%v", a.header)
	}
	for path, kind := range map[string]string{"/assets/app.js": "text/javascript; charset=utf-8", "/assets/style.css": "text/css; charset=utf-8"} {
		a := r.call("GET", path, "").want(t, 200)
		if a.header.Get("Content-Type") != kind {
			t.Errorf("%s: %s", path, a.header.Get("Content-Type"))
		}
		r.call("GET", path, "", "If-None-Match", a.header.Get("Etag")).want(t, 304)
	}
	r.call("GET", "/assets/../server.go", "").problem(t, 404, "not_found")
	r.call("GET", "/assets/none.js", "").problem(t, 404, "not_found")
	start(t).call("GET", "/", "").problem(t, 404, "not_found")
}
