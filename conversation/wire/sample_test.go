package wire

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/attached"
	"parley/conversation/listing"
)

var sampleTime = time.Date(2026, 11, 21, 8, 9, 10, 123_000_000, time.UTC)

func sampleFailure() *conversation.Failure {
	return &conversation.Failure{Code: conversation.Unavailable, Message: "the model is not there"}
}

func samplePart() conversation.Part {
	return conversation.Part{
		Message:   "p3-abc",
		Source:    "m1-abc",
		Index:     2,
		Text:      "Grüße: 4 — done ✓",
		InReplyTo: "m2-abc",
		Guessed:   true,
		Cut:       true,
		Draft:     "7.1.0",

		Author:      "bob",
		ClientMsgID: "part:7",
	}
}

// samples has one body of each kind with every field set.
func samples() []conversation.EventBody {
	return []conversation.EventBody{
		conversation.SessionCreated{
			Title:  "Lost luggage",
			Agent:  conversation.Coordinator,
			Owner:  "ada",
			Access: conversation.AccessTenant,
			Policy: conversation.Overrides{
				"task.max_steps": json.RawMessage(`5`),
				"inbox.mode":     json.RawMessage(`"queue"`),
				"coverage.mode":  json.RawMessage(`"off"`),
			},
			Lifted: []string{"coverage.mode", "task.max_steps"},
		},
		conversation.SessionUpdated{
			Title:   new("Found luggage"),
			Access:  new(conversation.AccessTenant),
			Policy:  conversation.Overrides{"inbox.mode": nil, "retry.max_attempts": json.RawMessage(`2`)},
			Members: map[conversation.UserID]access.Role{"bob": access.Approver, "eve": access.None, "": access.Owner},
			Lifted:  []string{"retry.max_attempts"},
			Agent:   "tutor",
		},
		conversation.SessionClosed{Reason: "done with it"},
		conversation.MessageAccepted{
			Message:     "m1-abc",
			ClientMsgID: "8f14e45f",
			Author:      "ada",
			AuthorName:  "Ada L.",
			Text:        "What's the weather in Zürich? 🌦",
			Disposition: conversation.Answered,
			Via:         conversation.ViaDelegation,
			Mode:        conversation.ModeReject,
			InReplyTo:   "p1-abc",
			Question:    "d1.q2",
			NotBefore:   sampleTime,
			Steer:       true,
			Preempts:    true,
			Deferred:    true,
			Files:       []attached.File{{Hash: attached.HashOf(nil), Name: "Zürich.png", Type: "image/png", Size: 1 << 40}, {}},
		},
		conversation.MessageEdited{Message: "m2-abc", Text: "rather Bern"},
		conversation.MessageWithdrawn{Message: "m1-abc", NewTrigger: "m2-abc"},
		conversation.MessageMoved{Message: "m3-abc", Before: "m2-abc", Report: "2 asks for the same as 1"},
		conversation.MessageResolved{
			Message:  "m1-abc",
			How:      conversation.ResolvedUnanswered,
			Evidence: conversation.EvidenceWords,
			Part:     new(conversation.PartIndex(4)),
			Question: "q2",
		},
		conversation.TaskStatusChanged{
			Trigger:  "m1-abc",
			Old:      conversation.TaskAwaiting,
			New:      conversation.TaskCancelled,
			Messages: []conversation.MessageID{"m1-abc", "m2-abc"},
			Reason:   "no longer needed",
			Error:    sampleFailure(),
		},
		conversation.TaskCancelling{
			By:     conversation.ByParent,
			Until:  sampleTime,
			Reason: "no longer needed",
			Error:  sampleFailure(),
			Drop:   true,

			Author:      "bob",
			ClientMsgID: "cancel:3",
		},
		conversation.StepStarted{
			Step:      7,
			Attempt:   2,
			Agent:     conversation.Coordinator,
			Read:      []conversation.MessageID{"m1-abc", "m2-abc"},
			Cause:     conversation.CauseDrain,
			Error:     sampleFailure(),
			Usage:     &conversation.Usage{InputTokens: 1200, OutputTokens: 34, CachedTokens: 1000, Estimated: true},
			NotBefore: sampleTime,
			WrapUp:    true,
		},
		conversation.StepFinished{
			Step:      7,
			Attempt:   2,
			Outcome:   conversation.StepCancelled,
			Decisions: []conversation.Decision{conversation.DecisionAnswer, conversation.DecisionTool},
			Model:     "scripted",
			Usage:     conversation.Usage{InputTokens: 1200, OutputTokens: 34, CachedTokens: 1000, Estimated: true},
			Took:      1234 * time.Millisecond,
			Stop:      conversation.StopFiltered,
			Error:     sampleFailure(),

			ResponseID: "resp_68c1",
			Items: []conversation.Item{
				{Kind: conversation.ItemText, ID: "i1", Text: "One moment.", Streamed: true},
				{Kind: conversation.ItemCall, ID: "i2", Text: "-", Tool: "clock", Args: `{"zone":"UTC"}`, Streamed: true, Opaque: "\xffsigned", OpaqueBy: "openai:m", OpaqueStays: true},
			},
			Results: []conversation.CallResult{{ID: "i3", Text: "delivered"}},
		},
		conversation.PartialResponse{Part: samplePart()},
		conversation.Response{Part: samplePart(), ResponseKind: conversation.ResponseEmpty, Promoted: true},
		conversation.Asked{
			Question:   "d1.q2",
			Text:       "Which one?",
			Blocking:   true,
			About:      "m1-abc",
			Choices:    []string{"the red one", "the blue one"},
			ExpiresAt:  sampleTime,
			Default:    new("the red one"),
			Delegation: "d1",
			Approval:   &conversation.Approval{Call: "c5", Tool: "send_mail", Args: `{"to":"bob"}`},
			ModelCall:  "call_1",
			Call:       "c4",
		},
		conversation.QuestionAnswered{Question: "q2", Message: "m4-abc", Text: "the blue one", By: "ada"},
		conversation.QuestionClosed{Question: "q2", Reason: conversation.QuestionCancelled},
		conversation.ToolStarted{
			Call:       "c5",
			Tool:       "clock",
			Args:       `{"zone":"UTC"}`,
			Deadline:   sampleTime,
			Delegation: "d1",
			ModelCall:  "call_2",
			Idempotent: true,
			Caller:     true,
		},
		conversation.ToolFinished{
			Call:    "c5",
			Status:  conversation.CallFailed,
			Summary: "08:09",
			Took:    12 * time.Millisecond,
		},
		conversation.DelegationStarted{
			Delegation: "d1",
			Agent:      "researcher",
			Objective:  "find the luggage",
			Session:    "abc/d1",
			Deadline:   sampleTime,
			ModelCall:  "call_3",
		},
		conversation.DelegationFinished{
			Delegation: "d1",
			Status:     conversation.CallFailed,
			Summary:    "it is in Oslo",
			Took:       90 * time.Second,
		},
		conversation.CoverageNudge{Messages: []conversation.MessageID{"m2-abc"}, Questions: []conversation.QuestionID{"q2"}, Nudge: 1, Form: conversation.NudgeClosing},
		conversation.ContextCompacted{Upto: 400, TokensBefore: 90_000, TokensAfter: 4_000, Summary: "They talked."},
		conversation.RuntimeStatus{
			Message:    "m1-abc",
			Status:     conversation.RuntimeFailed,
			Generation: 3,
			Runtime:    "worker-7",
			Until:      sampleTime,
			Error:      "the tool is not installed",
			Permanent:  true,
			NotBefore:  sampleTime,
		},
		conversation.ContextCleared{By: "ada"},
	}
}

// sampleRecord is what a simple turn commits first: the message, its task and
// the step that reads it.
func sampleRecord() conversation.Record {
	return conversation.Record{ID: "01JD7Z-4f", Events: []conversation.Event{
		{Seq: 2, At: sampleTime, Task: "t1-abc", Body: conversation.MessageAccepted{
			Message:     "m1-abc",
			ClientMsgID: "8f14e45f-ceea-467f-a0e6-8d9f1c2b3a4d",
			Author:      "ada",
			Text:        "What is two plus two, and why does everybody keep asking me that?",
			Disposition: conversation.Started,
			Via:         conversation.ViaWebSocket,
			Steer:       true,
		}},
		{Seq: 3, At: sampleTime, Task: "t1-abc", Body: conversation.TaskStatusChanged{
			Trigger: "m1-abc",
			Old:     conversation.TaskQueued,
			New:     conversation.TaskRunning,
		}},
		{Seq: 4, At: sampleTime, Task: "t1-abc", Body: conversation.StepStarted{
			Step:    1,
			Attempt: 1,
			Agent:   conversation.Coordinator,
			Read:    []conversation.MessageID{"m1-abc"},
		}},
	}}
}

func sampleTaskRow() conversation.TaskRow {
	return conversation.TaskRow{
		Key:       conversation.SessionKey{Tenant: "acme", Session: "abc"},
		Task:      "t1-abc",
		Status:    conversation.TaskCancelled,
		Agent:     conversation.Coordinator,
		Owner:     "ada",
		Trigger:   "m1-abc",
		CreatedAt: sampleTime,
		UpdatedAt: sampleTime.Add(time.Second),
		First:     2,
		Last:      9,
		Error:     sampleFailure(),
	}
}

// sampleSummary has every field but Seen, which is not stored.
func sampleSummary() conversation.Summary {
	return conversation.Summary{
		Key:       conversation.SessionKey{Tenant: "acme", Session: "abc"},
		Title:     "Lost luggage",
		Agent:     conversation.Coordinator,
		Owner:     "ada",
		Access:    conversation.AccessTenant,
		Closed:    true,
		CreatedAt: sampleTime,
		Activity:  sampleTime.Add(time.Minute),
		Last:      9,
		Open:      2,
		Awaiting:  1,
		Members:   map[conversation.UserID]access.Role{"bob": access.Writer, "cid": access.Reader},
		Work:      listing.Work{Running: 1, Asking: 2, Parts: listing.Parts{}.With(3).With(5).With(900)},
	}
}

func sampleHead() HeadRow {
	return HeadRow{
		Epoch: 3, Last: 9, LastCommit: "01JD7Z-4f", SnapshotAt: 8, WakeAt: sampleTime, Erased: true,
		Claim:  &conversation.Claimable{Task: "t1-s1", Agent: "outside", Since: sampleTime, Runtime: "r1", From: sampleTime},
		Stored: 4711,
	}
}

// enum describes a type whose numbers are stored raw.
type enumType struct {
	last uint8              // the largest number that the decoder takes
	name func(uint8) string // what the vocabulary calls a number; nil if it has no names
}

// enums are all of them; a test walks the vocabulary and misses none.
var enums = map[reflect.Type]enumType{
	reflect.TypeFor[conversation.Access]():       {uint8(conversation.AccessTenant), named[conversation.Access]},
	reflect.TypeFor[conversation.Disposition]():  {uint8(conversation.Answered), named[conversation.Disposition]},
	reflect.TypeFor[conversation.Via]():          {uint8(conversation.ViaA2A), named[conversation.Via]},
	reflect.TypeFor[conversation.Mode]():         {uint8(conversation.ModeReject), named[conversation.Mode]},
	reflect.TypeFor[conversation.Resolution]():   {uint8(conversation.ResolvedUnanswered), named[conversation.Resolution]},
	reflect.TypeFor[conversation.TaskStatus]():   {uint8(conversation.TaskCancelled), named[conversation.TaskStatus]},
	reflect.TypeFor[conversation.CancelBy]():     {uint8(conversation.ByParent), named[conversation.CancelBy]},
	reflect.TypeFor[conversation.Cause]():        {uint8(conversation.CauseMoved), named[conversation.Cause]},
	reflect.TypeFor[conversation.StepOutcome]():  {uint8(conversation.StepUnknown), named[conversation.StepOutcome]},
	reflect.TypeFor[conversation.Decision]():     {uint8(conversation.DecisionTool), named[conversation.Decision]},
	reflect.TypeFor[conversation.ResponseKind](): {uint8(conversation.ResponseEmpty), named[conversation.ResponseKind]},
	reflect.TypeFor[conversation.ClosedReason](): {uint8(conversation.QuestionCancelled), named[conversation.ClosedReason]},
	reflect.TypeFor[conversation.CallStatus]():   {uint8(conversation.CallFailed), named[conversation.CallStatus]},
	reflect.TypeFor[conversation.Evidence]():     {uint8(conversation.EvidenceJudged), named[conversation.Evidence]},
	reflect.TypeFor[conversation.NudgeForm]():    {uint8(conversation.NudgeQuestion), named[conversation.NudgeForm]},
	reflect.TypeFor[conversation.StopReason]():   {uint8(conversation.StopRefused), named[conversation.StopReason]},
	reflect.TypeFor[conversation.RuntimeState](): {uint8(conversation.RuntimeFailed), named[conversation.RuntimeState]},
	reflect.TypeFor[access.Role]():               {uint8(access.Owner), named[access.Role]},
	reflect.TypeFor[listing.Marks]():             {uint8(listing.AllMarks), nil},
	reflect.TypeFor[conversation.ItemKind]():     {uint8(conversation.ItemCall), nil},
}

func named[E interface {
	~uint8
	String() string
}](n uint8) string {
	return E(n).String()
}

// fill sets every field below v to a random value as the machine might emit it:
// times and durations in milliseconds, nil for empty, often zero.
func fill(t *testing.T, r *rand.Rand, v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		if r.IntN(3) > 0 {
			v.Set(reflect.ValueOf(time.UnixMilli(1 + r.Int64N(4e12)).UTC()))
		}
		return
	case reflect.TypeFor[time.Duration]():
		v.SetInt(r.Int64N(1e9) * int64(time.Millisecond))
		return
	case reflect.TypeFor[conversation.Overrides]():
		if n := r.IntN(4); n > 0 {
			o := conversation.Overrides{}
			for range n {
				o[randomText(r)] = json.RawMessage(`"` + randomText(r) + `"`)
			}
			o["removed"] = nil
			v.Set(reflect.ValueOf(o))
		}
		return
	}
	if e, ok := enums[v.Type()]; ok {
		v.SetUint(uint64(r.IntN(int(e.last) + 1)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, r, v.Field(i))
		}
	case reflect.Map:
		if n := r.IntN(4); n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(t, r, key)
				fill(t, r, value)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Pointer:
		if r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, r, v.Elem())
		}
	case reflect.Slice:
		if n := r.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(t, r, v.Index(i))
			}
		}
	case reflect.String:
		v.SetString(randomText(r))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() - r.Int64())
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64() >> (64 - v.Type().Bits()))
	default:
		t.Fatalf("a field of type %s in the vocabulary: teach the tests about it", v.Type())
	}
}

func randomText(r *rand.Rand) string {
	letters := []rune("aZ09 -_.\"\\\x00\nüß…✓🌦\uFFFD")
	out := make([]rune, r.IntN(12))
	for i := range out {
		out[i] = letters[r.IntN(len(letters))]
	}
	return string(out)
}
