package acp

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/service"
)

// Links stand where they stood, what is embedded stands behind the words, and nothing in it ends its fence.
func TestPromptText(t *testing.T) {
	for _, x := range []struct{ blocks, want string }{
		{`[]`, ""},
		{`[{"type":"text","text":"a "},{"type":"text","text":"b"}]`, "a b"},
		{`[{"type":"text","text":"see "},{"type":"resource_link","name":"main.go","uri":"file:///w/main.go"},{"type":"text","text":" please"}]`, "see [main.go](file:///w/main.go) please"},
		{`[{"type":"resource_link","uri":"file:///w/a.go"}]`, "[a.go](file:///w/a.go)"},
		{`[{"type":"text","text":"fix "},{"type":"resource","resource":{"uri":"file:///w/a.md","text":"x\n` + "```" + `\n"}},{"type":"text","text":"!"}]`, "fix [a.md](file:///w/a.md)!\n\nfile:///w/a.md\n````\nx\n```\n````"},
		{`[{"type":"resource","resource":{"uri":"u","text":""}}]`, "[u](u)\n\nu\n```\n\n```"},
	} {
		var blocks []block
		if err := json.Unmarshal([]byte(x.blocks), &blocks); err != nil {
			t.Fatal(err)
		}
		if got, bad := promptText(blocks); bad != nil || got != x.want {
			t.Errorf("%s: %q, %v; want %q", x.blocks, got, bad, x.want)
		}
	}
	for _, bad := range []string{`[{"type":"audio"}]`, `[{"type":""}]`, `[{"type":"resource"}]`, `[{"type":"` + strings.Repeat("x", 1000) + `"}]`, `[` + strings.Repeat(`{"type":"text"},`, maxBlocks) + `{"type":"text"}]`} {
		var blocks []block
		if err := json.Unmarshal([]byte(bad), &blocks); err != nil {
			t.Fatal(err)
		}
		if _, f := promptText(blocks); f == nil || f.Code != invalidParams || len(f.Message) > 300 {
			t.Errorf("%.40s: %v", bad, f)
		}
	}
}

// The answers to both kinds of requests, by their shape.
func TestVerdicts(t *testing.T) {
	for result, want := range map[string]string{
		`{"outcome":{"outcome":"selected","optionId":"allow_once"}}`:  `{"approve":true}`,
		`{"outcome":{"outcome":"selected","optionId":"reject_once"}}`: `{"approve":false}`,
		`{"outcome":{"outcome":"selected","optionId":"other"}}`:       "none",
		`{"outcome":{"outcome":"cancelled"}}`:                         "none",
		`{"action":"accept","content":{"answer":"blue"}}`:             "blue",
		`{"action":"accept","content":{"answer":7}}`:                  "7",
		`{"action":"accept","content":{"answer":["a","b"]}}`:          `["a","b"]`,
		`{"action":"accept","content":{}}`:                            "none",
		`{"action":"accept"}`:                                         "none",
		`{"action":"decline"}`:                                        "none",
		`{"action":"cancel","content":{"answer":"x"}}`:                "none",
		`{}`: "none", `7`: "none", `null`: "none", ``: "none",
	} {
		v := readVerdict("q1", &message{Result: json.RawMessage(result)})
		got := "none"
		if v.text != nil {
			got = *v.text
		}
		if got != want {
			t.Errorf("%s is %s, want %s", result, got, want)
		}
	}
}

// Ids of a client's messages are its own, whatever it calls them.
func TestOwnIDs(t *testing.T) {
	long := ownID("ed", strings.Repeat("x", 1000))
	if len(long) > 128 || !strings.HasPrefix(string(long), own("ed")) || long != ownID("ed", strings.Repeat("x", 1000)) || long == ownID("ed", strings.Repeat("x", 1001)) {
		t.Errorf("a long one is %s", long)
	}
	one, other := ownID("ed", ""), ownID("ed", "")
	if one == other || ownID("ed", "1") != "acp:ed:1" {
		t.Error("ids")
	}
	if full := ownID(strings.Repeat("c", maxClient), strings.Repeat("x", 1000)); len(full) > 128 {
		t.Errorf("%d bytes", len(full))
	}
}

func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"S","prompt":[{"type":"text","text":"x"},{"type":"resource","resource":{"uri":"u","text":"t"}}],"_meta":{"parley":{"mode":"steer"},"traceparent":"x"}}}`,
		`{"jsonrpc":"2.0","id":"S#q1","result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`, `{"jsonrpc":"2.0","id":null,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{}}}}}`,
		`{"jsonrpc":"2.0","id":1e3,"error":{"code":1,"message":"x"}}`, `[]`, `{"jsonrpc":"2.0","method":"x","params":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, bad := readMessage(b)
		if bad != nil {
			if out := appendFault(nil, m.ID, bad); !json.Valid(out) {
				t.Fatalf("%s", out)
			}
			return
		}
		var p prompt
		var i initialize
		var n newSession
		for _, into := range []any{&p, &i, &n} {
			if bad := m.params(into); bad != nil && !json.Valid(appendFault(nil, m.ID, bad)) {
				t.Fatal(bad)
			}
		}
		if text, bad := promptText(p.Blocks); bad == nil && len(text) > 20*len(b)+20 {
			t.Fatalf("%d bytes became %d", len(b), len(text))
		}
		var id string
		if json.Unmarshal(m.ID, &id) == nil {
			if session, q, ok := asked(id); ok && askID(session, q) != id {
				t.Fatalf("%q is %q and %q", id, session, q)
			}
		}
		readVerdict("q1", &m)
	})
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"0-1", "3-478150656", "-", "1", "9-0", "00-01"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		since, at, ok := readCursor(s)
		if !ok {
			return
		}
		again, number, ok := readCursor(string(appendCursor(nil, since, at)))
		if !ok || again != since || number != at {
			t.Fatalf("%q is %d-%d", s, since, at)
		}
	})
}

// What an update costs beside what the native protocol does.
func BenchmarkUpdate(b *testing.B) {
	s := newSessionOf(&conn{send: func([]byte) {}, socket: &door.Socket{Who: &service.Principal{}}}, "fmutn6g5rfrhs6xm")
	for name, n := range map[string]*exchange.Note{
		"text": {Kind: exchange.TextGrew, Own: true, At: 1 << 40, Task: "t1-S", Item: &exchange.Item{ID: "1.1.0-t1-S"}, Delta: "a few words of it "},
		"call": {Kind: exchange.CallBegan, Own: true, At: 1 << 40, Task: "t1-S", Call: &exchange.CallState{ID: "c1", Tool: "clock", Args: `{"zone":"UTC"}`}},
		"receipt": {Kind: exchange.Resolved, Own: true, At: 1 << 40, Task: "t1-S", Event: &conversation.Event{
			Body: conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedAnswered, Evidence: conversation.EvidenceOnly},
		}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.show(n)
			}
		})
	}
}
