package protocol

import (
	"strings"
	"testing"
	"time"

	"parley/conversation"
)

// What a client may send, to the byte, and what it is told about anything else.
// PROTOCOL.md, sections 2 and 6.
func TestDecodeRefuses(t *testing.T) {
	limits := Limits{TextBytes: 10}
	x := func(n int) string { return strings.Repeat("x", n) }
	frame := func(s string) *conversation.Error { _, err := ReadCommand([]byte(s)); return err }
	hello := func(s string) *conversation.Error { _, err := ReadHello([]byte(s)); return err }
	create := func(s string) *conversation.Error { _, err := ReadCreate([]byte(s)); return err }
	send := func(s string) *conversation.Error { _, err := ReadSend([]byte(s), limits); return err }
	answer := func(s string) *conversation.Error { _, err := ReadAnswer([]byte(s), limits); return err }
	message := func(s string) *conversation.Error { _, err := ReadMessage("move", []byte(s)); return err }
	cancel := func(s string) *conversation.Error { _, err := ReadCancel([]byte(s)); return err }
	for _, c := range []struct {
		name string
		read func(string) *conversation.Error
		in   string
		want string // what the refusal says; "" = taken
	}{
		{"longest id", frame, `{"type":"ping","id":"` + x(maxCommandID) + `"}`, ""},
		{"too long id", frame, `{"type":"ping","id":"` + x(maxCommandID+1) + `"}`, "id must be at most 64 bytes"},
		{"no type", frame, `{"id":"1"}`, "type is missing"},
		{"data", frame, `{"type":"ping","data":{}}`, ""},
		{"data null", frame, `{"type":"ping","data":null}`, ""},
		{"data a list", frame, `{"type":"ping","data":[]}`, "data must be an object"},
		{"data a text", frame, `{"type":"ping","data":"{}"}`, "data must be an object"},
		{"a second command", frame, `{"type":"ping"}{"type":"ping"}`, "the frame is not valid JSON"},
		{"hello", hello, `{"proto":1,"caps":["deltas","later"]}`, ""},
		{"no version", hello, `{"caps":["deltas"]}`, "proto is missing"},
		{"greatest number", hello, `{"proto":9007199254740991}`, ""},
		{"too great a number", hello, `{"proto":9007199254740992}`, "proto must be a whole number of at least 0"},
		{"caps of numbers", hello, `{"proto":1,"caps":["deltas",7]}`, "caps must be a list of strings"},
		{"longest title", create, `{"title":"` + x(MaxTitle) + `"}`, ""},
		{"too long title", create, `{"title":"` + x(MaxTitle+1) + `"}`, "title must be at most 512 bytes"},
		{"title a number", create, `{"title":12345}`, "title must be a string"},
		{"longest id of a session", create, `{"client_session_id":"` + x(MaxClientMsgID) + `"}`, ""},
		{"too long id of a session", create, `{"client_session_id":"` + x(MaxClientMsgID+1) + `"}`, "client_session_id must be at most 128 bytes"},
		{"access", create, `{"access":"tenant"}`, ""},
		{"unknown access", create, `{"access":"tennant"}`, "access must be private or tenant"},
		{"longest text", send, `{"text":"` + x(10) + `"}`, ""},
		{"too long text", send, `{"text":"` + x(11) + `"}`, "text must be at most 10 bytes"},
		{"no text", send, `{}`, "text is missing"},
		{"text null", send, `{"text":null}`, "text is missing"},
		{"empty text", send, `{"text":""}`, "text must not be blank"},
		{"blank text", send, `{"text":" \n\t"}`, "text must not be blank"},
		{"longest id of a message", send, `{"text":"x","client_msg_id":"` + x(MaxClientMsgID) + `"}`, ""},
		{"too long id of a message", send, `{"text":"x","client_msg_id":"` + x(MaxClientMsgID+1) + `"}`, "client_msg_id must be at most 128 bytes"},
		{"null for what may be absent", send, `{"text":"x","client_msg_id":null,"in_reply_to":null,"mode":null}`, ""},
		{"mode", send, `{"text":"x","mode":"queue"}`, ""},
		{"unknown mode", send, `{"text":"x","mode":"que"}`, "mode must be steer, queue, collect, interrupt or reject"},
		{"answer", answer, `{"text":"` + x(10) + `"}`, ""},
		{"too long answer", answer, `{"text":"` + x(11) + `"}`, "text must be at most 10 bytes"},
		{"answer without a text", answer, `{}`, "text is missing"},
		{"too long id of an answer", answer, `{"text":"x","client_msg_id":"` + x(MaxClientMsgID+1) + `"}`, "client_msg_id must be at most 128 bytes"},
		{"edit", message, `{"message":"m1","text":"x"}`, ""},
		{"edit of no message", message, `{"text":"x"}`, "message is missing"},
		{"longest reason", cancel, `{"reason":"` + x(MaxTitle) + `","waiting":"drop"}`, ""},
		{"too long reason", cancel, `{"reason":"` + x(MaxTitle+1) + `"}`, "reason must be at most 512 bytes"},
		{"unknown waiting", cancel, `{"waiting":"dorp"}`, `waiting must be "drop" or absent`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.read(c.in)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Message, c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A wrong member does not keep the others from being read: the answer names the
// command.
func TestRefusalNamesItsCommand(t *testing.T) {
	c, err := ReadCommand([]byte(`{"session":7,"type":"send","id":"4"}`))
	if err == nil || !strings.Contains(err.Message, "session must be a string") || !c.Named || c.ID != "4" || c.Kind != "send" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Policies are kept as they were written, but for the space between their tokens.
func TestCompact(t *testing.T) {
	for in, want := range map[string]string{
		` { "a b" : [ 1 , "c  d" ] }`:             `{"a b":[1,"c  d"]}`,
		`"say \"hi  there\" "`:                    `"say \"hi  there\" "`,
		`{"a":"back\\" , "b":"\\\"  " ,"c": "" }`: `{"a":"back\\","b":"\\\"  ","c":""}`,
	} {
		if got := string(AppendCompact(nil, []byte(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// Brackets of a text are not a nesting.
func TestBracketsInText(t *testing.T) {
	text := strings.Repeat("[{", maxNesting)
	if err := ReadObject([]byte(`{"a":{"text":"`+text+`\"`+text+`"}}`), func(Member) error { return nil }); err != nil {
		t.Error(err)
	}
}

// Whatever a text is, its frame can be read; and a list is one, also if it is empty.
func TestWrittenJSON(t *testing.T) {
	for s, want := range map[string]string{
		"say \"hi\" \\": `"say \"hi\" \\"`,
		"a\x00\x1f\n":   `"a\u0000\u001f\n"`,
		"a\xffb":        `"a` + "\ufffd" + `b"`,
		"a\xe2\x82":     `"a` + "\ufffd\ufffd" + `"`,
		"é☃😀":           `"é☃😀"`,
	} {
		if got := string(AppendString(nil, s)); got != want {
			t.Errorf("%q became %s, want %s", s, got, want)
		}
	}
	for want, list := range map[string][]string{`[]`: nil, `["a"]`: {"a"}, `["a","b"]`: {"a", "b"}} {
		if got := string(appendStrings(nil, list)); got != want {
			t.Errorf("%q became %s, want %s", list, got, want)
		}
	}
	o := NewObject(nil)
	o.Text("a", "b")
	o.Uint("c", 1)
	o.Flag("d", true)
	if got := string(o.Close()); got != `{"a":"b","c":1,"d":true}` {
		t.Errorf("an object became %s", got)
	}
	for _, year := range []int{-1, 10000, 123456} {
		if got := string(appendTime(nil, time.Date(year, 2, 3, 4, 5, 6, 0, time.UTC))); got != `"9999-02-03T04:05:06.000Z"` {
			t.Errorf("the year %d became %s", year, got)
		}
	}
}
