package gateway_test

import (
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"
)

type obj = map[string]any

// Transcript A of the protocol, its beginning, frame for frame.
// PROTOCOL.md, rules 1.5, 2.1, 2.3, 2.3a, 2.5.
func TestHelloCreateFollowSend(t *testing.T) {
	r := start(t)
	c := gatewaytest.Dial(t, r.addr)
	hello := c.Do("hello", "", obj{"proto": 1, "caps": []string{"deltas"}, "client": obj{"name": "test", "version": "1"}})
	for name, want := range map[string]string{
		"conn": "c1", "proto": "1", "user": "local", "tenant": "default", "node": "n1", "version": "test", "model": "scripted", "heartbeat_ms": "25000",
	} {
		if got := hello.Get(name); got != want {
			t.Errorf("hello: %s = %q, want %q", name, got, want)
		}
	}
	for _, limit := range []string{"frame_bytes", "text_bytes", "commands_per_second", "commands_burst", "control_frames_per_second", "control_frames_burst", "follows_per_connection",
		"connections_per_user", "connections_per_tenant", "connections_before_hello", "connections_before_hello_per_address", "replay_page"} {
		if !strings.Contains(hello.Get("limits"), `"`+limit+`":`) {
			t.Errorf("hello does not tell the limit %s: %s", limit, hello.Raw)
		}
	}
	session := c.Do("create", "", obj{}).Get("session")
	if len(session) != 16 {
		t.Fatalf("session id %q", session)
	}
	followed := c.Do("follow", session, obj{"since": 0})
	for name, want := range map[string]string{"session": session, "log": "log-1", "head": "1", "first": "1", "resumed": "true", "reason": ""} {
		if got := followed.Get(name); got != want {
			t.Errorf("follow: %s = %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"tasks", "inbox", "questions", "calls"} {
		if !strings.Contains(followed.Get("state"), `"`+name+`":[]`) {
			t.Errorf("state has no list %s: %s", name, followed.Raw)
		}
	}
	if f := c.Read(); f.Type != "session_created" || f.Seq != 1 {
		t.Fatalf("first event %s", f.Raw)
	}
	if f := c.Read(); f.Type != "synced" || f.Get("head") != "1" {
		t.Fatalf("after the replay %s", f.Raw)
	}
	// N-01, and: the answer to a command precedes the events of its commit.
	sent := c.Send("send", session, obj{"client_msg_id": "a", "text": "Fix the login bug"})
	if f := c.Read(); f.Re == nil || *f.Re != sent || string(f.Data) != `{"message":"m1-`+session+`","seq":2,"duplicate":false,"disposition":"started","task":"t1-`+session+`"}` {
		t.Fatalf("send was answered %s", f.Raw)
	}
	if f := c.Read(); f.Type != "message_accepted" || f.Seq != 2 || f.Task == "" {
		t.Fatalf("then %s", f.Raw)
	}
}

// Every command of the protocol's table is answered ok.
// PROTOCOL.md, rules 2.1 to 2.13.
func TestEveryCommandOK(t *testing.T) {
	r := start(t)
	var told []conversation.Command
	r.sessions.Script = func(x gatewaytest.Told) (gatewaytest.Outcome, bool) {
		told = append(told, x.Command)
		return gatewaytest.Outcome{}, false
	}
	c := gatewaytest.Connect(t, r.addr)
	s := c.Do("create", "", obj{"client_session_id": "mine", "title": "T", "agent": "developer", "access": "tenant", "policy": obj{"inbox.mode": "queue"}}).Get("session")
	if again := c.Do("create", "", obj{"client_session_id": "mine"}).Get("session"); again != s {
		t.Errorf("a repeated create made %q, first %q", again, s)
	}
	for _, x := range []struct {
		kind string
		data obj
		want string // the ok's data; "" = any
	}{
		{"follow", obj{"since": 0, "log": "log-1"}, ""},
		{"send", obj{"client_msg_id": "a", "text": "hi", "mode": "queue", "in_reply_to": "p1"}, ""},
		{"answer", obj{"client_msg_id": "b", "question": "q1", "text": "yes"}, `{"message":"m2-` + s + `","seq":8,"duplicate":false,"task":"t1-` + s + `","old_status":"AWAITING_RESPONSE","new_status":"QUEUED"}`},
		{"send", obj{"client_msg_id": "c", "text": "then"}, ""},
		{"send", obj{"client_msg_id": "d", "text": "at last"}, ""},
		{"edit", obj{"message": "m3-" + s, "text": "ho"}, `{"seq":16}`},
		{"move", obj{"message": "m4-" + s, "before": "m3-" + s}, `{"seq":17}`},
		{"move", obj{"message": "m3-" + s}, `{"seq":18}`},
		{"withdraw", obj{"message": "m3-" + s}, `{"seq":22}`},
		{"cancel", obj{"reason": "enough", "waiting": "drop"}, `{"task":"t1-` + s + `","old_status":"RUNNING"}`},
		{"policy", obj{"inbox.mode": "steer", "task.max_steps": 5}, `{"seq":30,"policy":{"inbox.mode":"steer","task.max_steps":5}}`},
		{"clear", nil, `{"seq":31}`},
		{"clear", obj{}, `{"seq":31}`},
		{"ping", obj{"t": 17}, `{"t":17}`},
		{"ping", nil, `{}`},
		{"seen", obj{"seq": 3}, `{}`},
		{"typing", obj{"on": true}, `{}`},
		{"unfollow", nil, `{}`},
	} {
		if x.kind == "answer" {
			r.sessions.Model(gatewaytest.Key(s), which)
		}
		f := c.Do(x.kind, s, x.data)
		if f.Type != "ok" || (x.want != "" && string(f.Data) != x.want) {
			t.Errorf("%s was answered %s\nwant data %s", x.kind, f.Raw, x.want)
		}
	}
	r.sessions.Do(func() {})
	say, _ := told[0].(conversation.Say)
	if say.Via != conversation.ViaWebSocket || say.Author != "local" || say.Mode != conversation.ModeQueue || say.InReplyTo != "p1" || say.Text != "hi" || say.ClientMsgID != "a" {
		t.Errorf("send became %+v", say)
	}
	if cancel, _ := told[8].(conversation.Cancel); !cancel.Drop || cancel.By != conversation.ByUser || cancel.Reason != "enough" {
		t.Errorf("cancel became %+v", cancel)
	}
	if n := r.metric("parley_gateway_commands_total", "code", "ok"); n < 17 {
		t.Errorf("counted %v commands", n)
	}
}

// What is wrong with a command is said by name, and the connection stays.
// PROTOCOL.md, rules 1.2, 1.3, 1.4.
func TestBadCommands(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.sessions.Open("s1/d1", "local")
	c := gatewaytest.Connect(t, r.addr)
	long := strings.Repeat("x", 65)
	for _, x := range []struct{ frame, code, says string }{
		{`{`, "invalid_json", "JSON"},
		{`[]`, "bad_request", "object"},
		{`{"type":"ping","id":"1"} x`, "invalid_json", ""},
		{`{"id":"1"}`, "bad_request", "type is missing"},
		{`{"type":1,"id":"1"}`, "bad_request", "type must be a string"},
		{`{"type":"ping"}`, "bad_request", "id is missing"},
		{`{"type":"ping","id":7}`, "bad_request", "id must be a string"},
		{`{"type":"ping","id":"` + long + `"}`, "bad_request", "64 bytes"},
		{`{"type":"dance","id":"1"}`, "unknown_type", "dance"},
		{`{"type":"hello","id":"1","data":{"proto":1}}`, "bad_request", "already"},
		{`{"type":"send","id":"1","data":{"client_msg_id":"a","text":"x"}}`, "bad_request", "session is missing"},
		{`{"type":"send","id":"1","session":7,"data":{}}`, "bad_request", "session must be a string"},
		{`{"type":"send","id":"1","session":"s1"}`, "bad_request", "text is missing"},
		{`{"type":"send","id":"1","session":"s1","data":[]}`, "bad_request", "data must be an object"},
		{`{"type":"send","id":"1","session":"s1","data":{"text":"x"}}`, "bad_request", "client_msg_id is missing"},
		{`{"type":"send","id":"1","session":"s1","data":{"client_msg_id":"a"}}`, "bad_request", "text is missing"},
		{`{"type":"send","id":"1","session":"s1","data":{"client_msg_id":"a","text":null}}`, "bad_request", "text is missing"},
		{`{"type":"send","id":"1","session":"s1","data":{"client_msg_id":"a","text":5}}`, "bad_request", "text must be a string"},
		{`{"type":"send","id":"1","session":"s1","data":{"client_msg_id":"a","text":" \n"}}`, "bad_request", "blank"},
		{`{"type":"send","id":"1","session":"s1","data":{"client_msg_id":"a","text":"x","mode":"fast"}}`, "bad_request", "mode"},
		{`{"type":"send","id":"1","session":"s1","data":{"client_msg_id":"` + strings.Repeat("y", 129) + `","text":"x"}}`, "bad_request", "128 bytes"},
		{`{"type":"send","id":"1","session":"s1","data":{"client_msg_id":"a","Text":"x"}}`, "bad_request", "text is missing"},
		{`{"type":"send","id":"1","session":"nobody","data":{"client_msg_id":"a","text":"x"}}`, "not_found", ""},
		{`{"type":"send","id":"1","session":"a b","data":{"client_msg_id":"a","text":"x"}}`, "not_found", ""},
		{`{"type":"send","id":"1","session":"s1/d1","data":{"client_msg_id":"a","text":"x"}}`, "forbidden", "only be read"},
		{`{"type":"answer","id":"1","session":"s1","data":{"client_msg_id":"a","text":"x"}}`, "bad_request", "question is missing"},
		{`{"type":"answer","id":"1","session":"s1","data":{"question":"q1","text":"x"}}`, "bad_request", "client_msg_id is missing"},
		{`{"type":"edit","id":"1","session":"s1","data":{"text":"x"}}`, "bad_request", "message is missing"},
		{`{"type":"edit","id":"1","session":"s1","data":{"message":"m1"}}`, "bad_request", "text is missing"},
		{`{"type":"withdraw","id":"1","session":"s1","data":{}}`, "bad_request", "message is missing"},
		{`{"type":"move","id":"1","session":"s1","data":{"message":true}}`, "bad_request", "message must be a string"},
		{`{"type":"cancel","id":"1","session":"s1","data":{"waiting":"keep"}}`, "bad_request", "waiting"},
		{`{"type":"cancel","id":"1","session":"s1"}`, "not_found", ""},
		{`{"type":"policy","id":"1","session":"s1"}`, "bad_request", "no policy"},
		{`{"type":"policy","id":"1","session":"s1","data":{"nonsense":1}}`, "bad_request", "nonsense"},
		{`{"type":"create","id":"1","data":{"access":"all"}}`, "bad_request", "access"},
		{`{"type":"create","id":"1","data":{"policy":[]}}`, "bad_request", "policy must be an object"},
		{`{"type":"follow","id":"1","session":"s1","data":{"since":-1}}`, "bad_request", "since must be a whole number"},
		{`{"type":"follow","id":"1","session":"s1","data":{"tail":1.5}}`, "bad_request", "tail must be a whole number"},
		{`{"type":"follow","id":"1","session":"nobody"}`, "not_found", ""},
		{`{"type":"seen","id":"1","session":"s1","data":{}}`, "bad_request", "seq is missing"},
		{`{"type":"typing","id":"1","session":"s1","data":{"on":1}}`, "bad_request", "on must be true or false"},
		{`{"type":"typing","id":"1","session":"s1","data":{"on":true}}`, "bad_request", "follow"},
		{`{"type":"refresh","id":"1","data":{}}`, "bad_request", "token is missing"},
		{`{"type":"refresh","id":"1","data":{"token":"t"}}`, "bad_request", "auth.mode is none"},
	} {
		c.Write(x.frame)
		f := c.Read()
		if f.Type != "error" || f.Error == nil || f.Error.Code != x.code || !strings.Contains(f.Error.Message, x.says) {
			t.Errorf("%s\n was answered %s\n want %s, naming %q", x.frame, f.Raw, x.code, x.says)
			continue
		}
		if named := strings.Contains(x.frame, `"id":"1"`) && x.code != "invalid_json"; named != (f.Re != nil) {
			t.Errorf("%s\n was answered with re: %s", x.frame, f.Raw)
		}
	}
	if n := r.metric("parley_gateway_commands_total", "type", "unknown", "code", "unknown_type"); n != 1 {
		t.Errorf("unknown_type was counted %v times", n)
	}
	_ = key
}

// Errors of the engine reach the client with their codes; foreign ones without their text.
func TestEngineErrors(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	var next error
	r.sessions.Script = func(gatewaytest.Told) (gatewaytest.Outcome, bool) { return gatewaytest.Outcome{Err: next}, true }
	c := gatewaytest.Connect(t, r.addr)
	for _, code := range []conversation.Code{
		conversation.Conflict, conversation.QuestionNotOpen, conversation.TaskNotAwaiting, conversation.SessionBusy, conversation.SessionIsClosed,
		conversation.InboxFull, conversation.Overloaded, conversation.StorageFull, conversation.Timeout, conversation.Unavailable,
	} {
		next = &conversation.Error{Code: code, Message: "says the engine", RetryAfter: 1500e6}
		f := c.Do("send", "s1", obj{"client_msg_id": "a", "text": "x"})
		if f.Error == nil || f.Error.Code != string(code) || f.Error.Message != "says the engine" || f.Error.RetryAfterMS != 1500 {
			t.Errorf("%s: %s", code, f.Raw)
		}
	}
	for _, x := range []struct {
		err  error
		code string
	}{
		{errTest, "internal"}, {conversation.ErrFull, "storage_full"}, {conversation.ErrNotFound, "not_found"}, {conversation.ErrTooNew, "unavailable"},
	} {
		next = x.err
		f := c.Do("edit", "s1", obj{"message": "m1", "text": "x"})
		if f.Error == nil || f.Error.Code != x.code || strings.Contains(string(f.Raw), "secret") {
			t.Errorf("%v became %s", x.err, f.Raw)
		}
	}
	if !strings.Contains(r.log.String(), "secret detail") {
		t.Error("the foreign error is not in the log")
	}
}

type testError struct{}

func (testError) Error() string { return "secret detail" }

var errTest = testError{}

// A repetition of long ago: the engine knows only where; the log knows what.
// PROTOCOL.md, rule 5.3.
func TestOldDuplicate(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	c := gatewaytest.Connect(t, r.addr)
	first := c.Do("send", "s1", obj{"client_msg_id": "a", "text": "x"})
	again := c.Do("send", "s1", obj{"client_msg_id": "a", "text": "x"})
	want := strings.Replace(string(first.Data), `"duplicate":false`, `"duplicate":true`, 1)
	if string(again.Data) != want {
		t.Errorf("again: %s\n want %s", again.Data, want)
	}
	if f := c.Do("send", "s1", obj{"client_msg_id": "a", "text": "y"}); f.Error == nil || f.Error.Code != "conflict" {
		t.Errorf("another text: %s", f.Raw)
	}
}

// seen and typing without an id get no answer, whatever comes of them: a refusal
// that nobody asked for would be taken for that of another command. With an id
// they are answered; while a follow is on its way typing is shown to nobody.
// PROTOCOL.md, rules 2.10, 2.11.
func TestUnnamedCommandsAreNotAnswered(t *testing.T) {
	r := start(t, withAuth(badAuth{}))
	r.sessions.Open("s1", "ann")
	r.sessions.Open("s2", "bob")
	c := gatewaytest.Dial(t, r.addr)
	c.Do("hello", "", obj{"proto": 1, "token": "good"})
	next := func(after string) {
		t.Helper()
		id := c.Send("ping", "", nil)
		if f := c.Read(); f.Re == nil || *f.Re != id {
			t.Errorf("%s\n was answered %s", after, f.Raw)
		}
	}
	for _, frame := range []string{
		`{"type":"typing","session":"s1","data":{"on":true}}`,
		`{"type":"typing","session":"s1","data":{"on":1}}`,
		`{"type":"typing","session":"s2","data":{"on":true}}`,
		`{"type":"typing","data":{"on":true}}`,
		`{"type":"seen","session":"s1","data":{}}`,
		`{"type":"seen","session":"a b","data":{"seq":1}}`,
		`{"type":"seen","id":null,"session":"s2","data":{"seq":1}}`,
	} {
		c.Write(frame)
		r.sessions.Do(func() {}) // what it asked the engine for is answered
		next(frame)
	}
	if n := r.metric("parley_gateway_commands_total", "type", "typing", "code", "bad_request"); n != 4 {
		t.Errorf("counted %v refusals of typing", n)
	}

	release := r.sessions.Hold()
	follow := c.Send("follow", "s1", obj{"since": 1})
	c.Write(`{"type":"typing","session":"s1","data":{"on":true}}`)
	next("typing while a follow is on its way")
	if f := c.Do("typing", "s1", obj{"on": true}); f.Type != "ok" {
		t.Errorf("typing while a follow is on its way: %s", f.Raw)
	}
	release()
	if f := c.Read(); f.Type != "ok" || f.Re == nil || *f.Re != follow {
		t.Errorf("%s", f.Raw)
	}
}

// A refusal for haste is no exception.
func TestUnnamedCommandsInHaste(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.CommandsPerSecond, l.CommandsBurst = 0.001, 2 }))
	c := gatewaytest.Connect(t, r.addr)
	for range 3 {
		c.Write(`{"type":"typing","session":"s1","data":{"on":true}}`)
	}
	id := c.Send("ping", "", nil)
	if f := c.Read(); f.Re == nil || *f.Re != id || f.Error == nil || f.Error.Code != "rate_limited" {
		t.Errorf("%s", f.Raw)
	}
}
