package protocol

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/listing"
	"parley/gateway/gatewaytest"
)

// Every durable event has a golden frame; the set is that of the vocabulary.
// PROTOCOL.md, rules 3.1 to 3.18.
func TestGoldenEvents(t *testing.T) {
	seen := map[conversation.EventKind]bool{}
	for name, e := range gatewaytest.Samples() {
		t.Run(name, func(t *testing.T) {
			got := AppendEvent(nil, "s1", &e, false)
			if !json.Valid(got) || !utf8.Valid(got) {
				t.Fatalf("not JSON: %s", got)
			}
			if strings.Contains(string(got), "private") && e.Body.Kind() != conversation.KindSessionUpdated && e.Body.Kind() != conversation.KindSessionCreated {
				t.Errorf("a private field is shown: %s", got)
			}
			if kind, seq := Peek(got); string(kind) != e.Body.Kind().String() || string(seq) != "7" {
				t.Errorf("peek: %s %s", kind, seq)
			}
			gatewaytest.Golden(t, "events/"+name+".json", append(got, '\n'))
		})
		seen[e.Body.Kind()] = true
		if e.Body.Kind().String() != strings.SplitN(name, ".", 2)[0] {
			t.Errorf("%s is a sample of %s", name, e.Body.Kind())
		}
	}
	for _, kind := range conversation.EventKinds() {
		if !seen[kind] {
			t.Errorf("%s has no golden frame", kind)
		}
	}
}

// Without read:tools arguments, objectives and results are redacted, the event itself is not dropped.
func TestGoldenRedacted(t *testing.T) {
	for _, name := range []string{"tool_started", "tool_finished", "delegation_started", "delegation_finished", "question"} {
		e := gatewaytest.Samples()[name]
		got := AppendEvent(nil, "s1", &e, true)
		if !Sensitive(e.Body) || !bytes.Contains(got, []byte(RedactedJSON)) {
			t.Errorf("%s is not redacted: %s", name, got)
		}
		gatewaytest.Golden(t, "events/"+name+".redacted.json", append(got, '\n'))
	}
	for name, e := range gatewaytest.Samples() {
		if Sensitive(e.Body) {
			continue
		}
		if !bytes.Equal(AppendEvent(nil, "s1", &e, true), AppendEvent(nil, "s1", &e, false)) {
			t.Errorf("%s has two encodings and is not called sensitive", name)
		}
	}
}

// PROTOCOL.md, rules 4.1 to 4.8.
func TestGoldenEphemeral(t *testing.T) {
	for name, got := range map[string][]byte{
		"delta":             AppendEphemeral(nil, "s1", 5, conversation.Delta{Task: "t1-s1", Draft: "1.1.0", At: 3, Text: "lo \""}, false),
		"draft_dropped":     AppendEphemeral(nil, "s1", 5, conversation.DraftDropped{Task: "t1-s1", Draft: "1.1.0"}, false),
		"progress":          AppendEphemeral(nil, "s1", 5, conversation.Progress{Task: "t1-s1", Call: "c1", Note: "half", Percent: gatewaytest.Ptr(50)}, false),
		"progress.plain":    AppendEphemeral(nil, "s1", 5, conversation.Progress{Task: "t1-s1", Call: "c1", Note: "half"}, false),
		"progress.redacted": AppendEphemeral(nil, "s1", 5, conversation.Progress{Task: "t1-s1", Call: "c1", Note: "half", Percent: gatewaytest.Ptr(50)}, true),
		"thinking":          AppendEphemeral(nil, "s1", 5, conversation.Thinking{Task: "t1-s1", Agent: "coordinator", Step: 2}, false),
		"draft_state":       AppendDraftState(nil, "s1", 5, conversation.DraftView{Task: "t1-s1", Draft: "1.1.0", Text: "Hello"}),
		"typing":            AppendTyping(nil, "s1", 5, "ann", true),
		"gone":              AppendGone(nil, "s1", 5, "erased"),
		"hb":                AppendHeartbeat(nil, gatewaytest.SampleTime),
		"goaway":            AppendGoaway(nil, 1012, "the server is going away", 1500*time.Millisecond),
		"synced":            AppendSynced(nil, "s1", 5),
		"ok":                AppendOK(nil, "7", func(o *Object) { o.Uint("seq", 3) }),
		"ok.empty":          AppendOK(nil, "7", nil),
		"error":             AppendError(nil, "7", true, &conversation.Error{Code: "rate_limited", Message: "slow down", RetryAfter: 50 * time.Millisecond}),
		"error.unreadable":  AppendError(nil, "", false, conversation.Errorf(conversation.InvalidJSON, "the frame is not valid JSON")),
		"follow":            followed(),
		"watch_chats":       AppendOK(nil, "15", FeedStart{Head: 44, First: 42, Resumed: true}.Append),
		"watch_chats.ahead": AppendOK(nil, "15", FeedStart{Head: 44, First: 45, Reason: "ahead"}.Append),
		"chat":              AppendChat(nil, func(b []byte) []byte { return append(b, gatewaytest.ChatEntry(7)...) }),
		"chats_gone":        AppendChatsGone(nil, "forbidden"),
		"listed":            AppendListed(nil, listedRow()),
		"listed.gone":       AppendUnlisted(nil, "s1"),
	} {
		t.Run(name, func(t *testing.T) {
			if !json.Valid(got) {
				t.Fatalf("not JSON: %s", got)
			}
			if kind, seq := Peek(got); len(kind) == 0 || seq != nil {
				t.Errorf("peek: %s %s", kind, seq)
			}
			gatewaytest.Golden(t, "ephemeral/"+name+".json", append(got, '\n'))
		})
	}
}

func listedRow() conversation.Summary {
	return conversation.Summary{
		Key: conversation.SessionKey{Tenant: "default", Session: "s1"}, Title: "T", Agent: "coordinator", Owner: "local",
		CreatedAt: gatewaytest.SampleTime, Activity: gatewaytest.SampleTime, Last: 19, Open: 3, Awaiting: 1, Seen: 9,
		Work: listing.Work{Running: 1, Asking: 2, Parts: listing.Parts{}.With(7).With(10).With(17)},
	}
}

// What a list says that a session does is the first of its tasks' states that needs somebody.
func TestListStatus(t *testing.T) {
	for want, row := range map[string]conversation.Summary{
		"":                  {},
		"QUEUED":            {Open: 2},
		"AWAITING_RESPONSE": {Open: 3, Awaiting: 1},
		"RUNNING":           {Open: 3, Awaiting: 1, Work: listing.Work{Running: 1}},
	} {
		if got := listStatus(row); got != want {
			t.Errorf("%+v: %q, want %q", row, got, want)
		}
	}
}

func followed() []byte {
	asked, _ := gatewaytest.Samples()["question"].Body.(conversation.Asked)
	v := conversation.View{
		Key: conversation.SessionKey{Tenant: "default", Session: "s1"}, Log: "l1", Head: 9, Title: "T", Agent: "coordinator", Owner: "local",
		Policy: conversation.Overrides{"inbox.mode": json.RawMessage(`"queue"`)},
		Tasks:  []conversation.TaskView{{Task: "t1-s1", Status: conversation.TaskRunning, Trigger: "m1-s1", Steps: 2, CreatedAt: gatewaytest.SampleTime, Cancelling: true}},
		Inbox: []conversation.InboxView{{Message: "m2-s1", Task: "t1-s1", Author: "local", Excerpt: "And…", AcceptedAt: gatewaytest.SampleTime,
			Files: []attached.File{{Hash: attached.HashOf([]byte("x")), Name: "a.png", Type: "image/png", Size: 1}}}},
		Questions: []conversation.QuestionView{{Task: "t1-s1", Asked: asked, At: gatewaytest.SampleTime}},
		Calls: []conversation.CallView{{Task: "t1-s1", Call: "c1", Tool: "clock", Deadline: gatewaytest.SampleTime},
			{Task: "t1-s1", Call: "d1", Agent: "developer", Session: "s1/d1", Deadline: gatewaytest.SampleTime}},
	}
	return AppendOK(nil, "3", func(o *Object) { AppendFollowed(o, v, 4, true, "", false) })
}

// Long arguments and results are cut at a character, with a mark; cut JSON is a string.
func TestCut(t *testing.T) {
	for _, n := range []int{shownBytes - 1, shownBytes, shownBytes + 1, shownBytes + 2, 3 * shownBytes} {
		s := strings.Repeat("é", n/2) + strings.Repeat("x", n%2)
		got := cut(s)
		if !utf8.ValidString(got) || len(got) > shownBytes {
			t.Errorf("%d bytes were cut to %d", n, len(got))
		}
		if whole := got == s; whole != (n <= shownBytes) || (!whole && !strings.HasSuffix(got, cutMark)) {
			t.Errorf("%d bytes: …%q", n, got[len(got)-5:])
		}
	}
	for args, isText := range map[string]bool{`{"a":1}`: false, `[1]`: false, `"x"`: true, `{"a":"` + strings.Repeat("x", shownBytes) + `"}`: true, "\"\xff\"": true, ``: true} {
		o := NewObject(nil)
		arguments(&o, args, false)
		var got struct{ Args any }
		if err := json.Unmarshal(o.Close(), &got); err != nil {
			t.Fatalf("%.20q: %v", args, err)
		}
		if _, text := got.Args.(string); text != isText {
			t.Errorf("%.20q became %T", args, got.Args)
		}
	}
}

// AppendString agrees with encoding/json about what a string is.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t", "\x00\x1f\x7f", "é☃😀", "\xff\xfe", "a\xe2\x82", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && back != want {
			t.Errorf("%q came back as %q", s, back)
		}
		if !utf8.Valid(got) {
			t.Errorf("%q is not UTF-8", got)
		}
	})
}

func TestAppendTime(t *testing.T) {
	for _, x := range []time.Time{gatewaytest.SampleTime, {}, time.Unix(0, 0), time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.UTC)} {
		want := `"` + x.UTC().Format("2006-01-02T15:04:05.000Z") + `"`
		want = strings.Replace(want, "1000Z", "999Z", 1)
		if got := string(appendTime(nil, x.Truncate(time.Millisecond))); got != `"`+x.UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")+`"` {
			t.Errorf("%v became %s, want %s", x, got, want)
		}
	}
}

// Frames of every length round the changes of their header's size.
func TestFrameHeader(t *testing.T) {
	var all []byte
	lengths := []int{0, 1, 125, 126, 127, 65535, 65536, 70000}
	for _, n := range lengths {
		all = AppendFrame(all, OpText, func(b []byte) []byte { return append(b, bytes.Repeat([]byte("x"), n)...) })
	}
	for _, n := range lengths {
		op, payload, rest := NextFrame(all)
		if op != OpText || len(payload) != n || strings.Trim(string(payload), "x") != "" {
			t.Errorf("a payload of %d came back with %d", n, len(payload))
		}
		all = rest
	}
	if len(all) != 0 {
		t.Errorf("%d bytes are left", len(all))
	}
}
