package gatewaytest

import (
	"encoding/json"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/access"
)

// SampleTime is the time of the samples' events. It is not UTC and not whole seconds.
var SampleTime = time.Date(2026, 11, 21, 9, 30, 5, 7*int(time.Millisecond), time.FixedZone("x", 3600))

// Ptr is a pointer to v.
func Ptr[T any](v T) *T { return &v }

// Samples has one event of every kind with all of its fields, and more where
// fields are optional.
func Samples() map[string]conversation.Event {
	body := map[string]conversation.EventBody{
		"session_created": conversation.SessionCreated{Title: "T", Agent: "coordinator", Owner: "local", Access: conversation.AccessTenant,
			Policy: conversation.Overrides{"task.max_steps": json.RawMessage("5"), "inbox.mode": json.RawMessage(`"queue"`)}},
		"session_created.empty": conversation.SessionCreated{Agent: "outside", Owner: "local"},
		"session_updated": conversation.SessionUpdated{Title: Ptr("New"), Agent: "tutor", Access: Ptr(conversation.AccessPrivate),
			Policy: conversation.Overrides{"inbox.mode": nil}},
		"session_updated.members": conversation.SessionUpdated{Members: map[conversation.UserID]access.Role{"bob": access.Approver, `d"ora`: access.None}},
		"session_updated.title":   conversation.SessionUpdated{Title: Ptr("")},
		"session_closed":          conversation.SessionClosed{Reason: "done"},
		"message_accepted": conversation.MessageAccepted{Message: "m1-s1", ClientMsgID: "a", Author: "local", AuthorName: "Ann", Text: "Fix \"it\"\n\u2028\x01 ☃ <b>",
			Disposition: conversation.Joined, Via: conversation.ViaSlack, Mode: conversation.ModeQueue, InReplyTo: "p1-s1", Question: "q1",
			NotBefore: SampleTime, Steer: true, Preempts: true, Deferred: true},
		"message_accepted.plain": conversation.MessageAccepted{Message: "m1-s1", ClientMsgID: "a", Author: "local", Text: "x",
			Disposition: conversation.Started, Via: conversation.ViaWebSocket},
		"message_edited":          conversation.MessageEdited{Message: "m1-s1", Text: "y"},
		"message_withdrawn":       conversation.MessageWithdrawn{Message: "m1-s1", NewTrigger: "m2-s1"},
		"message_withdrawn.plain": conversation.MessageWithdrawn{Message: "m1-s1"},
		"message_moved":           conversation.MessageMoved{Message: "m2-s1", Before: "m1-s1"},
		"message_moved.front":     conversation.MessageMoved{Message: "m2-s1"},
		"message_resolved":        conversation.MessageResolved{Message: "m1-s1", How: conversation.ResolvedAnswered, Part: Ptr(conversation.PartIndex(0)), Question: "q1"},
		"message_resolved.plain":  conversation.MessageResolved{Message: "m1-s1", How: conversation.ResolvedDismissed},
		"task_status": conversation.TaskStatusChanged{Trigger: "m1-s1", Old: conversation.TaskRunning, New: conversation.TaskError,
			Messages: []conversation.MessageID{"m1-s1"}, Reason: "r", Error: &conversation.Failure{Code: "unavailable", Message: "no model"}},
		"task_status.born": conversation.TaskStatusChanged{Trigger: "m1-s1", New: conversation.TaskQueued, Messages: []conversation.MessageID{"m1-s1", "m2-s1"}},
		"task_cancelling": conversation.TaskCancelling{By: conversation.ByUser, Until: SampleTime, Reason: "stop", Drop: true,
			Error: &conversation.Failure{Code: "internal", Message: "private"}},
		"step_started": conversation.StepStarted{Step: 3, Attempt: 2, Agent: "coordinator", Read: []conversation.MessageID{"m1-s1"},
			Cause: conversation.CauseError, Error: &conversation.Failure{Code: "timeout", Message: "too slow"},
			Usage: &conversation.Usage{InputTokens: 10, OutputTokens: 2, Estimated: true}, NotBefore: SampleTime, WrapUp: true},
		"step_started.first": conversation.StepStarted{Step: 1, Attempt: 1, Agent: "coordinator"},
		"step_finished": conversation.StepFinished{Step: 3, Attempt: 2, Outcome: conversation.StepOK,
			Decisions: []conversation.Decision{conversation.DecisionAnswer, conversation.DecisionTool}, Model: "scripted",
			Usage: conversation.Usage{InputTokens: 10, OutputTokens: 2, CachedTokens: 8}, Took: 1234567 * time.Microsecond, Error: &conversation.Failure{Code: "internal", Message: "x"},
			ResponseID: "private", Items: []conversation.Item{{Text: "private"}}, Results: []conversation.CallResult{{Text: "private"}}},
		"step_finished.refused":   conversation.StepFinished{Step: 3, Attempt: 1, Outcome: conversation.StepOK, Model: "gpt", Stop: conversation.StopRefused},
		"step_finished.cancelled": conversation.StepFinished{Step: 3, Attempt: 1, Outcome: conversation.StepCancelled, Model: "scripted"},
		"partial_response":        conversation.PartialResponse{Part: conversation.Part{Message: "p1-s1", Source: "m1-s1", Index: 2, Text: "15 °C", InReplyTo: "m2-s1", Draft: "1.1.0"}},
		"partial_response.plain":  conversation.PartialResponse{Part: conversation.Part{Message: "p1-s1", Text: "hi"}},
		"response":                conversation.Response{Part: conversation.Part{Message: "p1-s1", Source: "m1-s1", Text: "done"}, ResponseKind: conversation.ResponseLimit, Promoted: true},
		"response.plain":          conversation.Response{Part: conversation.Part{Message: "p1-s1", Source: "m1-s1", Text: "done", InReplyTo: "m1-s1"}},
		"question": conversation.Asked{Question: "q1", Text: "Which?", Blocking: true, Choices: []string{"A", "B"}, ExpiresAt: SampleTime, Default: Ptr(""),
			Delegation: "d1", Approval: &conversation.Approval{Call: "c1", Tool: "mail", Args: `{"to": "max"}`}, ModelCall: "private"},
		"question.plain":          conversation.Asked{Question: "q1", Text: "Which?"},
		"question_answered":       conversation.QuestionAnswered{Question: "q1", Message: "m2-s1", Text: "A", By: "local"},
		"question_answered.bydef": conversation.QuestionAnswered{Question: "q1", Text: "A", By: "default"},
		"question_closed":         conversation.QuestionClosed{Question: "q1", Reason: conversation.QuestionSuperseded},
		"tool_started":            conversation.ToolStarted{Call: "c1", Tool: "clock", Args: "{ \"zone\" :\n \"UTC\" }", Deadline: SampleTime, Delegation: "d1", ModelCall: "private", Idempotent: true},
		"tool_started.caller":     conversation.ToolStarted{Call: "c2", Tool: "get_weather", Args: `{"city":"Oslo"}`, ModelCall: "private", Caller: true},
		"question.caller":         conversation.Asked{Question: "q2", Text: "get_weather is yours to run. Its result is the answer.", Blocking: true, About: "m1-s1", Call: "c2"},
		"tool_started.nojson":     conversation.ToolStarted{Call: "c1", Tool: "clock", Args: "{zone", Deadline: SampleTime},
		"tool_finished":           conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "09:30", Took: 12 * time.Millisecond},
		"delegation_started":      conversation.DelegationStarted{Delegation: "d1", Agent: "developer", Objective: "fix", Session: "s1/d1", Deadline: SampleTime, ModelCall: "private"},
		"delegation_finished":     conversation.DelegationFinished{Delegation: "d1", Status: conversation.CallFailed, Summary: "no", Took: time.Second},
		"coverage_nudge":          conversation.CoverageNudge{Messages: []conversation.MessageID{"m1-s1"}, Nudge: 1},
		"coverage_nudge.closing":  conversation.CoverageNudge{Messages: []conversation.MessageID{"m1-s1", "m2-s1"}, Nudge: 1, Form: conversation.NudgeClosing},
		"coverage_nudge.empty":    conversation.CoverageNudge{},
		"context_compacted":       conversation.ContextCompacted{Upto: 900, TokensBefore: 5000, TokensAfter: 300, Summary: "private"},
		"runtime_status":          conversation.RuntimeStatus{Message: "m1-s1", Status: conversation.RuntimeFailed, Generation: 2, Runtime: "worker-7", Until: SampleTime, Error: "no tool", Permanent: true, NotBefore: SampleTime},
		"runtime_status.alive":    conversation.RuntimeStatus{Message: "m1-s1", Status: conversation.RuntimeAlive, Generation: 1},
		"context_cleared":         conversation.ContextCleared{By: "ann"},
	}
	events := make(map[string]conversation.Event)
	for name, b := range body {
		e := conversation.Event{Seq: 7, At: SampleTime, Body: b}
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

// Turn returns the events that a simple turn publishes: three commits, seven events.
func Turn(first conversation.Seq) [][]conversation.Event {
	at := Epoch
	commits := [][]conversation.Event{
		{
			{Task: "t1-s1", Body: conversation.MessageAccepted{Message: "m1-s1", ClientMsgID: "client-1", Author: "local", Text: "What's the weather like in Berlin today?", Disposition: conversation.Started, Via: conversation.ViaWebSocket}},
			{Task: "t1-s1", Body: conversation.TaskStatusChanged{Trigger: "m1-s1", Old: conversation.TaskQueued, New: conversation.TaskRunning}},
			{Task: "t1-s1", Body: conversation.StepStarted{Step: 1, Attempt: 1, Agent: "coordinator", Read: []conversation.MessageID{"m1-s1"}}},
		},
		{
			{Task: "t1-s1", Body: conversation.StepFinished{Step: 1, Attempt: 1, Outcome: conversation.StepOK, Decisions: []conversation.Decision{conversation.DecisionAnswer}, Model: "scripted"}},
			{Task: "t1-s1", Body: conversation.Response{Part: conversation.Part{Message: "p1-s1", Source: "m1-s1", Text: "It is sunny, 15 °C, with a light wind from the west.", InReplyTo: "m1-s1"}}},
			{Task: "t1-s1", Body: conversation.MessageResolved{Message: "m1-s1", How: conversation.ResolvedAnswered, Evidence: conversation.EvidenceOnly}},
			{Task: "t1-s1", Body: conversation.TaskStatusChanged{Trigger: "m1-s1", Old: conversation.TaskRunning, New: conversation.TaskComplete}},
		},
	}
	for _, c := range commits {
		for i := range c {
			c[i].Seq, c[i].At = first, at
			first++
		}
	}
	return commits
}
