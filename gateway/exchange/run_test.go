package exchange

import (
	"strings"
	"testing"

	"parley/conversation"
)

// status is an event of the task's status.
func status(old, now conversation.TaskStatus) conversation.TaskStatusChanged {
	return conversation.TaskStatusChanged{Trigger: "m1-S", Old: old, New: now}
}

const (
	queued    = conversation.TaskQueued
	running   = conversation.TaskRunning
	awaiting  = conversation.TaskAwaiting
	complete  = conversation.TaskComplete
	failed    = conversation.TaskError
	cancelled = conversation.TaskCancelled
)

// A run rests when it has ended, or when nothing but an answer brings it on. What it waits for
// are the blocking questions then.
func TestRunRests(t *testing.T) {
	part := conversation.Part{Message: "p1-S", Source: "m1-S", Text: "Hello", InReplyTo: "m1-S"}
	for _, test := range []struct {
		name string
		play play
		want string // for each event: w it works, r it rests; then what it waits for
	}{
		{"an answer", play{status(0, running), conversation.Response{Part: part}, conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedAnswered}, status(running, complete)}, "wwwr"},
		{"a failure", play{status(0, running), status(running, failed)}, "wr"},
		{"it was cancelled", play{status(0, queued), status(queued, cancelled)}, "wr"},
		{"a question", play{status(0, running), conversation.Asked{Question: "q1", Text: "Which?", Blocking: true}, status(running, awaiting)}, "wwr q1"},
		{"an answer to it", play{
			status(0, running), conversation.Asked{Question: "q1", Blocking: true}, status(running, awaiting),
			conversation.QuestionAnswered{Question: "q1"}, status(awaiting, queued), status(queued, running),
		}, "wwrwww"},
		{"a question that does not block", play{status(0, running), conversation.Asked{Question: "q1"}, status(running, complete)}, "wwr"},
		{"one that does not block, when nothing else is left to do", play{status(0, running), conversation.Asked{Question: "q1"}, status(running, awaiting)}, "wwr q1"},
		{"an answer to the one that blocks, with another open", play{
			status(0, running), conversation.Asked{Question: "q1", Blocking: true}, conversation.Asked{Question: "q2"}, status(running, awaiting),
			conversation.QuestionAnswered{Question: "q1"}, status(awaiting, queued), status(queued, running),
		}, "wwwrwww"},
		{"of two the blocking one", play{status(0, running), conversation.Asked{Question: "q1"}, conversation.Asked{Question: "q2", Blocking: true}, status(running, awaiting)}, "wwwr q2"},
		{"two calls of the caller's tools", play{
			status(0, running), conversation.ToolStarted{Call: "c1", Tool: "weather", Caller: true}, conversation.Asked{Question: "q1", Call: "c1", Blocking: true},
			conversation.ToolStarted{Call: "c2", Tool: "weather", Caller: true}, conversation.Asked{Question: "q2", Call: "c2", Blocking: true}, status(running, awaiting),
		}, "wwwwwr q1 q2"},
		{"one of our own tools runs beside a question", play{
			status(0, running), conversation.ToolStarted{Call: "c1", Tool: "clock"}, conversation.ToolStarted{Call: "c2", Tool: "weather", Caller: true},
			conversation.Asked{Question: "q2", Call: "c2", Blocking: true}, status(running, awaiting),
		}, "wwwwr q2"},
		{"the message was withdrawn before its task began", play{conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedWithdrawn}}, "r"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, run := &Fold{}, NewRun("m1-S", task)
			events := test.play.log()
			got := ""
			for i := range events {
				notes := f.Event(&events[i])
				for j := range notes {
					run.Add(&notes[j])
				}
				if run.Rests() {
					got += "r"
				} else {
					got += "w"
				}
			}
			for _, q := range run.Waits() {
				got += " " + string(q.Asked.Question)
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// A message that its task has not read when that ends early is left over: the run goes on with
// the task that has it then.
func TestRunFollowsItsMessage(t *testing.T) {
	f, run := &Fold{}, NewRun("m2-S", task)
	next := conversation.TaskID("t2-S")
	for i, e := range []conversation.Event{
		{Task: task, Body: status(running, cancelled)},
		{Task: next, Body: conversation.TaskStatusChanged{Trigger: "m2-S", New: queued, Messages: []conversation.MessageID{"m2-S"}}},
		{Task: next, Body: conversation.Response{Part: conversation.Part{Message: "p1-S", Source: "m2-S", Text: "Here", InReplyTo: "m2-S"}}},
		{Task: next, Body: status(running, complete)},
	} {
		e.Seq = conversation.Seq(i + 1)
		notes := f.Event(&e)
		for j := range notes {
			run.Add(&notes[j])
		}
	}
	if run.Task != next || !run.Ended() || len(run.Texts) != 1 || run.Texts[0].Text != "Here" {
		t.Errorf("%+v", run)
	}
}

// A message of which a model says that it answers another task's question: with the end of its own
// task the run goes on with that one, if that goes on.
func TestRunGoesOnWithAnAnswer(t *testing.T) {
	other := conversation.TaskID("t9-S")
	taken := []conversation.Event{
		{Task: task, Body: status(0, running)}, {Task: other, Body: conversation.QuestionAnswered{Question: "q1", Message: "m2-S"}},
		{Task: task, Body: conversation.MessageResolved{Message: "m2-S", How: conversation.ResolvedMerged, Question: "q1"}},
	}
	said := conversation.Event{Task: other, Body: conversation.Response{Part: conversation.Part{Message: "p1-S", Source: "m9-S", Text: "Done."}}}
	for name, x := range map[string]struct {
		onward bool
		then   []conversation.Event
		want   string // for each event: w it works, r it rests; then what was said
	}{
		"it goes on": {true, []conversation.Event{
			{Task: other, Body: status(awaiting, queued)}, {Task: task, Body: status(running, complete)}, {Task: other, Body: status(queued, running)}, said, {Task: other, Body: status(running, complete)},
		}, "wwwwwwwr Done."},
		"it asks again": {true, []conversation.Event{
			{Task: other, Body: status(awaiting, queued)}, {Task: task, Body: status(running, complete)}, {Task: other, Body: status(queued, running)},
			{Task: other, Body: conversation.Asked{Question: "q2", Blocking: true}}, {Task: other, Body: status(running, awaiting)},
		}, "wwwwwwwr "},
		"another question is open":       {true, []conversation.Event{{Task: task, Body: status(running, complete)}}, "wwwr "},
		"its own task fails":             {true, []conversation.Event{{Task: other, Body: status(awaiting, queued)}, {Task: task, Body: status(running, failed)}}, "wwwwr "},
		"nobody wants to know of others": {false, []conversation.Event{{Task: other, Body: status(awaiting, queued)}, {Task: task, Body: status(running, complete)}}, "wwwwr "},
	} {
		f, run, got := &Fold{}, NewRun("m2-S", task), ""
		if x.onward {
			run.GoesOn()
		}
		for i, e := range append(taken[:len(taken):len(taken)], x.then...) {
			e.Seq = conversation.Seq(i + 1)
			notes := f.Event(&e)
			for j := range notes {
				run.Add(&notes[j])
			}
			if run.Rests() {
				got += "r"
			} else {
				got += "w"
			}
		}
		got += " "
		for _, item := range run.Texts {
			got += item.Text
		}
		if got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// The caller's own call is shown to whoever may speak in the session; other calls only to those
// who may see what tools are told and answer.
func TestRedacted(t *testing.T) {
	p := play{
		conversation.ToolStarted{Call: "c1", Tool: "clock", Args: `{"secret":1}`}, conversation.ToolStarted{Call: "c2", Tool: "weather", Caller: true, Args: `{"city":"Oslo"}`},
		conversation.ToolFinished{Call: "c1", Summary: "secret"}, conversation.ToolFinished{Call: "c2", Summary: "cold"},
		conversation.Asked{Question: "q1", Approval: &conversation.Approval{Tool: "deploy", Args: `{"secret":1}`}},
		conversation.DelegationStarted{Delegation: "d1", Objective: "secret"},
	}
	f := &Fold{Redact: true}
	var told strings.Builder
	events := p.log()
	for i := range events {
		for _, n := range f.Event(&events[i]) {
			if n.Call != nil {
				told.WriteString(n.Call.Args + n.Call.Result)
			}
			if n.Question != nil && n.Question.Asked.Approval != nil {
				told.WriteString(n.Question.Asked.Approval.Args)
			}
		}
	}
	if got := told.String(); strings.Contains(got, "secret") || !strings.Contains(got, "Oslo") || !strings.Contains(got, "cold") {
		t.Errorf("told: %s", got)
	}
}

// A text whose part is another than what was shown of it begins again: what was shown is dropped.
func TestChangedText(t *testing.T) {
	for _, test := range []struct{ shown, part, want string }{
		{"Hello", "Hello", "began grew:Hello ended:Hello"},
		{"Hel", "Hello", "began grew:Hel grew:lo ended:Hello"},
		{" Hello ", "Hello", "began grew: Hello  ended:Hello"},
		{"Hello", "Good day", "began grew:Hello dropped began grew:Good day ended:Good day"},
		{"", "Hello", "began grew:Hello ended:Hello"},
	} {
		var got []string
		p := play{
			conversation.StepStarted{Step: 1, Attempt: 1}, conversation.Delta{Task: task, Draft: "1.1.0", Text: test.shown},
			conversation.Response{Part: conversation.Part{Message: "p1-S", Text: test.part, Draft: "1.1.0"}},
		}
		if test.shown == "" {
			p = play{p[0], p[2]}
		}
		for _, n := range p.notes(0, 0) {
			word, text := strings.TrimPrefix(n.Kind.String(), "text_"), ""
			switch n.Kind {
			case TextGrew:
				text = ":" + n.Delta
			case TextEnded:
				text = ":" + n.Item.Text
			case TextBegan, TextDropped:
			default:
				continue
			}
			got = append(got, word+text)
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%q becomes %q: %s, want %s", test.shown, test.part, s, test.want)
		}
	}
}

// Numbers only grow, hold what they say, and are numbers of JSON.
func TestNumbers(t *testing.T) {
	last := NumberAfter(1<<27 - 1)
	if last >= 1<<53 {
		t.Errorf("%d is beyond 2^53", last)
	}
	n := place(41, slotStreamed, 7)
	if n.Seq() != 41 || n.slot() != slotStreamed || n.runes() != 7 {
		t.Errorf("%d is %d, %d, %d", n, n.Seq(), n.slot(), n.runes())
	}
	for _, bad := range []string{"", "-1", "1.5", "x", "9007199254740993"} {
		if _, ok := ParseNumber(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
	if got, ok := ParseNumber(n.String()); !ok || got != n {
		t.Errorf("%s was read as %d", n, got)
	}
	if longest := place(1, slotStreamed, 5<<20); longest.Seq() != 1 || longest.slot() != slotStreamed {
		t.Errorf("a long text leaves its slot: %d", longest)
	}
}

// What a note of a piece of text costs: it is on the way of each.
func BenchmarkFoldDelta(b *testing.B) {
	f := &Fold{}
	f.Event(&conversation.Event{Seq: 1, Task: task, Body: conversation.StepStarted{Step: 1, Attempt: 1}})
	d := conversation.Delta{Task: task, Draft: "1.1.0", Text: "word "}
	b.ReportAllocs()
	for b.Loop() {
		if d.At >= maxRunes/2 {
			f.open, f.full, d.At = nil, false, 0
		}
		f.Stream(d)
		d.At += 5
	}
}
