package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/conversation"
)

// Any bytes at all: the decoder does not panic, agrees with encoding/json about
// what is JSON, and reads the same texts.
func FuzzReadCommand(f *testing.F) {
	for _, s := range []string{
		`{"type":"send","id":"4","session":"s1","data":{"client_msg_id":"a","text":"x"}}`,
		`{"type":"policy","id":"4","session":"s1","data":{"inbox.mode":"queue","x":null,"y":[1,{"z":2}]}}`,
		`{"type":"hello","id":"1","data":{"proto":1,"caps":["deltas"],"client":{"name":"n","version":"v"}}}`,
		`{"type":"\u0070ing","id":"\ud83d\ude00\ud800","data":{"t":-1.5e+3}}`,
		`{}`, `[]`, `null`, `{"a":}`, `{"a":1,}`, `{"a":01}`, `"\x"`, `{"type":"a","type":"b"}`, ` { "type" : "x" } `, `{"a":"` + "\x01" + `"}`,
	} {
		f.Add([]byte(s))
	}
	l := DefaultLimits()
	f.Fuzz(func(t *testing.T, b []byte) {
		c, bad := ReadCommand(b)
		err := ReadObject(b, func(Member) error { return nil })
		if !deep(b) && (err == nil) != (json.Valid(b) && firstByte(b) == '{') {
			t.Fatalf("%q: scan says %v, json says %v", b, err, json.Valid(b))
		}
		if errors.Is(err, errNotObject) && !json.Valid(b) {
			t.Fatalf("%q is not JSON", b)
		}
		if bad == nil && utf8.Valid(b) {
			var want struct{ Type string }
			var members map[string]json.RawMessage
			_ = json.Unmarshal(b, &members)
			if json.Unmarshal(members["type"], &want.Type) == nil && want.Type != c.Kind {
				t.Fatalf("%q: type %q, want %q", b, c.Kind, want.Type)
			}
		}
		// Every decoder of data takes anything.
		_, _ = ReadHello(c.Data)
		_, _ = ReadCreate(c.Data)
		_, _ = ReadFollow(c.Data)
		_, _ = ReadSend(c.Data, l)
		_, _ = ReadAnswer(c.Data, l)
		_, _ = ReadMessage("move", c.Data)
		_, _ = ReadCancel(c.Data)
		if c.Data != nil {
			o, err := ReadOverrides(c.Data)
			for _, v := range o {
				if err == nil && v != nil && !json.Valid(v) {
					t.Fatalf("%q: policy %q", b, v)
				}
			}
		}
	})
}

func firstByte(b []byte) byte {
	if b = bytes.TrimLeft(b, " \t\r\n"); len(b) > 0 {
		return b[0]
	}
	return 0
}

// Of a name that comes twice the last one counts, in the frame and in its data: a
// client of version 1 that sends one is answered as it always was.
func TestRepeatedNames(t *testing.T) {
	c, bad := ReadCommand([]byte(`{"id":"0","type":"send","id":"1","session":"s","data":{"a":1},"data":{"text":"x","text":"y","client_msg_id":"k","z":[{"b":1,"\u0062":2}]}}`))
	if bad != nil || c.Kind != "send" || c.ID != "1" {
		t.Fatalf("%+v, %v", c, bad)
	}
	if d, bad := ReadSend(c.Data, DefaultLimits()); bad != nil || d.Text == nil || *d.Text != "y" {
		t.Errorf("%+v, %v", d, bad)
	}
	if o, err := ReadOverrides([]byte(`{"inbox.mode":"queue","inbox.mode":"steer"}`)); err != nil || string(o["inbox.mode"]) != `"steer"` {
		t.Errorf("%v, %v", o, err)
	}
	// What is wrong about the first one is said all the same.
	if _, bad := ReadSend([]byte(`{"text":1,"text":"y","client_msg_id":"k"}`), DefaultLimits()); bad == nil || bad.Code != conversation.BadRequest {
		t.Errorf("%v", bad)
	}
}

// deep is true for values that we refuse for their nesting and encoding/json does not.
func deep(b []byte) bool {
	n, most := 0, 0
	for _, c := range b {
		switch c {
		case '{', '[':
			n++
			most = max(most, n)
		case '}', ']':
			n--
		}
	}
	return most > maxNesting/2
}

func TestNesting(t *testing.T) {
	nest := func(n int) []byte {
		b := []byte(`{"a":`)
		for range n {
			b = append(b, '[')
		}
		for range n {
			b = append(b, ']')
		}
		return append(b, '}')
	}
	if err := ReadObject(nest(maxNesting-1), func(Member) error { return nil }); err != nil {
		t.Errorf("%d levels: %v", maxNesting-1, err)
	}
	if err := ReadObject(nest(maxNesting+2), func(Member) error { return nil }); err == nil {
		t.Error("any depth is taken")
	}
	// What is no object is refused for its depth first, too.
	list := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if err := ReadObject(list(maxNesting), func(Member) error { return nil }); !errors.Is(err, errNotObject) {
		t.Errorf("a list of %d levels: %v", maxNesting, err)
	}
	if err := ReadObject(list(maxNesting+1), func(Member) error { return nil }); !errors.Is(err, errJSON) {
		t.Errorf("a list of %d levels: %v", maxNesting+1, err)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`plain`: "plain", `a\"b\\c\/d`: `a"b\c/d`, `\b\f\n\r\t`: "\b\f\n\r\t", `\u00e9`: "é", `\ud83d\ude00`: "😀",
		`\ud83d`: "\ufffd", `\ud83dx`: "\ufffdx", `\ude00\ud83d`: "\ufffd\ufffd", `\ud83d\u0041`: "\ufffdA",
	} {
		if got := string(unquote([]byte(`"` + in + `"`))); got != want {
			t.Errorf("%s became %q, want %q", in, got, want)
		}
	}
}
