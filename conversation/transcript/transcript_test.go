package transcript

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/policy"
)

// The place of a whole result is an address that a sub-session's id fits in.
func TestCutResult(t *testing.T) {
	if got := cutResult("root/d1", "c1", "abcdefgh", 4); !strings.Contains(got, "/api/sessions/root%2Fd1/calls/c1") {
		t.Errorf("of a sub-session: %q", got)
	}
}

// What an outside runtime has said is summarised, also when no step has shown it.
func TestCondensedOutsideParts(t *testing.T) {
	tr := New()
	tr.Add(conversation.Event{Seq: 1, Body: conversation.SessionCreated{}})
	for i, text := range []string{"from outside", "later", "newest"} {
		tr.Add(conversation.Event{Seq: conversation.Seq(2 + i), Body: conversation.PartialResponse{Part: conversation.Part{Source: "ext:x", Index: conversation.PartIndex(i), Text: text}}})
	}
	var got []string
	for _, e := range tr.condensed(3) {
		got = append(got, e.Items[0].Text)
	}
	if !slices.Equal(got, []string{"from outside", "later"}) {
		t.Errorf("%q", got)
	}
}

// feed adds events with the next seqs.
func (t *Transcript) feed(task conversation.TaskID, bodies ...conversation.EventBody) {
	for _, b := range bodies {
		t.Add(conversation.Event{Seq: t.head + 1, Task: task, Body: b})
	}
}

// turn is a task with one message and one text.
func (t *Transcript) turn(n int) conversation.TaskID {
	task := t.begin(n, conversation.Item{Kind: conversation.ItemText, Text: "done"})
	t.feed(task, conversation.TaskStatusChanged{New: conversation.TaskComplete})
	return task
}

// begin is a task with one message, and a step that has answered it with items.
func (t *Transcript) begin(n int, items ...conversation.Item) conversation.TaskID {
	task, message := conversation.TaskID(fmt.Sprintf("t%d-s", n)), conversation.MessageID(fmt.Sprintf("m%d-s", n))
	step := conversation.StepNumber(n)
	t.feed(task,
		conversation.MessageAccepted{Message: message, Text: fmt.Sprintf("message %d", n), Disposition: conversation.Started},
		conversation.StepStarted{Step: step, Attempt: 1, Read: []conversation.MessageID{message}},
		conversation.StepFinished{Step: step, Attempt: 1, Outcome: conversation.StepOK, Items: items},
	)
	return task
}

func texts(entries []conversation.Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Text)
	}
	return all
}

// What a model is reading does not change: the result of another task's
// delegation shows in the next request only.
func TestRequestIsNotWrittenTo(t *testing.T) {
	tr, rules, key := New(), &policy.Rules{Policy: policy.DefaultPolicy()}, conversation.SessionKey{Session: "s"}
	first := tr.begin(1, conversation.Item{Kind: conversation.ItemCall, ID: "k1", Tool: conversation.ToolDelegate})
	tr.feed(first, conversation.DelegationStarted{Delegation: "d1", Agent: "researcher", ModelCall: "k1"})
	second := tr.begin(2)
	ask := conversation.AskModel{Task: second, Step: 2, Attempt: 1}
	given := tr.Request(key, rules, ask)
	before := texts(given.Entries)
	tr.feed(first, conversation.DelegationFinished{Delegation: "d1", Status: conversation.CallOK, Summary: "found"})
	if after := texts(given.Entries); !slices.Equal(after, before) {
		t.Errorf("the request was %q and is %q", before, after)
	}
	if next := texts(tr.Request(key, rules, ask).Entries); !slices.Contains(next, "found") {
		t.Errorf("the next request shows %q", next)
	}
}

// A task that is open keeps its entries, however many others come and go; a
// session of tasks that have ended keeps a bounded number of everything.
func TestTrim(t *testing.T) {
	t.Run("open task", func(t *testing.T) {
		tr := New()
		tr.turn(1)
		tr.begin(2)
		for n := 3; n < 3+2*MaxEntries; n++ {
			tr.turn(n)
		}
		if !slices.Contains(texts(tr.entries), "message 2") {
			t.Error("the message of the open task is not shown any more")
		}
	})
	t.Run("beside an open task", func(t *testing.T) {
		tr := New()
		tr.turn(1)
		tr.begin(2, conversation.Item{Kind: conversation.ItemCall, ID: "k1", Tool: "clock"})
		for n := 3; n < 10*MaxEntries; n++ {
			tr.turn(n)
			if len(tr.entries) > 2*MaxEntries+8 {
				t.Fatalf("after %d turns %d entries are kept", n, len(tr.entries))
			}
		}
		got := texts(tr.entries)
		if want := []string{"message 1", "message 2", "", conversation.NoResult}; !slices.Equal(got[:4], want) || !strings.HasPrefix(got[4], "message ") {
			t.Errorf("the entries begin with %q", got[:6])
		}
		if len(tr.ended) > len(tr.entries)+MaxEntries {
			t.Errorf("the ends of %d tasks are kept", len(tr.ended))
		}
	})
	t.Run("a long open task", func(t *testing.T) {
		tr := New()
		tr.turn(1)
		task := tr.begin(2)
		for n := 3; n < 5*MaxEntries; n++ {
			tr.feed(task, conversation.StepFinished{Step: conversation.StepNumber(n), Attempt: 1, Outcome: conversation.StepOK, Items: []conversation.Item{{Kind: conversation.ItemText, Text: "thinking"}}})
		}
		own := len(tr.entries) - 1
		for n := 5 * MaxEntries; n < 10*MaxEntries; n++ {
			tr.turn(n)
			if len(tr.entries) > own+2*MaxEntries+8 {
				t.Fatalf("beside the %d of an open task %d entries are kept", own, len(tr.entries)-own)
			}
		}
		if tr.long() && tr.head-tr.base <= compactEvents {
			t.Error("the entries of an open task call for a summary")
		}
	})
	t.Run("ends that were not shown", func(t *testing.T) {
		tr := New()
		for n := range 10 * MaxEntries {
			tr.feed(conversation.TaskID(fmt.Sprintf("t%d-s", n)), conversation.TaskStatusChanged{New: conversation.TaskCancelled})
		}
		if len(tr.ended) > 2*MaxEntries {
			t.Errorf("the ends of %d tasks are kept", len(tr.ended))
		}
	})
	t.Run("parts from outside", func(t *testing.T) {
		live := New()
		var log []conversation.Event
		for n := range 10 * MaxEntries {
			log = append(log, conversation.Event{Seq: conversation.Seq(n + 1), Body: conversation.PartialResponse{Part: conversation.Part{Text: fmt.Sprint(n)}}})
			live.Add(log[n])
		}
		rebuilt := New()
		for _, e := range log[len(log)-conversation.TranscriptWindow:] {
			rebuilt.Add(e)
		}
		a, b := live.news[""], rebuilt.news[""]
		if len(a) != MaxEntries || !slices.EqualFunc(a, b, func(x, y noted) bool { return x.seq == y.seq }) {
			t.Errorf("%d parts wait for the next step, and %d when the log is read again", len(a), len(b))
		}
		for n := range conversation.TranscriptWindow {
			live.feed("t1-s", conversation.MessageAccepted{Message: conversation.MessageID(fmt.Sprintf("m%d-s", n)), Text: "hello"})
		}
		live.feed("t1-s", conversation.StepStarted{Step: 1, Attempt: 1, Read: []conversation.MessageID{"m1-s"}})
		if got := texts(live.entries); !slices.Equal(got, []string{"hello"}) {
			t.Errorf("parts of before the window are shown: %d entries", len(got))
		}
	})
	t.Run("ended tasks", func(t *testing.T) {
		tr := New()
		for n := 1; n < 2*MaxEntries; n++ {
			tr.turn(n)
		}
		if len(tr.entries) > 2*MaxEntries || len(tr.ended) > MaxEntries {
			t.Errorf("%d entries, and the ends of %d tasks, are kept", len(tr.entries), len(tr.ended))
		}
	})
	t.Run("places of results", func(t *testing.T) {
		tr := New()
		task := tr.begin(1, conversation.Item{Kind: conversation.ItemCall, ID: "k1", Tool: "clock"})
		tr.feed(task, conversation.ToolStarted{Call: "c1", Tool: "clock", ModelCall: "k1"}, conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "noon"})
		if n := len(tr.slots); n != 0 {
			t.Errorf("%d places wait for results that have come", n)
		}
	})
}

// For a model that holds little long results are cut, in the same way in each step, and
// what does not fit is left out; another agent's model is shown all of it.
func TestSmallWindow(t *testing.T) {
	small := policy.Profile{Windows: []policy.Window{{Model: "local", Own: true, Context: 2000, Answer: 1000}}}
	rules, key := &policy.Rules{Policy: policy.DefaultPolicy(), Agents: map[conversation.AgentName]policy.Profile{"small": small}}, conversation.SessionKey{Session: "s"}
	tr := Of(key, rules)
	for n := range 3 {
		tr.turn(n + 1)
	}
	task := tr.begin(4, conversation.Item{Kind: conversation.ItemCall, ID: "k1", Tool: "read"})
	tr.feed(task, conversation.ToolStarted{Call: "c1", ModelCall: "k1", Tool: "read"}, conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: strings.Repeat("word", 2000)})
	ask := conversation.AskModel{Task: task, Step: 5, Attempt: 1, Agent: "small"}
	shown := tr.Request(key, rules, ask)
	if tokens, left := tr.Shown(); tokens > 1000 || tokens != shown.Tokens() || left != 0 {
		t.Errorf("%d tokens, said to be %d, %d entries left out", shown.Tokens(), tokens, left)
	}
	if last := shown.Entries[len(shown.Entries)-1].Text; len(last) > 2000 || !strings.Contains(last, "left out") {
		t.Errorf("the result is %d bytes", len(last))
	}
	rules.Agents["small"] = policy.Profile{Windows: []policy.Window{{Model: "local", Own: true, Context: 660, Answer: 60}}}
	shown = tr.Request(key, rules, ask)
	if tokens, left := tr.Shown(); tokens > 600 || tokens != shown.Tokens() || left != 0 {
		t.Errorf("%d tokens, said to be %d, %d entries left out", shown.Tokens(), tokens, left)
	}
	for n := range 60 {
		tr.turn(5 + n)
	}
	shown = tr.Request(key, rules, ask)
	if tokens, left := tr.Shown(); tokens > 600 || tokens < shown.Tokens() || left == 0 {
		t.Errorf("%d tokens, said to be %d, %d entries left out", shown.Tokens(), tokens, left)
	}
	ask.Agent = "another"
	if whole := tr.Request(key, rules, ask); whole.Tokens() < 2500 || tr.left != 0 {
		t.Errorf("another agent is shown %d tokens, %d entries are left out", whole.Tokens(), tr.left)
	}
}

// A request says from where on entries are its task's, and what all of them come to, so
// that no model needs to read a whole conversation again; one that shows other entries
// than the transcript has says neither.
func TestWhatARequestSaysOfItsEntries(t *testing.T) {
	tr, rules, key := New(), &policy.Rules{Policy: policy.DefaultPolicy()}, conversation.SessionKey{Session: "s"}
	for n := range 5 {
		tr.turn(n + 1)
	}
	waits := tr.begin(6, conversation.Item{Kind: conversation.ItemCall, ID: "k1", Tool: "clock", Args: "{ }"})
	tr.feed(waits, conversation.ToolStarted{Call: "c1", Tool: "clock", ModelCall: "k1"})
	now := tr.begin(7)
	tr.feed(waits, conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "it is noon"})
	for _, c := range []struct {
		task conversation.TaskID
		own  int
	}{{waits, 10}, {now, 13}} {
		r := tr.Request(key, rules, conversation.AskModel{Task: c.task, Step: 7, Attempt: 1})
		if r.Own != c.own || r.Entries[r.Own].Task != c.task {
			t.Errorf("%s begins at %d, want %d", c.task, r.Own, c.own)
		}
		counted := r.Counted
		r.Counted = conversation.Counts{}
		if counted.Words != 5*3+2+2+3+2 || counted != r.EntryCounts() {
			t.Errorf("%+v are said, and %+v are there", counted, r.EntryCounts())
		}
	}
	rules.Policy.Context.Budget = 60
	if r := tr.Request(key, rules, conversation.AskModel{Task: now, Step: 7, Attempt: 1}); tr.left == 0 || r.Own != 0 || r.Counted != (conversation.Counts{}) {
		t.Errorf("of %d entries that are left: from %d, %+v", len(r.Entries), r.Own, r.Counted)
	}
}

// What a task adds to the transcript and what a model is shown of it: in a conversation
// of at most so many tasks, which then begins anew.
func BenchmarkTurn(b *testing.B) {
	for _, most := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("tasks=%d", most), func(b *testing.B) {
			rules, key, tr := &policy.Rules{Policy: policy.DefaultPolicy()}, conversation.SessionKey{Session: "s"}, New()
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				if n++; n > most {
					tr, n = New(), 1
				}
				task := tr.begin(n, conversation.Item{Kind: conversation.ItemText, Text: "done"})
				tr.Request(key, rules, conversation.AskModel{Task: task, Step: conversation.StepNumber(n), Attempt: 1})
				tr.feed(task, conversation.TaskStatusChanged{New: conversation.TaskComplete})
			}
		})
	}
}

// What the first step of a session is shown: its prompt and tools are those of all others.
func BenchmarkFirstRequest(b *testing.B) {
	agents := map[conversation.AgentName]policy.Profile{"a": {Name: "a", EngineTools: true, MayAsk: true, Delegates: true, Prompt: strings.Repeat("Be kind to everybody. ", 100)}}
	for _, name := range []conversation.AgentName{"b", "c", "d"} {
		agents[name] = policy.Profile{Name: name, Description: "works", Delegable: true}
	}
	rules, key := &policy.Rules{Policy: policy.DefaultPolicy(), Agents: agents, Always: &policy.AlwaysKept{}}, conversation.SessionKey{Session: "s"}
	b.ReportAllocs()
	for b.Loop() {
		tr := Of(key, rules)
		tr.Request(key, rules, conversation.AskModel{Task: tr.begin(1), Step: 1, Attempt: 1, Agent: "a"})
	}
}
