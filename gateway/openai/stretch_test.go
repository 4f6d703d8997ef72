package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/gatewaytest"
)

const task = gatewaytest.Task

// play is what happens in a session, in order: events of the task, and what streams beside them.
type play struct {
	from conversation.Seq // where the response begins; 0 = with the task
	does []any            // conversation.EventBody, conversation.Ephemeral
}

// notes hands on the notes of a play, and of its log alone.
func (p play) notes(live bool, take func(n *exchange.Note)) {
	does := p.does
	if !live {
		does = gatewaytest.Stored(does)
	}
	for n := range gatewaytest.Notes(exchange.NewFold(0, 0, false), does) {
		take(n)
	}
}

func (p play) stretch() *stretch {
	return newStretch(reference{task: task, from: p.from}, "m1-S", "coordinator")
}

// events are what a client is sent, and the response as it is then.
func (p play) events(live bool) (text []byte, s *stretch) {
	s = p.stretch()
	s.events = &events{send: func(event []byte) { text = appendEvent(text, event) }}
	p.notes(live, s.add)
	return text, s
}

// chunks are what a client of Chat Completions is sent.
func (p play) chunks() (text []byte) {
	w := &chunkWriter{s: p.stretch(), usage: true}
	w.s.whole = true
	p.notes(true, func(n *exchange.Note) {
		if !w.s.rests() {
			w.note(n)
		}
	})
	return w.text
}

// What plays are made of.
var status, says, step, stepDone, delta = gatewaytest.Status, gatewaytest.Says, gatewaytest.Step, gatewaytest.StepDone, gatewaytest.Delta

func accepted(id, text string, d conversation.Disposition, answers conversation.QuestionID) conversation.MessageAccepted {
	return conversation.MessageAccepted{Message: conversation.MessageID(id), Author: "ann", Text: text, Disposition: d, Via: conversation.ViaOpenAI, Question: answers}
}

func call(id conversation.CallID, q conversation.QuestionID) []any {
	return []any{
		conversation.ToolStarted{Call: id, Tool: "get_weather", Args: `{"city":"Oslo"}`, Caller: true},
		conversation.Asked{Question: q, Text: "get_weather is yours to run. Its result is the answer.", Blocking: true, Call: id},
	}
}

// result is the result of such a call.
func result(id conversation.CallID, q conversation.QuestionID, message string) []any {
	return []any{
		accepted(message, "-3", conversation.Answered, q), conversation.QuestionAnswered{Question: q, Message: conversation.MessageID(message), Text: "-3", By: "ann"},
		conversation.MessageResolved{Message: conversation.MessageID(message), How: conversation.ResolvedMerged, Question: q},
		conversation.ToolFinished{Call: id, Status: conversation.CallOK, Summary: "-3"},
	}
}

func approval(q conversation.QuestionID, c conversation.CallID) conversation.Asked {
	return gatewaytest.Approval(q, c, "rm", `{"path":"/a"}`)
}

const (
	queued, running, awaiting = conversation.TaskQueued, conversation.TaskRunning, conversation.TaskAwaiting
	complete, failedTask      = conversation.TaskComplete, conversation.TaskError
)

var (
	begins = []any{accepted("m1-S", "Go", conversation.Started, ""), status(queued, running), step(1, 1)}
	goesOn = []any{status(awaiting, queued), status(queued, running), step(2, 1), stepDone(2, 1)}
	ends   = []any{gatewaytest.Answered("m1-S"), status(running, complete)}
	rests  = []any{status(running, awaiting)}
)

// steers is what response.steer says while a text streams that comes to nothing, and a step that
// reads it, at its second attempt too.
var steers = of(begins, []any{
	delta("1.1.0", 0, "One"), stepDone(1, 1), conversation.PartialResponse{Part: says(1, "One", "1.1.0")}, step(2, 1), delta("2.1.0", 0, "Not this"),
	conversation.MessageAccepted{
		Message: "m2-S", Author: "ann", Text: "And that", Disposition: conversation.Joined, Mode: conversation.ModeSteer, Via: conversation.ViaOpenAI,
		ClientMsgID: door.OwnID(steerMark + "1"),
	}, stepDone(2, 1), step(3, 1, "m2-S"), conversation.StepStarted{Step: 3, Attempt: 2, Cause: conversation.CauseError, Read: []conversation.MessageID{"m2-S"}},
	delta("3.2.0", 0, "Two"), stepDone(3, 2), conversation.Response{Part: says(2, "Two", "3.2.0")}, conversation.MessageResolved{Message: "m2-S", How: conversation.ResolvedAnswered},
}, ends)

func of(pieces ...[]any) []any { return slices.Concat(pieces...) }

// plays are one for each thing that the API has to say.
var plays = map[string]play{
	"answer": {does: of(begins, []any{
		delta("1.1.0", 0, "Hel"), delta("1.1.0", 3, "lo, \"w"), delta("1.1.0", 9, "örld\""), stepDone(1, 1), conversation.Response{Part: says(1, "Hello, \"wörld\"", "1.1.0")},
	}, ends)},
	"not_streamed": {does: of(begins, []any{stepDone(1, 1), conversation.Response{Part: says(1, "Hello", "")}}, ends)},
	"unproven":     {does: of(begins, []any{stepDone(1, 1)}, gatewaytest.Unproven("Hello"))},
	"several_texts": {does: of(begins, []any{
		delta("1.1.0", 0, "One"), delta("1.1.1", 0, "Two"), stepDone(1, 1), conversation.PartialResponse{Part: says(1, "One", "1.1.0")},
		conversation.PartialResponse{Part: says(2, "Two", "1.1.1")}, step(2, 1), delta("2.1.0", 0, "Three"), stepDone(2, 1), conversation.Response{Part: says(3, "Three", "2.1.0")},
	}, ends)},
	"queued": {does: of([]any{accepted("m1-S", "Go", conversation.Queued, ""), status(queued, running), step(1, 1), stepDone(1, 1), conversation.Response{Part: says(1, "At last", "")}}, ends)},
	// Left over of a task that ended before it was read.
	"left_over": {does: of([]any{
		conversation.TaskStatusChanged{Trigger: "m1-S", New: queued}, status(queued, running), step(1, 1), stepDone(1, 1), conversation.Response{Part: says(1, "Here", "")},
	}, ends)},
	// The text of an attempt that is made again counts no more.
	"dropped": {does: of(begins, []any{
		delta("1.1.0", 0, "Half a te"), conversation.StepStarted{Step: 1, Attempt: 2, Cause: conversation.CauseError}, delta("1.2.0", 0, "Whole"), stepDone(1, 2),
		conversation.Response{Part: says(1, "Whole", "1.2.0")},
	}, ends)},
	"our_own_tools": {does: of(begins, []any{
		stepDone(1, 1), conversation.ToolStarted{Call: "c1", Tool: "clock", Args: `{"secret":1}`}, conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "secret"},
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(1, "It is noon", "")},
	}, ends)},
	"calls":          {does: of(begins, []any{stepDone(1, 1)}, call("c1", "q1"), call("c2", "q2"), rests)},
	"calls_answered": {from: 14, does: of(begins, []any{stepDone(1, 1)}, call("c1", "q1"), call("c2", "q2"), rests, result("c1", "q1", "m2-S"), result("c2", "q2", "m3-S"), goesOn, []any{conversation.Response{Part: says(1, "Cold", "")}}, ends)},
	"question":       {does: of(begins, []any{stepDone(1, 1), conversation.Asked{Question: "q1", Text: "Which one?", Blocking: true, Choices: []string{"A", "B"}}}, rests)},
	"question_beside": {does: of(begins, []any{
		stepDone(1, 1), conversation.Asked{Question: "q1", Text: "Which one?"}, step(2, 1), stepDone(2, 1), conversation.PartialResponse{Part: says(1, "So far", "")},
	}, rests)},
	"approvals": {does: of(begins, []any{stepDone(1, 1), approval("q1", "c1"), approval("q2", "c2")}, rests)},
	"one_of_two_approvals": {from: 8, does: of(begins, []any{stepDone(1, 1), approval("q1", "c1"), approval("q2", "c2")}, rests, []any{
		accepted("m2-S", `{"approve":true}`, conversation.Answered, "q1"), conversation.QuestionAnswered{Question: "q1", Message: "m2-S", Text: `{"approve":true}`, By: "ann"},
	})},
	"steered": {does: of(begins, []any{
		delta("1.1.0", 0, "One"), accepted("m2-S", "And that", conversation.Joined, ""), stepDone(1, 1), conversation.PartialResponse{Part: says(1, "One", "1.1.0")},
		step(2, 1), stepDone(2, 1), conversation.Response{Part: says(2, "Two", "")}, conversation.MessageResolved{Message: "m2-S", How: conversation.ResolvedAnswered},
	}, ends)},
	"steered_by_socket": {does: steers},
	"behind_a_steer":    {from: 9, does: steers},
	"cancelled": {does: of(begins, []any{
		delta("1.1.0", 0, "Half"), conversation.TaskCancelling{By: conversation.ByUser}, conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedCancelled},
		status(running, conversation.TaskCancelled),
	})},
	"failed": {does: of(begins, []any{
		conversation.StepFinished{Step: 1, Attempt: 1, Outcome: conversation.StepError}, conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedFailed},
		conversation.TaskStatusChanged{Trigger: "m1-S", Old: running, New: failedTask, Error: &conversation.Failure{Code: conversation.RateLimited, Message: "the model takes no more requests"}},
	})},
	"cut": {does: of(begins, []any{
		conversation.StepFinished{Step: 1, Attempt: 1, Outcome: conversation.StepOK, Stop: conversation.StopLength},
		conversation.Response{Part: conversation.Part{Message: "p1-S", Source: "m1-S", Text: "It is", Cut: true}},
	}, ends)},
	"filtered": {does: of(begins, []any{
		conversation.StepFinished{Step: 1, Attempt: 1, Outcome: conversation.StepOK, Stop: conversation.StopFiltered}, conversation.Response{Part: says(1, "It", "")},
	}, ends)},
}

// What clients are sent, byte for byte: the events of a response, and the chunks of a completion.
func TestPlays(t *testing.T) {
	for name, p := range plays {
		t.Run(name, func(t *testing.T) {
			sent, _ := p.events(true)
			gatewaytest.Golden(t, "plays/"+name+".txt", slices.Concat(sent, p.chunks()))
		})
	}
}

// No file is left of a play that is no more.
func TestPlaysAreAll(t *testing.T) {
	gatewaytest.NoOther(t, "plays", len(plays))
}

// sent is an event, as far as this test looks at it.
type sent struct {
	Type   string
	Number uint64 `json:"sequence_number"`
	Index  *int   `json:"output_index"`
	ItemID string `json:"item_id"`
	Delta  string
	Text   string
	Item   struct{ ID, Status string }
}

// Whatever is played, an SDK that puts the events together has the response in the end: numbers
// grow, items begin and end once, each at a place of its own, and pieces are the text. A response
// that is retrieved is the one that was streamed: nothing is known then of what has streamed.
func TestEventsFitTogether(t *testing.T) {
	for name, p := range plays {
		t.Run(name, func(t *testing.T) {
			text, s := p.events(true)
			last, open := uint64(0), map[string]string{}
			places := map[int]string{}
			for line := range bytes.SplitSeq(text, []byte("\n")) {
				data, is := bytes.CutPrefix(line, []byte("data: "))
				if !is {
					continue
				}
				var e sent
				if err := json.Unmarshal(data, &e); err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				if e.Number <= last {
					t.Errorf("%s has the number %d, behind %d", e.Type, e.Number, last)
				}
				last = e.Number
				switch e.Type {
				case "response.output_item.added":
					if other, taken := places[*e.Index]; taken {
						t.Errorf("%s is at the place of %s", e.Item.ID, other)
					}
					places[*e.Index], open[e.Item.ID] = e.Item.ID, ""
				case "response.output_text.delta":
					open[e.ItemID] += e.Delta
				case "response.output_text.done":
					if open[e.ItemID] != e.Text {
						t.Errorf("%s was %q in pieces and is %q", e.ItemID, open[e.ItemID], e.Text)
					}
				case "response.output_item.done":
					if places[*e.Index] != e.Item.ID {
						t.Errorf("%s ends at the place of %q", e.Item.ID, places[*e.Index])
					}
					delete(open, e.Item.ID)
				}
			}
			if len(open) > 0 {
				t.Errorf("they have not ended: %v", open)
			}
			if !s.rests() {
				t.Fatalf("it is %s in the end", s.status)
			}
			_, stored := p.events(false)
			if live, again := encode(s.object()), encode(stored.object()); !bytes.Equal(live, again) {
				t.Errorf("retrieved it is\n%s\nand was\n%s", again, live)
			}
		})
	}
}

// The number of any event is one to go on behind: what follows is the same, whichever of the
// events of a note it is.
func TestSeenEventsAreLeftOut(t *testing.T) {
	whole, _ := plays["calls"].events(true)
	for seen := range 5 {
		var text []byte
		s := plays["calls"].stretch()
		s.events = &events{send: func(event []byte) { text = appendEvent(text, event) }}
		plays["calls"].notes(true, func(n *exchange.Note) {
			if n.Kind != exchange.Asked {
				n.Seen = exchange.MaxNumbers
			} else if n.Question.Asked.Question == "q1" {
				n.Seen = seen
			}
			s.add(n)
		})
		if seen == 0 && bytes.Count(text, []byte("event: ")) != 8 || seen > 0 && bytes.Count(text, []byte("event: ")) != 8-seen {
			t.Errorf("of %d that were seen the rest is %s", seen, text)
		}
		for event := range bytes.SplitAfterSeq(text, []byte("\n\n")) {
			if !bytes.Contains(whole, event) {
				t.Errorf("it is another event: %s", event)
			}
		}
	}
}

// What a piece of a text costs on its way from the note to the bytes.
func BenchmarkTextDelta(b *testing.B) {
	var text []byte
	s := plays["answer"].stretch()
	s.events = &events{send: func(event []byte) { text = appendEvent(text[:0], event) }}
	s.begun, s.run.Status = true, running
	n := &exchange.Note{Kind: exchange.TextGrew, At: 1 << 40, Own: true, Task: task, Item: &exchange.Item{ID: "1.1.0-t1-S"}, Delta: "some words of a text "}
	b.ReportAllocs()
	for b.Loop() {
		s.shown = s.shown[:0]
		s.add(n)
	}
}

// The same in a completion.
func BenchmarkChunk(b *testing.B) {
	w := &chunkWriter{s: plays["answer"].stretch(), role: true}
	w.s.begun, w.s.run.Status = true, running
	n := &exchange.Note{Kind: exchange.TextGrew, At: 1 << 40, Own: true, Task: task, Item: &exchange.Item{ID: "1.1.0-t1-S"}, Delta: "some words of a text "}
	b.ReportAllocs()
	for b.Loop() {
		w.text, w.s.shown = w.text[:0], w.s.shown[:0]
		w.note(n)
	}
}
