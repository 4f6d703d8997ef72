package a2a

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"
)

// Requests are read in both spellings of their members, and what is not known is ignored.
func TestReadSending(t *testing.T) {
	plain := sending{history: all, message: message{id: "u1", text: "Hello"}}
	for _, test := range []struct {
		name, params string
		want         func(r *sending)
	}{
		{"a text", `{"message":{"messageId":"u1","parts":[{"text":"Hello"}]}}`, func(*sending) {}},
		{"all of it", `{"tenant":"developer","message":{"messageId":"u1","contextId":"c","taskId":"t","role":"ROLE_USER","parts":[{"text":"Hello"}],
			"metadata":{"parley":{"mode":"steer","question":"q1"}},"extensions":["x"],"referenceTaskIds":["t"]},
			"configuration":{"acceptedOutputModes":["image/png","Text/Plain; charset=utf-8"],"historyLength":3,"returnImmediately":true,"taskPushNotificationConfig":null},"metadata":{"a":1}}`,
			func(r *sending) {
				r.tenant, r.history, r.now = "developer", 3, true
				r.message.context, r.message.task, r.message.mode, r.message.question = "c", "t", "steer", "q1"
			}},
		{"as the definition spells it", `{"message":{"message_id":"u1","context_id":"c","task_id":"t","role":1,"parts":[{"text":"Hello","media_type":"text/markdown"}]},
			"configuration":{"accepted_output_modes":["*/*"],"history_length":0,"return_immediately":true}}`,
			func(r *sending) { r.history, r.now, r.message.context, r.message.task = 0, true, "c", "t" }},
		{"what is absent", `{"tenant":null,"message":{"messageId":"u1","contextId":null,"role":null,"parts":[{"text":"Hello","raw":null,"mediaType":null}],"metadata":null},"configuration":null}`, func(*sending) {}},
		{"what is not known", `{"new":1,"message":{"new":{},"messageId":"u1","parts":[{"text":"Hello","new":[1]}],"metadata":{"new":1,"parley":{"new":2}}},"configuration":{"new":3}}`, func(*sending) {}},
		{"several parts", `{"message":{"messageId":"u1","parts":[{"text":"Hello"},{"data":{"a": [1, null]}},{"text":"x","mediaType":"application/json"},{"data":null}]}}`,
			func(r *sending) { r.message.text = "Hello\n{\"a\":[1,null]}\nx\nnull" }},
		{"a file alone", `{"message":{"messageId":"u1","parts":[{"raw":"_-8","mediaType":"text/plain","filename":"a"}]}}`,
			func(r *sending) {
				r.message.text, r.message.files = "", []file{{name: "a", kind: "text/plain", body: []byte{0xff, 0xef}}}
			}},
		{"parts twice", `{"message":{"messageId":"u1","parts":[{"text":"No"}],"parts":[{"text":"Hello"}]}}`, func(*sending) {}},
	} {
		want := plain
		test.want(&want)
		got, err := readSending([]byte(test.params), "params")
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, %v; want %+v", test.name, got, err, want)
		}
	}
}

func TestReadListing(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 5e8, time.UTC)
	for _, test := range []struct {
		params string
		want   listing
	}{
		{`null`, listing{}},
		{`{"status":0,"pageToken":"","statusTimestampAfter":null,"pageSize":null}`, listing{}},
		{`{"tenant":"a","contextId":"c","status":"TASK_STATE_WORKING","pageSize":100,"pageToken":"p","historyLength":2,"statusTimestampAfter":"2026-01-31T12:00:00.5Z","includeArtifacts":true}`,
			listing{tenant: "a", context: "c", status: []conversation.TaskStatus{conversation.TaskRunning}, size: 100, token: "p", history: 2, since: at, artifacts: true}},
		{`{"context_id":"c","page_size":1,"page_token":"p","history_length":2,"status_timestamp_after":"2026-01-31T13:00:00.5+01:00","include_artifacts":false}`,
			listing{context: "c", size: 1, token: "p", history: 2, since: at}},
	} {
		got, err := readListing([]byte(test.params))
		if err != nil || !got.since.Equal(test.want.since) {
			t.Fatalf("%s: %+v, %v", test.params, got, err)
		}
		got.since = test.want.since
		if !reflect.DeepEqual(*got, test.want) {
			t.Errorf("%s: %+v, want %+v", test.params, *got, test.want)
		}
	}
}

// A client id is what the client calls its message, as long as that fits. What is too long has the
// same id each time, and another than any other.
func TestClientID(t *testing.T) {
	long := strings.Repeat("x", 125)
	for id, want := range map[string]string{"u1": "a2a:u1", long[:124]: "a2a:" + long[:124]} {
		if got := clientID(id); string(got) != want {
			t.Errorf("%q is %q, want %q", id, got, want)
		}
	}
	if got := clientID(long); len(got) > protocol.MaxClientMsgID || got != clientID(long) || got == clientID(long+"x") {
		t.Errorf("%q is %q", long, got)
	}
}

// refused is true for an error that a client may be told.
func refused(err error) bool {
	var own *failure
	var engine *conversation.Error
	return errors.As(err, &own) || errors.As(err, &engine) && (engine.Code == conversation.BadRequest || engine.Code == conversation.InvalidJSON)
}

// Whatever comes is read or refused, and what was read is what it says.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		`{"message":{"messageId":"u1","contextId":"c","taskId":"t","role":"ROLE_USER","parts":[{"text":"Hello"},{"data":{"a":1}},{"raw":"dGNr","mediaType":"text/plain"}],"metadata":{"parley":{"mode":"steer"}}},"configuration":{"acceptedOutputModes":["text/plain"],"historyLength":1,"returnImmediately":true}}`,
		`{"id":"t1-S","historyLength":2,"tenant":"developer"}`, `{"taskId":"t1-S","id":"a","url":"https://a.example/","token":"t","authentication":{"scheme":"Bearer","credentials":"c"}}`, `{"contextId":"c","status":"TASK_STATE_WORKING","pageSize":5,"pageToken":"x","statusTimestampAfter":"2026-01-31T12:00:00Z"}`,
		`{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{"id":"t1-S"}}`, `[]`, `null`, `{"message":{"parts":[{}]}}`, `{"message":{"messageId":"\ud800","parts":[{"text":"\u0000"}]}}`, `{"id":1e999}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !utf8.Valid(b) {
			return // refused before
		}
		s, err := readSending(b, "params")
		switch {
		case err != nil && !refused(err):
			t.Errorf("a message: %v", err)
		case err == nil && (s.message.id == "" || s.message.text == "" && len(s.message.files) == 0 || !utf8.ValidString(s.message.text) || s.history < all):
			t.Errorf("a message: %+v", s)
		}
		if a, err := readAsked(b); err != nil && !refused(err) || err == nil && (a.task == "" || a.history < all) {
			t.Errorf("what is asked: %+v, %v", a, err)
		}
		if l, err := readListing(b); err != nil && !refused(err) || err == nil && (l.size < 0 || l.size > maxPageSize || l.history < 0 || len(l.status) > 1) {
			t.Errorf("a list: %+v, %v", l, err)
		}
		if err := (&pushing{}).read(b, "params"); err != nil && !refused(err) {
			t.Errorf("a configuration: %v", err)
		}
		if _, err := readTenant(b); err != nil && !refused(err) {
			t.Errorf("a tenant: %v", err)
		}
		c, err := readCall(b)
		if err != nil && !refused(err) || err == nil && (c.method == "" || c.id == nil) || len(c.id) > maxCallID {
			t.Errorf("a call: %+v, %v", c, err)
		}
		if answer := appendAnswer(nil, c.id, "result", func(dst []byte) []byte { return append(dst, "{}"...) }); !protocol.ValidJSON(answer) {
			t.Errorf("its answer is %s", answer)
		}
	})
}

// What a client has chosen the names of does not break what it is told.
func FuzzNames(f *testing.F) {
	f.Add("mine", "u1", "Hello", "2026", "1")
	f.Fuzz(func(t *testing.T, context, id, text, query, version string) {
		p := here
		p.context = context
		tale := newTale(p)
		of(play{accepted("m1-S", ours+id, text, conversation.Started)}, ends).into(tale)
		if task := tale.appendTask(nil, view{history: all, artifacts: true}); !protocol.ValidJSON(task) {
			t.Errorf("the task is %s", task)
		}
		l := &listing{}
		for _, name := range []string{"contextId", "status", "pageSize", "pageToken", "historyLength", "statusTimestampAfter", "includeArtifacts"} {
			if err := l.query(name, query); err != nil && !refused(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := checkVersion(version); err != nil && !refused(err) {
			t.Errorf("%q: %v", version, err)
		}
	})
}
