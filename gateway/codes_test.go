package gateway_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"

	"github.com/coder/websocket"
)

// refusal is an error as a client sees it, over either way in.
type refusal struct {
	code      string
	retryable bool
	status    int // 0 over WebSocket
}

func (a answer) refusal(t *testing.T) refusal {
	t.Helper()
	return refusal{a.get(t, "code"), a.get(t, "retryable") == "true", a.status}
}

// refuses makes the engine refuse everything with err.
func (r *rig) refuses(err error) {
	r.sessions.Do(func() {
		r.sessions.Script = func(gatewaytest.Told) (gatewaytest.Outcome, bool) { return gatewaytest.Outcome{Err: err}, true }
	})
}

// Every row of the protocol's error codes is produced, with the status and the
// advice of the document. Those of the engine ("engine") come from a script:
// when it says them is the machine's own tests' business (testdata/*.txt).
// PROTOCOL.md, rules 6.4, 7.2.
func TestErrorCodes(t *testing.T) {
	const messages, hi = "/api/sessions/s1/messages", `{"text":"hi","client_msg_id":"a"}`
	post := func(path, body string, headers ...string) func(*testing.T, *rig) refusal {
		return func(t *testing.T, r *rig) refusal { return r.call("POST", path, body, headers...).refusal(t) }
	}
	get := func(path string, headers ...string) func(*testing.T, *rig) refusal {
		return func(t *testing.T, r *rig) refusal { return r.call("GET", path, "", headers...).refusal(t) }
	}
	say := func(frame string) func(*testing.T, *rig) refusal {
		return func(t *testing.T, r *rig) refusal {
			c := gatewaytest.Connect(t, r.addr)
			c.Write(frame)
			f := c.Until(func(f gatewaytest.Frame) bool { return f.Type == "error" })
			return refusal{f.Error.Code, f.Error.Retryable, 0}
		}
	}
	hello := func(data obj) func(*testing.T, *rig) refusal {
		return func(t *testing.T, r *rig) refusal {
			f := gatewaytest.Dial(t, r.addr).Do("hello", "", data)
			return refusal{f.Error.Code, f.Error.Retryable, 0}
		}
	}
	const send = `{"type":"send","id":"1","session":"s1","data":{"client_msg_id":"a","text":"hi"}}`
	type row struct {
		code, where string
		setup       []setup
		provoke     func(t *testing.T, r *rig) refusal
	}
	rows := []row{
		{"bad_request", "http", nil, post(messages, `{}`)},
		{"bad_request", "ws", nil, say(`{"type":"ping"}`)},
		{"invalid_json", "http", nil, post(messages, `{`)},
		{"invalid_json", "ws", nil, say(`{`)},
		{"unknown_type", "ws", nil, say(`{"type":"dance","id":"1"}`)},
		{"unauthenticated", "http", []setup{withAuth(badAuth{})}, get("/api/sessions")},
		{"unauthenticated", "ws", []setup{withAuth(badAuth{})}, hello(obj{"proto": 1})},
		{"token_expired", "http", []setup{withAuth(badAuth{})}, get("/api/sessions", "Authorization", "Bearer old")},
		{"token_expired", "ws", []setup{withAuth(badAuth{})}, hello(obj{"proto": 1, "token": "old"})},
		{"forbidden", "http, origin", nil, get("/api/sessions", "Origin", "http://evil.example")},
		{"forbidden", "http, scope", []setup{withAuth(badAuth{})}, post("/api/sessions/s1/parts", `{"text":"x"}`, "Authorization", "Bearer good")},
		{"forbidden", "http, delegation", nil, post("/api/sessions/s1%2Fd1/messages", hi)},
		{"forbidden", "ws", nil, say(strings.Replace(send, "s1", "s1/d1", 1))},
		{"not_found", "http", nil, get("/api/sessions/nobody")},
		{"not_found", "ws", nil, say(strings.Replace(send, "s1", "nobody", 1))},
		{"method_not_allowed", "http", nil, func(t *testing.T, r *rig) refusal { return r.call("PUT", "/api/sessions", "").refusal(t) }},
		{"conflict", "http, task", nil, func(t *testing.T, r *rig) refusal {
			r.call("POST", messages, hi).want(t, 202)
			r.call("POST", "/api/tasks/t1-s1/cancel", "").want(t, 202)
			return post("/api/tasks/t1-s1/cancel", "")(t, r)
		}},
		{"task_not_awaiting", "http", nil, func(t *testing.T, r *rig) refusal {
			r.call("POST", messages, hi).want(t, 202)
			return post("/api/tasks/t1-s1/reply", `{"reply":"x"}`)(t, r)
		}},
		{"too_large", "http, body", []setup{limits(func(l *gateway.Limits) { l.BodyBytes = 1000 })}, post(messages, strings.Repeat("x", 2000))},
		{"too_large", "http, text", []setup{limits(func(l *gateway.Limits) { l.TextBytes = 1 })}, post(messages, hi)},
		{"too_large", "ws, text", []setup{limits(func(l *gateway.Limits) { l.TextBytes = 1 })}, say(send)},
		{"too_large", "ws, frame", []setup{limits(func(l *gateway.Limits) { l.FrameBytes, l.TextBytes = 1000, 1000 })}, say(`{"type":"ping","id":"` + strings.Repeat("x", 2000) + `"}`)},
		{"unsupported_media_type", "http", nil, post(messages, hi, "Content-Type", "text/plain")},
		{"upgrade_required", "http", nil, get("/ws")},
		{"rate_limited", "ws", []setup{limits(func(l *gateway.Limits) { l.CommandsPerSecond, l.CommandsBurst = 0.001, 1 })}, say(`{"type":"ping","id":"1"}`)},
		{"internal", "http", []setup{func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = panicking{} }}, get("/api/sessions")},
		{"overloaded", "http, streams", []setup{limits(func(l *gateway.Limits) { l.Streams = 1 })}, func(t *testing.T, r *rig) refusal {
			_, end := r.streamOf("/api/sessions/s1/stream")
			defer end()
			return get("/api/sessions/s1/stream")(t, r)
		}},
		{"overloaded", "ws, connections", []setup{limits(func(l *gateway.Limits) { l.ConnectionsPerUser = 1 })}, func(t *testing.T, r *rig) refusal {
			gatewaytest.Connect(t, r.addr)
			return hello(obj{"proto": 1})(t, r)
		}},
		{"unavailable", "http", nil, func(t *testing.T, r *rig) refusal {
			r.server.Announce()
			return get("/readyz")(t, r)
		}},
		{"timeout", "http", []setup{times(func(x *gateway.Times) { x.Request = 20 * time.Millisecond })}, func(t *testing.T, r *rig) refusal {
			defer r.sessions.Hold()()
			return post(messages, hi)(t, r)
		}},
	}
	fromEngine := map[string]error{"internal": errTest, "storage_full": conversation.ErrFull, "unavailable": conversation.ErrFenced}
	for _, code := range []conversation.Code{
		conversation.Conflict, conversation.QuestionNotOpen, conversation.SessionBusy, conversation.SessionIsClosed,
		conversation.InboxFull, conversation.Overloaded, conversation.Timeout,
	} {
		fromEngine[string(code)] = conversation.Errorf(code, "says the engine")
	}
	for code, err := range fromEngine {
		for where, provoke := range map[string]func(*testing.T, *rig) refusal{"http": post(messages, hi), "ws": say(send)} {
			rows = append(rows, row{code, where + ", engine", nil, func(t *testing.T, r *rig) refusal {
				r.refuses(err)
				return provoke(t, r)
			}})
		}
	}

	type line struct {
		status    int
		retryable bool
	}
	documented := make(map[string]line)
	for _, x := range rowsOf(t, "x-error-codes") {
		status, _ := strconv.Atoi(fmt.Sprint(x["status"]))
		documented[fmt.Sprint(x["code"])] = line{status, x["retryable"] == true}
	}
	produced := make(map[string]bool)
	for _, x := range rows {
		produced[x.code] = true
		t.Run(x.code+"/"+x.where, func(t *testing.T) {
			r := start(t, x.setup...)
			r.sessions.Open("s1", "local")
			r.sessions.Open("s1/d1", "local")
			got := x.provoke(t, r)
			want := refusal{x.code, documented[x.code].retryable, documented[x.code].status}
			if strings.HasPrefix(x.where, "ws") {
				want.status = 0
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	if have, want := slices.Sorted(maps.Keys(produced)), slices.Sorted(maps.Keys(documented)); !slices.Equal(have, want) {
		t.Errorf("produced here   %v\nof the document %v", have, want)
	}
}

// rowsOf is a table of asyncapi.yaml.
func rowsOf(t *testing.T, name string) (rows []map[string]any) {
	t.Helper()
	list, _ := gatewaytest.Documents(t).Async[name].([]any)
	for _, x := range list {
		row, _ := x.(map[string]any)
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return rows
}

// Every row of the protocol's close codes has a test that names it. 1000 and 1001
// are the client's own: the server gives them back.
func TestCloseCodesAreTested(t *testing.T) {
	elsewhere := map[string]string{ // than in TestCloseCodes
		"1002": "TestFraming", "4003": "TestHeartbeat", "4004": "TestBlockedWrite", "4006": "TestConnectionLimits", "4504": "TestConnectionLimits",
	}
	given := map[string]websocket.StatusCode{"1000": websocket.StatusNormalClosure, "1001": websocket.StatusGoingAway}
	for _, x := range rowsOf(t, "x-close-codes") {
		code := fmt.Sprint(x["code"])
		if status, ok := given[code]; ok {
			r := start(t)
			if err := gatewaytest.Connect(t, r.addr).WS.Close(status, ""); err != nil {
				t.Errorf("%s: %v", code, err)
			}
			waitFor(t, func() bool { return r.metric("parley_gateway_closes_total", "code", code) == 1 })
			continue
		}
		test := elsewhere[code]
		if test == "" {
			test = "TestCloseCodes"
		}
		if !strings.Contains(testText(t, test), code) {
			t.Errorf("%s does not produce %s", test, code)
		}
	}
}

// testText is the source of a test of this package.
func testText(t *testing.T, name string) string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, body, found := strings.Cut(string(text), "\nfunc "+name+"("); found {
			body, _, _ = strings.Cut(body, "\n}\n")
			return body
		}
	}
	t.Fatalf("there is no %s", name)
	return ""
}
