package uistream

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"
)

// The message that a request is about: the last one; that which messageId names, if the client
// goes on with it; the one that stands alone.
func TestTheMessageThatCounts(t *testing.T) {
	const three = `"messages":[{"id":"u1","role":"user"},{"id":"a1","role":"assistant"},{"id":"u2","role":"user"}]`
	for _, x := range []struct{ body, want string }{
		{`{"id":"c",` + three + `}`, "u2"},
		{`{"id":"c","messageId":"a1",` + three + `}`, "a1"},
		{`{"id":"c","messageId":null,` + three + `}`, "u2"},
		{`{"id":"c","messageId":"gone",` + three + `}`, "u2"},
		{`{"id":"c","messageId":"a1","trigger":"regenerate-message",` + three + `}`, "u2"},
		{`{"id":"c","message":{"id":"u3","role":"user"},` + three + `}`, "u3"},
		{`{"id":"c","message":null,` + three + `}`, "u2"},
	} {
		r, err := readRequest([]byte(x.body))
		if err != nil || r.last.ID != x.want {
			t.Errorf("%s: %+v %v, want %s", x.body, r, err, x.want)
		}
	}
}

// The result of a client's tool comes back from the log as the value that it was.
func TestResults(t *testing.T) {
	for _, x := range []struct{ output, text string }{
		{`{"a": [1, "x"]}`, `{"a":[1,"x"]}`}, {`"plain words"`, `plain words`}, {`12`, `12`}, {`"12"`, `"12"`}, {`true`, `true`}, {`"true"`, `"true"`},
		{`null`, `null`}, {``, `null`}, {`""`, `""`}, {`"{\"a\":1}"`, `"{\"a\":1}"`}, {`"  "`, `  `},
	} {
		p := &uiPart{State: outputAvailable, Output: json.RawMessage(x.output)}
		got := result(p)
		if got != x.text {
			t.Errorf("%s becomes %s, want %s", x.output, got, x.text)
		}
		var was, is any
		_ = json.Unmarshal([]byte(x.output), &was)
		if err := json.Unmarshal([]byte(value(got, true)), &is); err != nil || !same(was, is) {
			t.Errorf("%s comes back as %s: %v", x.output, value(got, true), err)
		}
	}
	if got := result(&uiPart{State: outputError, ErrorText: "no\nweather"}); got != `{"error":"no\nweather"}` {
		t.Errorf("a failure becomes %s", got)
	}
}

func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// Ids of clients are kept as they are, if they are short enough; longer ones are told apart all the same.
func TestClientIDs(t *testing.T) {
	long := strings.Repeat("x", 126)
	for id, whole := range map[string]bool{"u1": true, long[1:]: true, long: false, long + "y": false} {
		got := clientID(ours, id)
		if len(got) > protocol.MaxClientMsgID || (string(got) == ours+id) != whole {
			t.Errorf("%s becomes %s", id, got)
		}
	}
	if clientID(ours, long) == clientID(ours, long+"y") {
		t.Error("two ids are the same")
	}
}

// Whatever comes, what is read of it is bounded and valid; else it is refused with a code.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"id":"c1","trigger":"submit-message","messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"Hello"}]}]}`,
		`{"id":"c1","messageId":"a-t1-S","messages":[{"id":"a-t1-S","role":"assistant","parts":[{"type":"step-start"},{"type":"tool-x","toolCallId":"c1","state":"output-available","output":{"a":1}}]}]}`,
		`{"id":"c1","message":{"role":"assistant","parts":[{"type":"dynamic-tool","toolCallId":"c1","state":"approval-responded","approval":{"id":"q1","approved":false}}]},"answer":{"question":"q1","text":"x"}}`,
		`{"id":"c1","mode":"steer","tools":[{"name":"x"}],"messages":[{"role":"user","parts":[{"type":"file","url":"data:text/plain;base64,aGk=","mediaType":"text/plain"}]}]}`,
		`{"id":"c1","messages":[{"role":"user","parts":[{"type":"file","url":"/api/blobs/` + strings.Repeat("a", 64) + `?session=S"}]}]}`,
		`[`, `{}`, `null`, `{"id":"` + strings.Repeat("[", 200),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := readRequest(body)
		if err != nil {
			if err.Code != conversation.BadRequest && err.Code != conversation.InvalidJSON || err.Message == "" {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if r.ID == "" || len(r.ID) > protocol.MaxID || r.last.Role != "user" && r.last.Role != "assistant" {
			t.Fatalf("%+v was read", r)
		}
		if id := clientID(ours, r.last.ID); len(id) > protocol.MaxClientMsgID {
			t.Fatalf("the id is %d bytes", len(id))
		}
		files, _ := r.last.files()
		for _, f := range files {
			if f.body == nil && !f.named.Hash.Valid() || f.body != nil && len(f.body) == 0 {
				t.Fatalf("%+v was read", f)
			}
		}
		for i := range r.last.Parts {
			p := &r.last.Parts[i]
			if text := result(p); utf8.Valid(body) && !json.Valid([]byte(value(text, true))) {
				t.Fatalf("the result %q of %s is no value", text, p.Output)
			}
			_, _, _ = given(conversation.View{}, p)
		}
	})
}
