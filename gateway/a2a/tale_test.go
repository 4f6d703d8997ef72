package a2a

import (
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/gateway/exchange"
	"parley/gateway/gatewaytest"
)

const task = gatewaytest.Task

var here = place{address: "http://parley.example", context: "S", key: conversation.SessionKey{Tenant: "default", Session: "S"}, task: task}

// play is what happens in a session, in order: events of the task, and what streams beside them.
type play []any // conversation.EventBody, conversation.Ephemeral

// notes folds the play, from its beginning.
func (p play) notes(take func(n *exchange.Note)) {
	for n := range gatewaytest.Notes(exchange.NewFold(0, 0, false), p) {
		take(n)
	}
}

// stream is what a client is sent that has said the first message.
func (p play) stream(rpc string) string {
	var id []byte
	if rpc != "" {
		id = []byte(rpc)
	}
	s := newStream(newTale(here), from{upto: 1, rests: true}, id)
	p.notes(func(n *exchange.Note) { s.add(n) })
	s.add(&exchange.Note{Kind: exchange.Synced})
	return string(s.held)
}

// stored is the task as it is asked for: of the events alone.
func (p play) stored() *tale {
	t := newTale(here)
	gatewaytest.Stored(p).into(t)
	return t
}

func (p play) into(t *tale) { p.notes(func(n *exchange.Note) { t.add(n) }) }

// What plays are made of.
var status, says, step, stepDone, delta, answered = gatewaytest.Status, gatewaytest.Says, gatewaytest.Step, gatewaytest.StepDone, gatewaytest.Delta, gatewaytest.Answered

func accepted(id, client, text string, d conversation.Disposition, files ...attached.File) conversation.MessageAccepted {
	return conversation.MessageAccepted{
		Message: conversation.MessageID(id), ClientMsgID: conversation.ClientMsgID(client), Author: "ann", Text: text,
		Disposition: d, Via: conversation.ViaA2A, Files: files,
	}
}

func approval(q conversation.QuestionID, call conversation.CallID, args string) conversation.Asked {
	return gatewaytest.Approval(q, call, "rm", args)
}

const (
	queued, running, awaiting = conversation.TaskQueued, conversation.TaskRunning, conversation.TaskAwaiting
	complete, failed          = conversation.TaskComplete, conversation.TaskError
)

var (
	begins = play{accepted("m1-S", "a2a:u1", "Go", conversation.Started), status(queued, running), step(1, 1, "m1-S")}
	ends   = play{answered("m1-S"), status(running, complete)}
	sooner = "B"
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
		delta("1.1.0", 0, "One"), stepDone(1, 1), conversation.PartialResponse{Part: says(1, "One", "1.1.0")},
		conversation.PartialResponse{Part: says(2, "Two", "")}, step(2, 1), delta("2.1.0", 0, "Three"), stepDone(2, 1),
		conversation.Response{Part: says(3, "Three", "2.1.0")},
	}, ends),
	// The last text of a task that had ended before.
	"promoted": of(begins, play{
		stepDone(1, 1), conversation.PartialResponse{Part: says(1, "Hello", "")}, step(2, 1), stepDone(2, 1),
		conversation.Response{Part: says(1, "Hello", ""), Promoted: true},
	}, ends),
	// The text of an attempt that is made again counts no more.
	"dropped": of(begins, play{
		delta("1.1.0", 0, "Half"), delta("1.1.0", 4, " a te"), conversation.StepStarted{Step: 1, Attempt: 2, Cause: conversation.CauseError},
		delta("1.2.0", 0, "Whole"), stepDone(1, 2), conversation.Response{Part: says(1, "Whole", "1.2.0")},
	}, ends),
	// Calls of tools are not shown.
	"tools": of(begins, play{
		stepDone(1, 1), conversation.ToolStarted{Call: "c1", Tool: "search", Args: `{"q":"x"}`}, conversation.Progress{Task: task, Call: "c1", Note: "halfway"},
		conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: `{"hits": [1, 2]}`}, step(2, 1), stepDone(2, 1),
		conversation.Response{Part: says(1, "Found", "")},
	}, ends),
	"question": of(begins, play{
		stepDone(1, 1), conversation.Asked{Question: "q1", Text: "Which one?", Blocking: true, Choices: []string{"A", "B"}, ExpiresAt: time.UnixMilli(1_800_000_060_000), Default: &sooner}, status(running, awaiting),
		accepted("m2-S", "a2a:u2", "B", conversation.Answered), conversation.QuestionAnswered{Question: "q1", Message: "m2-S", Text: "B", By: "ann"},
		conversation.MessageResolved{Message: "m2-S", How: conversation.ResolvedMerged, Question: "q1"}, status(awaiting, queued), status(queued, running),
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "So B", "")},
	}, ends),
	"question_open": of(begins, play{stepDone(1, 1), conversation.Asked{Question: "q1", Text: "Which one?", Blocking: true}, status(running, awaiting)}),
	// The work goes on with it open.
	"question_beside": of(begins, play{
		stepDone(1, 1), conversation.Asked{Question: "q1", Text: "Which colour?"}, step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "Done", "")},
		conversation.QuestionClosed{Question: "q1", Reason: conversation.QuestionSuperseded},
	}, ends),
	"two_questions": of(begins, play{
		stepDone(1, 1), conversation.Asked{Question: "q1", Text: "Which one?", Blocking: true}, approval("q2", "c2", `{"path": "/a"}`), status(running, awaiting),
		conversation.QuestionAnswered{Question: "q1", Text: "B", By: "ann"},
	}),
	"approval": of(begins, play{
		stepDone(1, 1), approval("q1", "c1", `{"path": "/a"}`), status(running, awaiting),
		conversation.QuestionAnswered{Question: "q1", Text: `{"approve":true}`, By: "ann"}, conversation.ToolStarted{Call: "c1", Tool: "rm", Args: `{"path":"/a"}`},
		conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "removed"}, status(awaiting, queued), status(queued, running),
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "Done", "")},
	}, ends),
	"approval_open": of(begins, play{stepDone(1, 1), approval("q1", "c1", "not JSON"), status(running, awaiting)}),
	"callers_tool": of(begins, play{
		stepDone(1, 1), conversation.ToolStarted{Call: "c1", Tool: "get_weather", Args: `{"city":"Oslo"}`, Caller: true},
		conversation.Asked{Question: "q1", Text: "get_weather is yours to run. Its result is the answer.", Blocking: true, Call: "c1"}, status(running, awaiting),
	}),
	"steering": of(begins, play{
		delta("1.1.0", 0, "One"), accepted("m2-S", "a2a:u2", "And that", conversation.Joined, attached.File{Hash: "h", Name: "a.png", Type: "image/png", Size: 3}), stepDone(1, 1),
		conversation.PartialResponse{Part: says(1, "One", "1.1.0")}, step(2, 1, "m2-S"), stepDone(2, 1), conversation.Response{Part: says(2, "Two", "")}, answered("m2-S"),
	}, ends),
	"queued": {accepted("m1-S", "a2a:u1", "Go", conversation.Queued)},
	"cancelled": of(begins, play{
		delta("1.1.0", 0, "Half"), conversation.TaskCancelling{By: conversation.ByUser, Reason: "enough"},
		conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedCancelled},
		conversation.TaskStatusChanged{Trigger: "m1-S", Old: running, New: conversation.TaskCancelled, Reason: "enough"},
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
	// What others have said to the session over other protocols has other names here.
	"others": of(play{
		conversation.MessageAccepted{Message: "m1-S", ClientMsgID: "a2a:u1", Author: "bob", AuthorName: "Bob", Text: "Go", Disposition: conversation.Started, Via: conversation.ViaWebSocket}, status(queued, running),
		accepted("m2-S", "a2a:sha256:00", "More", conversation.Joined), step(1, 1), stepDone(1, 1), conversation.Response{Part: says(1, "Gone", "")}, answered("m2-S"),
	}, ends),
}

// What a client is sent, byte for byte, and the task as it is asked for. Who has followed it all
// the time has the same.
func TestPlays(t *testing.T) {
	for name, p := range plays {
		t.Run(name, func(t *testing.T) {
			sent, stored := p.stream(""), p.stored()
			asked := string(stored.appendTask(nil, view{history: all, artifacts: true}))
			gatewaytest.Golden(t, "plays/"+name+".txt", []byte(sent+"\n"+asked+"\n"))
			seen := Read(sent)
			if len(seen.Wrong) > 0 {
				t.Errorf("%q", seen.Wrong)
			}
			again := Read(`data: {"task":` + asked + "}\n\n")
			if got, want := seen.Has(), again.Has(); got != want {
				t.Errorf("who has followed it has %s, and it is %s", got, want)
			}
		})
	}
}

// No file is left of a play that is no more.
func TestPlaysAreAll(t *testing.T) {
	gatewaytest.NoOther(t, "plays", len(plays))
}

// The ids of events only grow.
func TestNumbersGrow(t *testing.T) {
	for name, p := range plays {
		last := exchange.Number(0)
		for _, id := range Read(p.stream("7")).IDs {
			n, ok := exchange.ParseNumber(id)
			if !ok || n <= last {
				t.Errorf("%s: %s comes after %d", name, id, last)
			}
			last = n
		}
	}
}

// Over JSON-RPC each event is a response to the call.
func TestEnvelope(t *testing.T) {
	for event := range strings.SplitSeq(strings.TrimSpace(plays["answer"].stream(`"c-1"`)), "\n\n") {
		_, data, _ := strings.Cut(event, "data: ")
		if !strings.HasPrefix(data, `{"jsonrpc":"2.0","id":"c-1","result":{"`) || !strings.HasSuffix(data, "}}") {
			t.Errorf("the event is %s", event)
		}
	}
}

// Of a long history the last messages are shown.
func TestHistoryIsBounded(t *testing.T) {
	p := of(begins)
	for range 2 * maxHistory {
		p = append(p, accepted("m2-S", "a2a:u2", "More", conversation.Joined))
	}
	for asks, want := range map[int]int{all: maxHistory, 0: 0, 1: 1, maxHistory: maxHistory, 10 * maxHistory: maxHistory} {
		text := string(p.stored().appendTask(nil, view{history: asks}))
		if got := strings.Count(text, `"ROLE_USER"`); got != want {
			t.Errorf("of a history of %d there are %d messages, want %d", asks, got, want)
		}
		if want == 0 && strings.Contains(text, "history") {
			t.Errorf("a history of none is there: %s", text)
		}
	}
}

// What a piece of a text costs on its way from the note to the bytes.
func BenchmarkTextDelta(b *testing.B) {
	s := newStream(newTale(here), from{upto: 1}, []byte("1"))
	s.begun = true
	n := &exchange.Note{Kind: exchange.TextGrew, At: 1 << 40, Own: true, Task: task, Item: &exchange.Item{ID: "1.1.0-t1-S", Runes: 40}, Delta: "some words of a text "}
	b.ReportAllocs()
	for b.Loop() {
		s.held = s.held[:0]
		s.add(n)
	}
}
