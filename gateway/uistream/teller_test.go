package uistream

import (
	"bytes"
	"slices"
	"testing"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/gateway/exchange"
	"parley/gateway/gatewaytest"
)

const task = gatewaytest.Task

// play is what happens in a session, in order: events of the task, and what streams beside them.
type play []any // conversation.EventBody, conversation.Ephemeral

// stream is what a client is sent.
func (p play) stream() []byte {
	s := newStream(told{key: conversation.SessionKey{Tenant: "default", Session: "S"}, task: task})
	for n := range gatewaytest.Notes(exchange.NewFold(0, 0, false), p) {
		s.add(n)
	}
	s.add(&exchange.Note{Kind: exchange.Synced})
	if s.teller.run.Rests() {
		s.end()
	}
	return s.held
}

// log is the message as it is loaded again: of the events alone.
func (p play) log() string { return Rebuilt(gatewaytest.Stored(p).stream()) }

// What plays are made of.
var status, says, step, stepDone, delta, answered = gatewaytest.Status, gatewaytest.Says, gatewaytest.Step, gatewaytest.StepDone, gatewaytest.Delta, gatewaytest.Answered

func accepted(id, client, text string, d conversation.Disposition, files ...attached.File) conversation.MessageAccepted {
	return conversation.MessageAccepted{
		Message: conversation.MessageID(id), ClientMsgID: conversation.ClientMsgID(client), Author: "ann", Text: text,
		Disposition: d, Via: conversation.ViaUIStream, Files: files,
	}
}

const (
	queued, running, awaiting = conversation.TaskQueued, conversation.TaskRunning, conversation.TaskAwaiting
	complete, failed          = conversation.TaskComplete, conversation.TaskError
)

var (
	begins  = play{accepted("m1-S", "ui:u1", "Go", conversation.Started), status(queued, running), step(1, 1, "m1-S")}
	ends    = play{answered("m1-S"), status(running, complete)}
	percent = 40
)

func of(plays ...play) play { return slices.Concat(plays...) }

// plays are one for each thing that the protocol has to say.
var plays = map[string]play{
	"answer": of(begins, play{
		delta("1.1.0", 0, "Hel"), delta("1.1.0", 3, "lo, \"w"), delta("1.1.0", 9, "örld\""), stepDone(1, 1),
		conversation.Response{Part: says(1, "Hello, \"wörld\"", "1.1.0")},
	}, ends),
	"unproven": of(begins, play{stepDone(1, 1)}, gatewaytest.Unproven("Hello")),
	"several_texts": of(begins, play{
		delta("1.1.0", 0, "One"), delta("1.1.1", 0, "Two"), stepDone(1, 1), conversation.PartialResponse{Part: says(1, "One", "1.1.0")},
		conversation.PartialResponse{Part: says(2, "Two", "1.1.1")}, step(2, 1), delta("2.1.0", 0, "Three"), stepDone(2, 1),
		conversation.Response{Part: says(3, "Three", "2.1.0")},
	}, ends),
	// The text of an attempt that is made again counts no more; what was told beside it does.
	"dropped": of(begins, play{
		stepDone(1, 1), conversation.DelegationStarted{Delegation: "d1", Agent: "developer", Objective: "Build it", Session: "S/d1"}, step(2, 1),
		delta("2.1.0", 0, "Half"), conversation.Asked{Question: "d1.q1", Text: "Which?", Delegation: "d1"}, delta("2.1.0", 4, " a te"),
		conversation.StepStarted{Step: 2, Attempt: 2, Cause: conversation.CauseError}, delta("2.2.0", 0, "Whole"), stepDone(2, 2),
		conversation.Response{Part: says(1, "Whole", "2.2.0")}, conversation.DelegationFinished{Delegation: "d1", Status: conversation.CallOK, Summary: "Built"},
	}, ends),
	// A draft that became a call.
	"draft_dropped": of(begins, play{
		delta("1.1.0", 0, "Let me"), conversation.DraftDropped{Task: task, Draft: "1.1.0"}, stepDone(1, 1),
		conversation.ToolStarted{Call: "c1", Tool: "clock", Args: `{"zone": "UTC"}`}, conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "12:30"},
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "It is 12:30", "")},
	}, ends),
	"tools": of(begins, play{
		stepDone(1, 1), conversation.ToolStarted{Call: "c1", Tool: "search", Args: `{"q":"x"}`}, conversation.ToolStarted{Call: "c2", Tool: "search", Args: `not JSON`},
		conversation.Progress{Task: task, Call: "c1", Note: "halfway", Percent: &percent},
		conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: `{"hits": [1, 2]}`}, conversation.ToolFinished{Call: "c2", Status: conversation.CallTimeout},
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "Found", "")},
	}, ends),
	"question": of(begins, play{
		stepDone(1, 1), conversation.Asked{Question: "q1", Text: "Which one?", Blocking: true, Choices: []string{"A", "B"}}, status(running, awaiting),
		accepted("m2-S", "ui:u2", "B", conversation.Answered), conversation.QuestionAnswered{Question: "q1", Message: "m2-S", Text: "B", By: "ann"},
		conversation.MessageResolved{Message: "m2-S", How: conversation.ResolvedMerged, Question: "q1"}, status(awaiting, queued), status(queued, running),
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "So B", "")},
	}, ends),
	"question_open": of(begins, play{stepDone(1, 1), conversation.Asked{Question: "q1", Text: "Which one?", Blocking: true}, status(running, awaiting)}),
	"question_expired": of(begins, play{
		stepDone(1, 1), conversation.Asked{Question: "q1", Text: "Which one?", Blocking: true}, status(running, awaiting),
		conversation.QuestionClosed{Question: "q1", Reason: conversation.QuestionExpired}, status(awaiting, queued), status(queued, running),
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "Nobody said", "")},
	}, ends),
	// One is allowed with other arguments, one is not, one is of a delegation and answered, one is closed.
	"approvals": of(begins, play{
		stepDone(1, 1), approval("q1", "c1", ""), approval("q2", "c2", ""), approval("d1.q1", "c1", "d1"), approval("d1.q2", "c2", "d1"), status(running, awaiting),
		conversation.QuestionAnswered{Question: "q1", Text: `{"approve":true,"args":{"path":"/b"}}`, By: "ann"}, conversation.ToolStarted{Call: "c1", Tool: "rm", Args: `{"path":"/b"}`},
		conversation.QuestionAnswered{Question: "q2", Text: "no", By: "ann"}, conversation.ToolFinished{Call: "c2", Status: conversation.CallDenied, Summary: "denied"},
		conversation.QuestionAnswered{Question: "d1.q1", Text: "yes", By: "ann"}, conversation.QuestionClosed{Question: "d1.q2", Reason: conversation.QuestionCancelled},
		conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "removed"}, status(awaiting, queued), status(queued, running),
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "Done", "")},
	}, ends),
	"approval_open": of(begins, play{stepDone(1, 1), approval("q1", "c1", ""), status(running, awaiting)}),
	// Nobody says anything, and the task is cancelled.
	"approval_closed": of(begins, play{
		stepDone(1, 1), approval("q1", "c1", ""), status(running, awaiting), conversation.TaskCancelling{By: conversation.ByUser},
		conversation.QuestionClosed{Question: "q1", Reason: conversation.QuestionCancelled}, conversation.ToolFinished{Call: "c1", Status: conversation.CallCancelled},
		conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedCancelled}, status(awaiting, conversation.TaskCancelled),
	}),
	"callers_tools": of(begins, play{
		stepDone(1, 1), conversation.ToolStarted{Call: "c1", Tool: "get_weather", Args: `{"city":"Oslo"}`, Caller: true},
		conversation.Asked{Question: "q1", Text: "get_weather is yours to run. Its result is the answer.", Blocking: true, Call: "c1"}, status(running, awaiting),
		accepted("m2-S", "ui-answer:q1", "12", conversation.Answered), conversation.QuestionAnswered{Question: "q1", Message: "m2-S", Text: "12", By: "ann"},
		conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "12"}, status(awaiting, queued), status(queued, running),
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "It is 12", "")},
	}, ends),
	"callers_tool_open": of(begins, play{
		stepDone(1, 1), conversation.ToolStarted{Call: "c1", Tool: "get_weather", Args: `{"city":"Oslo"}`, Caller: true},
		conversation.Asked{Question: "q1", Text: "get_weather is yours to run. Its result is the answer.", Blocking: true, Call: "c1"}, status(running, awaiting),
	}),
	"steering": of(begins, play{
		delta("1.1.0", 0, "One"), accepted("m2-S", "ui:u2", "And that", conversation.Joined, attached.File{Hash: "h", Name: "a.png", Type: "image/png", Size: 3}), stepDone(1, 1),
		conversation.PartialResponse{Part: says(1, "One", "1.1.0")}, step(2, 1, "m2-S"), stepDone(2, 1), conversation.Response{Part: says(2, "Two", "")}, answered("m2-S"),
	}, ends),
	"cancelled": of(begins, play{
		delta("1.1.0", 0, "Half"), conversation.TaskCancelling{By: conversation.ByUser, Reason: "enough"},
		conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedCancelled},
		conversation.TaskStatusChanged{Trigger: "m1-S", Old: running, New: conversation.TaskCancelled},
	}),
	"failed": of(begins, play{
		conversation.StepFinished{Step: 1, Attempt: 1, Outcome: conversation.StepError},
		conversation.Response{Part: says(1, "I could not answer.", ""), ResponseKind: conversation.ResponseError}, conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedFailed},
		conversation.TaskStatusChanged{Trigger: "m1-S", Old: running, New: failed, Error: &conversation.Failure{Code: conversation.Unavailable, Message: "the model does not answer"}},
	}),
	"cut": of(begins, play{
		conversation.StepFinished{Step: 1, Attempt: 1, Outcome: conversation.StepOK, Stop: conversation.StopLength, Model: "test"},
		conversation.Response{Part: conversation.Part{Message: "p1-S", Source: "m1-S", Text: "It is", Cut: true}},
	}, ends),
}

func approval(q conversation.QuestionID, call, delegation conversation.CallID) conversation.Asked {
	asked := gatewaytest.Approval(q, call, "rm", `{"path":"/a"}`)
	asked.Delegation = delegation
	return asked
}

// What a client is sent, byte for byte, and what it has in the end. A page that is loaded again
// has the same message, though nothing is known then of what has streamed.
func TestPlays(t *testing.T) {
	for name, p := range plays {
		t.Run(name, func(t *testing.T) {
			sent := p.stream()
			has := Rebuilt(sent)
			gatewaytest.Golden(t, "plays/"+name+".txt", slices.Concat(sent, []byte("\n"), []byte(has), []byte("\n")))
			if again := p.log(); again != has {
				t.Errorf("loaded again it is\n%s\nand was\n%s", again, has)
			}
		})
	}
}

// No file is left of a play that is no more.
func TestPlaysAreAll(t *testing.T) {
	gatewaytest.NoOther(t, "plays", len(plays))
}

// A page shows a text once whatever of a stream is told again: of each event that a client may
// have been cut off at, the numbers only grow.
func TestNumbersGrow(t *testing.T) {
	for name, p := range plays {
		last := exchange.Number(0)
		for line := range bytes.SplitSeq(p.stream(), []byte("\n")) {
			id, is := bytes.CutPrefix(line, []byte("id: "))
			if !is {
				continue
			}
			n, ok := exchange.ParseNumber(string(id))
			if !ok || n <= last {
				t.Errorf("%s: %s comes after %d", name, id, last)
			}
			last = n
		}
	}
}

// What a piece of a text costs on its way from the note to the bytes.
func BenchmarkTextDelta(b *testing.B) {
	s := newStream(told{key: conversation.SessionKey{Tenant: "default", Session: "S"}, task: task})
	n := &exchange.Note{Kind: exchange.TextGrew, At: 1 << 40, Own: true, Task: task, Item: &exchange.Item{ID: "1.1.0-t1-S"}, Delta: "some words of a text "}
	b.ReportAllocs()
	for b.Loop() {
		s.held = s.held[:0]
		s.add(n)
	}
}
