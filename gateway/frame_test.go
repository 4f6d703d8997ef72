package gateway

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/gatewaytest"
)

func ptr[T any](v T) *T { return &v }

var at = time.Date(2026, 11, 21, 9, 30, 5, 7*int(time.Millisecond), time.FixedZone("x", 3600))

// samples has one event of every kind with all of its fields, and more where
// fields are optional.
func samples() map[string]conversation.Event {
	body := map[string]conversation.EventBody{
		"session_created": conversation.SessionCreated{Title: "T", Agent: "coordinator", Owner: "local", Access: conversation.AccessTenant,
			Policy: conversation.Overrides{"task.max_steps": json.RawMessage("5"), "inbox.mode": json.RawMessage(`"queue"`)}},
		"session_created.empty": conversation.SessionCreated{Agent: "outside", Owner: "local"},
		"session_updated": conversation.SessionUpdated{Title: ptr("New"), Access: ptr(conversation.AccessPrivate),
			Policy: conversation.Overrides{"inbox.mode": nil}},
		"session_updated.title": conversation.SessionUpdated{Title: ptr("")},
		"session_closed":        conversation.SessionClosed{Reason: "done"},
		"message_accepted": conversation.MessageAccepted{Message: "m1-s1", ClientMsgID: "a", Author: "local", Text: "Fix \"it\"\n\u2028\x01 ☃ <b>",
			Disposition: conversation.Joined, Via: conversation.ViaSlack, Mode: conversation.ModeQueue, InReplyTo: "p1-s1", Question: "q1",
			NotBefore: at, Steer: true, First: true, Kept: true},
		"message_accepted.plain": conversation.MessageAccepted{Message: "m1-s1", ClientMsgID: "a", Author: "local", Text: "x",
			Disposition: conversation.Started, Via: conversation.ViaWebSocket},
		"message_edited":          conversation.MessageEdited{Message: "m1-s1", Text: "y"},
		"message_withdrawn":       conversation.MessageWithdrawn{Message: "m1-s1", Heir: "m2-s1"},
		"message_withdrawn.plain": conversation.MessageWithdrawn{Message: "m1-s1"},
		"message_moved":           conversation.MessageMoved{Message: "m2-s1", Before: "m1-s1"},
		"message_moved.front":     conversation.MessageMoved{Message: "m2-s1"},
		"message_resolved":        conversation.MessageResolved{Message: "m1-s1", How: conversation.ResolvedAnswered, Part: ptr(conversation.PartIndex(0)), Question: "q1"},
		"message_resolved.plain":  conversation.MessageResolved{Message: "m1-s1", How: conversation.ResolvedDismissed},
		"task_status": conversation.TaskStatusChanged{Trigger: "m1-s1", Old: conversation.TaskRunning, New: conversation.TaskError,
			Messages: []conversation.MessageID{"m1-s1"}, Reason: "r", Error: &conversation.Failure{Code: "unavailable", Message: "no model"}},
		"task_status.born": conversation.TaskStatusChanged{Trigger: "m1-s1", New: conversation.TaskQueued, Messages: []conversation.MessageID{"m1-s1", "m2-s1"}},
		"task_cancelling": conversation.TaskCancelling{By: conversation.ByUser, Until: at, Reason: "stop", Drop: true,
			Error: &conversation.Failure{Code: "internal", Message: "private"}},
		"step_started": conversation.StepStarted{Step: 3, Attempt: 2, Agent: "coordinator", Read: []conversation.MessageID{"m1-s1"},
			Cause: conversation.CauseError, Error: &conversation.Failure{Code: "timeout", Message: "too slow"},
			Usage: &conversation.Usage{InputTokens: 10, OutputTokens: 2, Estimated: true}, NotBefore: at, WrapUp: true},
		"step_started.first": conversation.StepStarted{Step: 1, Attempt: 1, Agent: "coordinator"},
		"step_finished": conversation.StepFinished{Step: 3, Attempt: 2, Outcome: conversation.StepOK,
			Decisions: []conversation.Decision{conversation.DecisionAnswer, conversation.DecisionTool}, Model: "scripted",
			Usage: conversation.Usage{InputTokens: 10, OutputTokens: 2}, Took: 1234567 * time.Microsecond, Error: &conversation.Failure{Code: "internal", Message: "x"},
			ResponseID: "private", Items: []conversation.Item{{Text: "private"}}, Results: []conversation.CallResult{{Text: "private"}}},
		"step_finished.cancelled": conversation.StepFinished{Step: 3, Attempt: 1, Outcome: conversation.StepCancelled, Model: "scripted"},
		"partial_response":        conversation.PartialResponse{Part: conversation.Part{Message: "p1-s1", Source: "m1-s1", Index: 2, Text: "15 °C", InReplyTo: "m2-s1", Draft: "1.1.0"}},
		"partial_response.plain":  conversation.PartialResponse{Part: conversation.Part{Message: "p1-s1", Text: "hi"}},
		"response":                conversation.Response{Part: conversation.Part{Message: "p1-s1", Source: "m1-s1", Text: "done"}, ResponseKind: conversation.ResponseLimit, Promoted: true},
		"response.plain":          conversation.Response{Part: conversation.Part{Message: "p1-s1", Source: "m1-s1", Text: "done", InReplyTo: "m1-s1"}},
		"question": conversation.Asked{Question: "q1", Text: "Which?", Blocking: true, Choices: []string{"A", "B"}, ExpiresAt: at, Default: ptr(""),
			Delegation: "d1", Approval: &conversation.Approval{Call: "c1", Tool: "mail", Args: `{"to": "max"}`}, ModelCall: "private"},
		"question.plain":          conversation.Asked{Question: "q1", Text: "Which?"},
		"question_answered":       conversation.QuestionAnswered{Question: "q1", Message: "m2-s1", Text: "A", By: "local"},
		"question_answered.bydef": conversation.QuestionAnswered{Question: "q1", Text: "A", By: "default"},
		"question_closed":         conversation.QuestionClosed{Question: "q1", Reason: conversation.QuestionSuperseded},
		"tool_started":            conversation.ToolStarted{Call: "c1", Tool: "clock", Args: "{ \"zone\" :\n \"UTC\" }", Deadline: at, Delegation: "d1", ModelCall: "private", Idempotent: true},
		"tool_started.nojson":     conversation.ToolStarted{Call: "c1", Tool: "clock", Args: "{zone", Deadline: at},
		"tool_finished":           conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "09:30", Took: 12 * time.Millisecond},
		"delegation_started":      conversation.DelegationStarted{Delegation: "d1", Agent: "developer", Objective: "fix", Session: "s1/d1", Deadline: at, ModelCall: "private"},
		"delegation_finished":     conversation.DelegationFinished{Delegation: "d1", Status: conversation.CallFailed, Summary: "no", Took: time.Second},
		"coverage_nudge":          conversation.CoverageNudge{Messages: []conversation.MessageID{"m1-s1"}, Nudge: 1},
		"coverage_nudge.empty":    conversation.CoverageNudge{},
		"context_compacted":       conversation.ContextCompacted{Upto: 900, TokensBefore: 5000, TokensAfter: 300, Summary: "private"},
	}
	events := make(map[string]conversation.Event)
	for name, b := range body {
		e := conversation.Event{Seq: 7, At: at, Body: b}
		switch b.Kind() {
		case conversation.KindSessionCreated, conversation.KindSessionUpdated, conversation.KindSessionClosed:
		default:
			if !strings.HasSuffix(name, ".plain") || b.Kind() != conversation.KindPartialResponse {
				e.Task = "t1-s1"
			}
		}
		events[name] = e
	}
	return events
}

// Every durable event has a golden frame; the set is that of the vocabulary.
func TestGoldenEvents(t *testing.T) {
	seen := map[conversation.EventKind]bool{}
	for name, e := range samples() {
		t.Run(name, func(t *testing.T) {
			got := appendEvent(nil, "s1", &e, false)
			if !json.Valid(got) || !utf8.Valid(got) {
				t.Fatalf("not JSON: %s", got)
			}
			if strings.Contains(string(got), "private") && e.Body.Kind() != conversation.KindSessionUpdated && e.Body.Kind() != conversation.KindSessionCreated {
				t.Errorf("a private field is shown: %s", got)
			}
			if kind, seq := peek(got); string(kind) != e.Body.Kind().String() || string(seq) != "7" {
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

// Without read:tools args and summary are redacted, the event itself is not dropped.
func TestGoldenRedacted(t *testing.T) {
	for _, name := range []string{"tool_started", "tool_finished", "delegation_finished", "question"} {
		e := samples()[name]
		got := appendEvent(nil, "s1", &e, true)
		if !sensitive(e.Body) || !bytes.Contains(got, []byte(redactedJSON)) {
			t.Errorf("%s is not redacted: %s", name, got)
		}
		gatewaytest.Golden(t, "events/"+name+".redacted.json", append(got, '\n'))
	}
	for name, e := range samples() {
		if sensitive(e.Body) {
			continue
		}
		if !bytes.Equal(appendEvent(nil, "s1", &e, true), appendEvent(nil, "s1", &e, false)) {
			t.Errorf("%s has two encodings and is not called sensitive", name)
		}
	}
}

func TestGoldenEphemeral(t *testing.T) {
	for name, got := range map[string][]byte{
		"delta":            appendEphemeral(nil, "s1", 5, conversation.Delta{Task: "t1-s1", Draft: "1.1.0", At: 3, Text: "lo \""}),
		"draft_dropped":    appendEphemeral(nil, "s1", 5, conversation.DraftDropped{Task: "t1-s1", Draft: "1.1.0"}),
		"progress":         appendEphemeral(nil, "s1", 5, conversation.Progress{Task: "t1-s1", Call: "c1", Note: "half", Percent: ptr(50)}),
		"progress.plain":   appendEphemeral(nil, "s1", 5, conversation.Progress{Task: "t1-s1", Call: "c1", Note: "half"}),
		"thinking":         appendEphemeral(nil, "s1", 5, conversation.Thinking{Task: "t1-s1", Agent: "coordinator", Step: 2}),
		"draft_state":      appendDraftState(nil, "s1", 5, conversation.DraftView{Task: "t1-s1", Draft: "1.1.0", Text: "Hello"}),
		"typing":           appendTyping(nil, "s1", 5, "ann", true),
		"rendered":         appendRendered(nil, "s1", 5, "p1-s1", "<p>hi</p>"),
		"gone":             appendGone(nil, "s1", 5, "erased"),
		"hb":               appendHeartbeat(nil, at),
		"goaway":           appendGoaway(nil, 1012, "the server is going away", 1500*time.Millisecond),
		"synced":           appendSynced(nil, "s1", 5),
		"ok":               appendOK(nil, "7", func(o *object) { o.uint("seq", 3) }),
		"ok.empty":         appendOK(nil, "7", nil),
		"error":            appendError(nil, "7", true, &conversation.Error{Code: "rate_limited", Message: "slow down", RetryAfter: 50 * time.Millisecond}),
		"error.unreadable": appendError(nil, "", false, conversation.Errorf(conversation.InvalidJSON, "the frame is not valid JSON")),
		"follow":           followed(),
	} {
		t.Run(name, func(t *testing.T) {
			if !json.Valid(got) {
				t.Fatalf("not JSON: %s", got)
			}
			if kind, seq := peek(got); len(kind) == 0 || seq != nil {
				t.Errorf("peek: %s %s", kind, seq)
			}
			gatewaytest.Golden(t, "ephemeral/"+name+".json", append(got, '\n'))
		})
	}
}

func followed() []byte {
	asked, _ := samples()["question"].Body.(conversation.Asked)
	v := conversation.View{
		Key: conversation.SessionKey{Tenant: "default", Session: "s1"}, Log: "l1", Head: 9, Title: "T", Agent: "coordinator", Owner: "local",
		Policy:    conversation.Overrides{"inbox.mode": json.RawMessage(`"queue"`)},
		Tasks:     []conversation.TaskView{{Task: "t1-s1", Status: conversation.TaskRunning, Trigger: "m1-s1", Steps: 2, CreatedAt: at, Cancelling: true}},
		Inbox:     []conversation.InboxView{{Message: "m2-s1", Task: "t1-s1", Author: "local", Excerpt: "And…", AcceptedAt: at}},
		Questions: []conversation.QuestionView{{Task: "t1-s1", Asked: asked, At: at}},
		Calls: []conversation.CallView{{Task: "t1-s1", Call: "c1", Tool: "clock", Deadline: at},
			{Task: "t1-s1", Call: "d1", Agent: "developer", Session: "s1/d1", Deadline: at}},
	}
	return appendOK(nil, "3", func(o *object) { appendFollowed(o, v, resumption{since: 4, resumed: true}, false) })
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
		o := open(nil)
		arguments(&o, args, false)
		var got struct{ Args any }
		if err := json.Unmarshal(o.close(), &got); err != nil {
			t.Fatalf("%.20q: %v", args, err)
		}
		if _, text := got.Args.(string); text != isText {
			t.Errorf("%.20q became %T", args, got.Args)
		}
	}
}

// appendString agrees with encoding/json about what a string is.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t", "\x00\x1f\x7f", "é☃😀", "\xff\xfe", "a\xe2\x82", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := appendString(nil, s)
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
	for _, x := range []time.Time{at, {}, time.Unix(0, 0), time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.UTC)} {
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
		all = appendFrame(all, opText, func(b []byte) []byte { return append(b, bytes.Repeat([]byte("x"), n)...) })
	}
	for _, n := range lengths {
		op, payload, rest := nextFrame(all)
		if op != opText || len(payload) != n || strings.Trim(string(payload), "x") != "" {
			t.Errorf("a payload of %d came back with %d", n, len(payload))
		}
		all = rest
	}
	if len(all) != 0 {
		t.Errorf("%d bytes are left", len(all))
	}
}
