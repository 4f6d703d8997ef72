package agui

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/conversation"
)

// What is read of an input is what may be done with it, and nothing that comes in breaks it.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		`{"threadId":"t","runId":"r","messages":[]}`,
		`{"threadId":"t","runId":"r","parentRunId":"p","state":{"a":1},"messages":[{"id":"1","role":"system","content":"Be kind"},{"id":"2","role":"user","content":"Hello"}],"tools":[{"name":"a","description":"b","parameters":{"type":"object"}}],"context":[{"description":"a","value":"b"}],"forwardedProps":{"x":1}}`,
		`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","value":"x"}},{"type":"document","source":{"type":"file","provider":"parley","value":"` + strings.Repeat("ab", 32) + `"},"metadata":{"filename":"a.pdf"}}]}]}`,
		`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"id":"2","role":"tool","toolCallId":"c","content":"12","error":"no"},{"id":"3","role":"activity","activityType":"x","content":{"a":1}}]}`,
		`{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"q1","status":"resolved","payload":{"approved":true,"editedArgs":{"a":1}}},{"interruptId":"q2","status":"cancelled"}],"forwardedProps":{"parley":{"mode":"steer","snapshot":false}}}`,
		`{"threadId":"t","runId":"r","messages":null,"forwardedProps":null}`, `[]`, `{"messages":[null]}`, `{"forwardedProps":{"parley":{"mode":"x"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := readInput(b)
		if err != nil {
			if e := conversation.AsError(err); e.Code != conversation.BadRequest && e.Code != conversation.InvalidJSON || e.Message == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if in.ThreadID == "" || in.RunID == "" || in.Forwarded.Mode == conversation.ModeDefault {
			t.Fatalf("%+v", in)
		}
		for _, m := range in.said() {
			if m.Role != "user" || m.ID == "" {
				t.Fatalf("%+v", m)
			}
		}
		for i := range in.Messages {
			if m := &in.Messages[i]; !json.Valid(m.Raw) || strings.TrimSpace(m.result()) == "" {
				t.Fatalf("%+v", m)
			}
		}
		for _, e := range in.Resume {
			for _, approval := range []bool{true, false} {
				if text, err := e.answer(approval); e.Status == resolved && err == nil && text == "" && string(e.Payload) != `""` {
					t.Fatalf("%s is nothing", e.Payload)
				}
			}
		}
		in.instructions()
		h := plays["several_texts"].history(true)
		list, all := []byte(nil), h.snapshots(in.Messages)
		for _, list = range all {
			if !json.Valid(list) || strings.Contains(string(list), "\n") {
				t.Fatalf("%s", list)
			}
		}
	})
}

// The answers to interrupts, as sessions take them.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		payload  string
		approval bool
		want     string
	}{
		{`"JWT"`, false, `JWT`}, {`{"city": "Oslo"}`, false, `{"city":"Oslo"}`}, {`12`, false, `12`}, {`true`, false, `true`},
		{`{"approved":true}`, true, `{"approve":true}`}, {`{"approved":false,"editedArgs":{"a":1}}`, true, `{"approve":false}`},
		{`{"approved":true,"editedArgs":{"a":9007199254740993}}`, true, `{"approve":true,"args":{"a":9007199254740993}}`},
		{`{"approve":true,"args":{"a":1}}`, true, `{"approve":true,"args":{"a":1}}`}, {`true`, true, `{"approve":true}`}, {`"yes"`, true, `yes`},
		{`{}`, true, ""}, {`[]`, true, ""}, {`12`, true, ""},
	} {
		e := resumeEntry{InterruptID: "q1", Status: resolved, Payload: json.RawMessage(c.payload)}
		got, err := e.answer(c.approval)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q %v, want %q", c.payload, got, err, c.want)
		}
	}
}

// What a client's tool has returned, as the model reads it.
func TestResults(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{`{"id":"1","role":"tool","content":"12"}`, "12"},
		{`{"id":"1","role":"tool","content":" {\"a\": 1}\n"}`, " {\"a\": 1}\n"},
		{`{"id":"1","role":"tool","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","value":"x"}},{"type":"text","text":"b"}]}`, "ab"},
		{`{"id":"1","role":"tool","content":"","error":"no network"}`, "error: no network"},
		{`{"id":"1","role":"tool","content":"half","error":"no network"}`, "error: no network\nhalf"},
		{`{"id":"1","role":"tool","content":""}`, `""`},
		{`{"id":"1","role":"tool"}`, `""`},
	} {
		var m message
		if err := json.Unmarshal([]byte(c.message), &m); err != nil || m.result() != c.want {
			t.Errorf("%s: %q %v, want %q", c.message, m.result(), err, c.want)
		}
	}
}
