package agui

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/gatewaytest"
)

const task = gatewaytest.Task

// play is what happens in a session, in order: events of the task, and what streams beside them.
type play []any // conversation.EventBody, conversation.Event (of another task), conversation.Ephemeral

// teller makes events of plays as a stream does that follows the message m1-S.
type teller struct {
	*events
	gatewaytest.Teller[exchange.Note]
	after exchange.Number // the client has been told all up to there
}

func newTeller() *teller {
	e := newEvents(identity{thread: "T", run: "R"}, "ann", exchange.NewRun("m1-S", task))
	e.names["m1-S"] = "u1"
	return &teller{events: e, Teller: gatewaytest.Teller[exchange.Note]{Fold: exchange.NewFold(0, 0, false)}}
}

func (t *teller) add(x any) {
	notes := t.Tell(x)
	for i := range notes {
		n := &notes[i]
		for n.Own && n.Seen < exchange.MaxNumbers && n.Number(n.Seen) <= t.after { // as a follower counts
			n.Seen++
		}
		t.events.add(n)
	}
}

// stream is what a client is sent of a play, to the end of the run.
func (p play) stream() []byte {
	t := newTeller()
	t.begin(exchange.NumberAfter(0), "/agui/T/runs/t1-S?message=m1-S&runId=R", nil, nil)
	for _, x := range p {
		t.add(x)
	}
	t.finish()
	return t.buf
}

// What plays are made of.
var status, says, step, delta = gatewaytest.Status, gatewaytest.Says, gatewaytest.Step, gatewaytest.Delta

func accepted(id, client, text string, via conversation.Via) conversation.MessageAccepted {
	return conversation.MessageAccepted{Message: conversation.MessageID(id), ClientMsgID: conversation.ClientMsgID(client), Author: "ann", Text: text, Via: via}
}

func by(user conversation.UserID, m conversation.MessageAccepted) conversation.MessageAccepted {
	m.Author = user
	return m
}

func answer(id, client string, q conversation.QuestionID, text string, via conversation.Via) conversation.MessageAccepted {
	m := accepted(id, client, text, via)
	m.Question, m.Disposition = q, conversation.Answered
	return m
}

func stepDone(n int) conversation.StepFinished {
	done := gatewaytest.StepDone(n, 1)
	done.Usage.CachedTokens = 4
	return done
}

func resolvedMessage(message string, how conversation.Resolution) conversation.MessageResolved {
	return conversation.MessageResolved{Message: conversation.MessageID(message), How: how, Evidence: conversation.EvidenceOnly}
}

func approval(q conversation.QuestionID, call, delegation conversation.CallID) conversation.Asked {
	asked := gatewaytest.Approval(q, call, "rm", `{"path":"/a"}`)
	asked.Delegation, asked.Choices = delegation, nil
	return asked
}

const (
	queued, running, awaiting = conversation.TaskQueued, conversation.TaskRunning, conversation.TaskAwaiting
	complete, failed          = conversation.TaskComplete, conversation.TaskError
	cancelled                 = conversation.TaskCancelled
	native, agui              = conversation.ViaHTTP, conversation.ViaAGUI
)

var (
	begins   = play{accepted("m1-S", "agui:u1", "Go", agui), status(queued, running), step(1, 1)}
	ends     = play{resolvedMessage("m1-S", conversation.ResolvedAnswered), status(running, complete)}
	goes     = play{status(awaiting, queued), status(queued, running)}
	percent  = 40
	noon     = time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	building = conversation.DelegationStarted{Delegation: "d1-S", Agent: "developer", Objective: "Build it", Session: "S/d1"}
	weather  = conversation.ToolStarted{Call: "c1-S", Tool: "get_weather", Args: `{"city":"Oslo"}`, Caller: true}
	ofCall   = conversation.Asked{Question: "q1-S", Text: "get_weather is yours to run. Its result is the answer.", Blocking: true, Call: "c1-S"}
)

func of(plays ...play) play { return slices.Concat(plays...) }

// plays are one for each thing that the protocol has to say. The last event is that at which
// a client is told how the run ended.
var plays = map[string]play{
	"answer": of(begins, play{
		delta("1.1.0", 0, "Hel"), delta("1.1.0", 3, "lo, \"w"), delta("1.1.0", 9, "örld\""), stepDone(1), conversation.Response{Part: says(1, "Hello, \"wörld\"", "1.1.0")},
	}, ends),
	"unproven": of(begins, play{stepDone(1)}, gatewaytest.Unproven("Hello")),
	"several_texts": of(begins, play{
		delta("1.1.0", 0, "One"), delta("1.1.1", 0, "Two"), stepDone(1), conversation.PartialResponse{Part: says(1, "One", "1.1.0")},
		conversation.PartialResponse{Part: says(2, "Two", "1.1.1")}, step(2, 1), delta("2.1.0", 0, "Three"), stepDone(2), conversation.Response{Part: says(3, "Three", "2.1.0")},
	}, ends),
	"dropped": of(begins, play{
		delta("1.1.0", 0, "Half a te"), conversation.StepStarted{Step: 1, Attempt: 2, Cause: conversation.CauseError}, delta("1.2.0", 0, "Whole"), stepDone(1),
		conversation.Response{Part: says(1, "Whole", "1.2.0")},
	}, ends),
	"changed": of(begins, play{delta("1.1.0", 0, "Hal"), stepDone(1), conversation.Response{Part: says(1, "Whole", "1.1.0")}}, ends),
	"tool": of(begins, play{
		stepDone(1), conversation.ToolStarted{Call: "c1-S", Tool: "clock", Args: `{"zone":"UTC"}`},
		conversation.Progress{Task: task, Call: "c1-S", Note: "winding", Percent: &percent}, conversation.ToolFinished{Call: "c1-S", Status: conversation.CallOK, Summary: "noon"},
		step(2, 1), stepDone(2), conversation.Response{Part: says(1, "It is noon", "")},
	}, ends),
	"delegation": of(begins, play{
		stepDone(1), building, conversation.ToolStarted{Call: "c2-S", Tool: "shell", Args: `{}`, Delegation: "d1-S"},
		conversation.ToolFinished{Call: "c2-S", Status: conversation.CallError, Summary: "no such file"}, conversation.DelegationFinished{Delegation: "d1-S", Status: conversation.CallOK, Summary: "Built"},
		conversation.DelegationStarted{Delegation: "d2-S", Agent: "tester", Objective: "Test it", Session: "S/d2"}, conversation.DelegationFinished{Delegation: "d2-S", Status: conversation.CallFailed, Summary: "It broke"},
		step(2, 1), stepDone(2), conversation.Response{Part: says(1, "Built", "")},
	}, ends),
	"callers_tool": of(begins, play{stepDone(1), weather, ofCall, status(running, awaiting)}),
	"callers_tool_and_a_question": of(begins, play{
		stepDone(1), weather, ofCall, conversation.Asked{Question: "q2-S", Text: "In which unit?", Blocking: true, Choices: []string{"C", "F"}}, status(running, awaiting),
	}),
	"callers_tool_that_another_client_has_run": of(begins, play{
		stepDone(1), weather, ofCall, status(running, awaiting), answer("m2-S", "other", "q1-S", "12", native),
		conversation.QuestionAnswered{Question: "q1-S", Message: "m2-S", Text: "12", By: "ann"}, conversation.ToolFinished{Call: "c1-S", Status: conversation.CallOK, Summary: "12"},
	}, goes, play{step(2, 1), stepDone(2), conversation.Response{Part: says(1, "It is 12", "")}}, ends),
	"callers_tool_that_has_run": of(begins, play{
		stepDone(1), weather, ofCall, status(running, awaiting), answer("m2-S", "agui.result:c1-S", "q1-S", "12", agui),
		conversation.QuestionAnswered{Question: "q1-S", Message: "m2-S", Text: "12", By: "ann"}, conversation.ToolFinished{Call: "c1-S", Status: conversation.CallOK, Summary: "12"},
	}, goes, play{step(2, 1), stepDone(2), conversation.Response{Part: says(1, "It is 12", "")}}, ends),
	"questions": of(begins, play{
		stepDone(1), conversation.Asked{Question: "q1-S", Text: "When?", Blocking: true, ExpiresAt: noon}, conversation.Asked{Question: "q2-S", Text: "Where?", Choices: []string{"Oslo", "Rome"}},
		status(running, awaiting),
	}),
	"question_answered": of(begins, play{
		stepDone(1), conversation.Asked{Question: "q1-S", Text: "When?", Blocking: true}, status(running, awaiting), answer("m2-S", "web", "q1-S", "Now", native),
		conversation.QuestionAnswered{Question: "q1-S", Message: "m2-S", Text: "Now", By: "ann"},
	}, goes, play{step(2, 1), stepDone(2), conversation.Response{Part: says(1, "Now it is", "")}}, ends),
	"question_that_does_not_block": of(begins, play{
		stepDone(1), conversation.Asked{Question: "q1-S", Text: "Which?"}, step(2, 1), stepDone(2), status(running, awaiting),
	}),
	"approval": of(begins, play{stepDone(1), approval("q1-S", "c1-S", ""), status(running, awaiting)}),
	"approval_given": of(begins, play{
		stepDone(1), approval("q1-S", "c1-S", ""), status(running, awaiting), answer("m2-S", "agui.answer:q1-S", "q1-S", `{"approve":true}`, agui),
		conversation.QuestionAnswered{Question: "q1-S", Message: "m2-S", Text: "yes", By: "ann"}, conversation.ToolStarted{Call: "c1-S", Tool: "rm", Args: `{"path":"/a"}`},
	}, goes, play{conversation.ToolFinished{Call: "c1-S", Status: conversation.CallOK, Summary: "removed"}, step(2, 1), stepDone(2), conversation.Response{Part: says(1, "Done", "")}}, ends),
	"approval_declined": of(begins, play{
		stepDone(1), approval("q1-S", "c1-S", ""), status(running, awaiting),
		conversation.QuestionAnswered{Question: "q1-S", Text: "no", By: "ann"}, conversation.ToolFinished{Call: "c1-S", Status: conversation.CallDenied, Summary: "denied"},
	}, goes, play{step(2, 1), stepDone(2), conversation.Response{Part: says(1, "Then not", "")}}, ends),
	"delegation_asks": of(begins, play{
		stepDone(1), building, conversation.DelegationStarted{Delegation: "d2-S", Agent: "tester", Objective: "Test it", Session: "S/d2"},
		conversation.Asked{Question: "d1.q1-S", Text: "Which?", Blocking: true, Delegation: "d1-S"}, approval("d2.q1-S", "d2.c1-S", "d2-S"), status(running, awaiting),
	}),
	"others_speak": of(begins, play{
		delta("1.1.0", 0, "One"), accepted("m2-S", "web", "And that", native), stepDone(1), conversation.PartialResponse{Part: says(1, "One", "1.1.0")}, step(2, 1), stepDone(2),
		conversation.Event{Task: "t9-S", Body: conversation.PartialResponse{Part: conversation.Part{Message: "p9-S", Text: "Of another task"}}},
		conversation.Response{Part: says(2, "Two", "")}, resolvedMessage("m2-S", conversation.ResolvedAnswered),
	}, ends),
	"others_call_it_the_same": of(begins, play{
		by("bob", accepted("m2-S", "agui:u1", "And that", agui)), stepDone(1), conversation.Response{Part: says(1, "One", "")}, resolvedMessage("m2-S", conversation.ResolvedAnswered),
	}, ends),
	"cancelled": of(begins, play{
		building, delta("1.1.0", 0, "Half"), conversation.TaskCancelling{By: conversation.ByUser, Reason: "enough"}, resolvedMessage("m1-S", conversation.ResolvedCancelled), status(running, cancelled),
	}),
	"withdrawn": {accepted("m1-S", "agui:u1", "Go", agui), conversation.MessageWithdrawn{Message: "m1-S"}, resolvedMessage("m1-S", conversation.ResolvedWithdrawn)},
	"failed": of(begins, play{
		conversation.StepFinished{Step: 1, Attempt: 1, Outcome: conversation.StepError, Model: "test"},
		conversation.Response{Part: says(1, "I could not answer.", ""), ResponseKind: conversation.ResponseError}, resolvedMessage("m1-S", conversation.ResolvedFailed),
		conversation.TaskStatusChanged{Trigger: "m1-S", Old: running, New: failed, Error: &conversation.Failure{Code: conversation.Unavailable, Message: "the model does not answer"}},
	}),
}

// What a client is sent, byte for byte, and that the protocol allows it.
func TestPlays(t *testing.T) {
	for name, p := range plays {
		t.Run(name, func(t *testing.T) {
			sent := p.stream()
			gatewaytest.Golden(t, "plays/"+name+".txt", sent)
			all, err := parse(sent)
			if err != nil {
				t.Fatal(err)
			}
			v, last := newVerifier(), ""
			for _, e := range all {
				if err := v.add(e); err != nil {
					t.Errorf("%v\n%v", err, e)
				}
				if e.id != "" && len(e.id) == len(last) && e.id < last {
					t.Errorf("%s comes after %s", e.id, last)
				}
				last = e.id
			}
			if !v.finished && !v.failed {
				t.Error("it does not end")
			}
		})
	}
}

// No file is left of a play that is no more.
func TestPlaysAreAll(t *testing.T) {
	gatewaytest.NoOther(t, "plays", len(plays))
}

// random makes a play of random things in an order that can be, which may stop anywhere.
func random(r *rand.Rand) play {
	p := slices.Clone(begins)
	var calls, agents []conversation.CallID
	var asked []conversation.QuestionID
	n, attempt, open, said := 1, 1, "", ""
	id := func(letter string) string { n++; return fmt.Sprintf("%s%d-S", letter, n) }
	pick := func(list *[]conversation.CallID) (id conversation.CallID) {
		i := r.IntN(len(*list))
		id = (*list)[i]
		*list = slices.Delete(*list, i, i+1)
		return id
	}
	steps := 1
	for range r.IntN(60) {
		switch r.IntN(14) {
		case 0, 1, 2:
			if open == "" {
				open, said = fmt.Sprintf("%d.%d.0", steps, attempt), ""
			}
			p = append(p, delta(open, utf8.RuneCountInString(said), "ä b"))
			said += "ä b"
		case 3:
			p = append(p, conversation.PartialResponse{Part: says(n, said+"end", open)})
			id("p")
			open, said = "", ""
			steps, attempt = steps+1, 1
			p = append(p, stepDone(steps-1), step(steps, 1))
		case 4:
			attempt++
			open, said = "", ""
			p = append(p, step(steps, attempt))
		case 5:
			c := conversation.CallID(id("c"))
			calls = append(calls, c)
			p = append(p, conversation.ToolStarted{Call: c, Tool: "t", Args: "{}"})
		case 6:
			c := conversation.CallID(id("d"))
			agents = append(agents, c)
			p = append(p, conversation.DelegationStarted{Delegation: c, Agent: "a", Objective: "o"})
		case 7:
			if len(calls) > 0 {
				p = append(p, conversation.ToolFinished{Call: pick(&calls), Status: conversation.CallStatus(1 + r.IntN(6)), Summary: "r"})
			}
		case 8:
			if len(agents) > 0 {
				p = append(p, conversation.DelegationFinished{Delegation: pick(&agents), Status: conversation.CallStatus(1 + r.IntN(7)), Summary: "r"})
			}
		case 9:
			q, c := conversation.QuestionID(id("q")), conversation.CallID(id("c"))
			asked = append(asked, q)
			p = append(p, []any{conversation.Asked{Question: q, Text: "?", Blocking: r.IntN(2) == 0}, approval(q, c, "")}[r.IntN(2)])
		case 10:
			if len(asked) > 0 {
				q := asked[len(asked)-1]
				asked = asked[:len(asked)-1]
				via := []conversation.Via{native, agui}[r.IntN(2)]
				m := id("m")
				p = append(p, answer(m, "agui.answer:"+m, q, "yes", via), conversation.QuestionAnswered{Question: q, Message: conversation.MessageID(m), Text: "yes"})
			}
		case 11:
			q, c := conversation.QuestionID(id("q")), conversation.CallID(id("c"))
			p = append(p, conversation.ToolStarted{Call: c, Tool: "own", Args: "{}", Caller: true}, conversation.Asked{Question: q, Text: "?", Blocking: true, Call: c})
			asked = append(asked, q)
			calls = append(calls, c)
		case 12:
			m := id("m")
			p = append(p, accepted(m, []string{"web:", "agui:"}[r.IntN(2)]+m, "and", []conversation.Via{native, agui}[r.IntN(2)]))
		case 13:
			old, now := []conversation.TaskStatus{running, awaiting, queued}[r.IntN(3)], []conversation.TaskStatus{running, awaiting, queued}[r.IntN(3)]
			if p = append(p, status(old, now)); now == awaiting {
				open, said, steps, attempt = "", "", steps+1, 1 // it is dropped
				p = append(p, step(steps, attempt))
			}
		}
	}
	return append(p, status(running, []conversation.TaskStatus{complete, failed, cancelled, awaiting}[r.IntN(4)]))
}

// Whatever happens in a session, each stream that begins at any moment and ends at any later one
// is one that the protocol's verifier accepts: nothing stays open, and nothing is told twice.
func TestVerified(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for round := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, round))
		p := random(r)
		from := r.IntN(len(p) + 1)
		s := newTeller()
		for _, x := range p[:from] { // of which this client is told nothing
			s.add(x)
		}
		if r.IntN(4) == 0 {
			from = 0
			s = newTeller()
		}
		s.buf = nil
		s.begin(exchange.NumberAfter(s.Seq), "", nil, nil)
		if open := s.open; open != "" { // it streams: a client that comes now is told all of it
			s = nil
		}
		if s == nil {
			continue
		}
		for _, x := range p[from:] {
			s.add(x)
		}
		s.finish()
		all, err := parse(s.buf)
		if err != nil {
			t.Fatal(err)
		}
		v := newVerifier()
		for _, e := range all {
			if err := v.add(e); err != nil {
				t.Fatalf("seed %d round %d from %d: %v\n%v\n%s", seed, round, from, err, e, s.buf)
			}
		}
		if !v.finished && !v.failed {
			t.Fatalf("seed %d round %d: it does not end", seed, round)
		}
	}
}

// A client that was cut off behind any event is sent those behind it, byte for byte: what it was
// told before is known, and not told again.
func TestGoesOnBehindAnyEvent(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for round := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, round))
		p := gatewaytest.Stored(random(r))
		whole := newTeller()
		for _, x := range p {
			whole.add(x)
		}
		whole.finish()
		events := bytes.SplitAfter(whole.buf, []byte("\n\n"))
		for i, e := range events {
			id, _, _ := bytes.Cut(bytes.TrimPrefix(e, []byte("id: ")), []byte("\n"))
			n, ok := exchange.ParseNumber(string(id))
			if !ok || i+1 < len(events) && bytes.HasPrefix(events[i+1], append([]byte("id: "), append(id, '\n')...)) {
				continue // the last of those that share an id
			}
			s := newTeller()
			s.after, s.last = n, n
			for _, x := range p {
				s.add(x)
			}
			s.finish()
			rest := bytes.Join(events[i+1:], nil)
			if len(rest) == 0 { // it has seen the end, which is told again
				continue
			}
			if !bytes.Equal(s.buf, rest) {
				t.Fatalf("seed %d round %d: behind %s it is\n%s\nand was\n%s", seed, round, e, s.buf, rest)
			}
		}
	}
}

// All kinds of events that are sent are known to the tests.
func TestMembers(t *testing.T) {
	have := slices.Sorted(maps.Keys(members))
	want := []string{
		custom, messagesSnapshot, runError, runFinished, runStarted, subagentError, subagentFinished, subagentStarted, textContent, textEnd, textStart, toolArgs, toolEnd, toolResult, toolStart,
	}
	if !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
}

// What a piece of a text costs on its way from the note to the bytes.
func BenchmarkTextDelta(b *testing.B) {
	e := newTeller().events
	n := &exchange.Note{Kind: exchange.TextGrew, At: 1 << 40, Own: true, Task: task, Item: &exchange.Item{ID: "1.1.0-t1-S"}, Delta: "some words of a text "}
	b.ReportAllocs()
	for b.Loop() {
		e.buf = e.buf[:0]
		e.add(n)
	}
}
