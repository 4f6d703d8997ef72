package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// A program over HTTP brings a tool, finds the call that it is to run and the question for
// its result, and answers it after the server was killed and came back. The socket of another
// client sees the same, and a plain message from there is no result.
func TestCallersToolOverHTTP(t *testing.T) {
	data := t.TempDir()
	l := spawn(t, data)
	want := func(status int, method, path, body string, into any) {
		t.Helper()
		got, answer := l.do(method, path, body)
		if got != status {
			t.Fatalf("%s %s: %d %s", method, path, got, answer)
		}
		if into != nil {
			if err := json.Unmarshal(answer, into); err != nil {
				t.Fatalf("%s %s: %s: %v", method, path, answer, err)
			}
		}
	}
	want(400, "POST", "/api/sessions", `{"policy":{"tools.caller":[{"name":"askUser"}]}}`, nil)
	var made struct{ Session string }
	want(201, "POST", "/api/sessions", `{"policy":{"instructions":"Be brief.","tools.caller":[{"name":"get_weather","description":"The weather of a city",
		"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]}}`, &made)
	at := "/api/sessions/" + made.Session
	u := l.user()
	u.follow(made.Session, 0)
	want(202, "POST", at+"/messages", `{"text":"/tool get_weather {\"city\":\"Oslo\"}\n/say It is $result","client_msg_id":"1"}`, nil)
	events := u.until(func(f frame) bool { return f.Type == "task_status" && f.text("new_status") == "AWAITING_RESPONSE" })
	if calls := of(events, "tool_started"); len(calls) != 1 || calls[0].text("tool") != "get_weather" || calls[0].Data["caller"] != true || calls[0].Data["deadline"] != nil {
		t.Fatalf("%s", shown(events))
	}

	l.kill()
	l = spawn(t, data)
	var open struct {
		Items []struct{ Question, Text, Call string }
	}
	want(200, "GET", at+"/questions", "", &open)
	if len(open.Items) != 1 || open.Items[0].Question != of(events, "question")[0].text("question") || open.Items[0].Call != "c1" || strings.Contains(open.Items[0].Text, "Oslo") {
		t.Fatalf("%+v, before the kill %s", open, shown(of(events, "question")))
	}
	var call struct {
		Tool, Status string
		Args         struct{ City string }
		Caller       bool
	}
	want(200, "GET", at+"/calls/c1", "", &call)
	if call.Tool != "get_weather" || call.Args.City != "Oslo" || !call.Caller || call.Status != "" {
		t.Errorf("%+v", call)
	}
	u = l.user()
	u.follow(made.Session, len(durable(events))+1)
	if said := u.send(made.Session, "2", "/say Hello"); said["disposition"] != "started" {
		t.Errorf("a plain message beside it is %v", said)
	}
	answer := at + "/questions/" + open.Items[0].Question + "/answer"
	want(400, "POST", answer, `{"text":"","client_msg_id":"3"}`, nil)
	want(200, "POST", answer, `{"text":"{\"degrees\": 12, \"sky\": \"<wet> & \\\"grey\\\"\"}","client_msg_id":"3"}`, nil)
	want(200, "POST", answer, `{"text":"{\"degrees\": 12, \"sky\": \"<wet> & \\\"grey\\\"\"}","client_msg_id":"3"}`, nil)
	want(409, "POST", answer, `{"text":"another","client_msg_id":"4"}`, nil)
	var texts []string
	for range 2 {
		texts = append(texts, of(u.until(done), "response")[0].text("text"))
	}
	if got := strings.Join(texts, "|"); !strings.Contains(got, "Hello") || !strings.Contains(got, `It is {"degrees": 12, "sky": "<wet> & \"grey\""}`) {
		t.Errorf("the answers are %q", texts)
	}
	l.stop()
}
