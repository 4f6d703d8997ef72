package readmodel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
)

var epoch = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// events numbers bodies from 1; each happens a second after the one before. A nil
// body starts task t2.
func events(bodies ...conversation.EventBody) (all []*conversation.Event) {
	task := conversation.TaskID("t1")
	for _, b := range bodies {
		if b == nil {
			task = "t2"
			continue
		}
		n := len(all) + 1
		all = append(all, &conversation.Event{Seq: conversation.Seq(n), At: epoch.Add(time.Duration(n) * time.Second), Task: task, Body: b})
	}
	return all
}

func said(id conversation.MessageID, how conversation.Disposition) conversation.MessageAccepted {
	return conversation.MessageAccepted{Message: id, Text: "text of " + string(id), Disposition: how}
}

func answered(q conversation.QuestionID, m conversation.MessageID) conversation.QuestionAnswered {
	return conversation.QuestionAnswered{Question: q, Message: m, Text: "yes"}
}

func merged(m conversation.MessageID) conversation.MessageResolved {
	return conversation.MessageResolved{Message: m, How: conversation.ResolvedMerged}
}

func status(from, to conversation.TaskStatus) conversation.TaskStatusChanged {
	return conversation.TaskStatusChanged{Old: from, New: to}
}

func approval(q conversation.QuestionID, c conversation.CallID) conversation.Asked {
	return conversation.Asked{Question: q, Blocking: true, Approval: &conversation.Approval{Call: c, Tool: "rm"}}
}

// When a message counts as read.
func TestHistoryRead(t *testing.T) {
	for _, x := range []struct {
		name   string
		log    []*conversation.Event
		from   int // the page begins behind so many events; negative: it has room for one entry
		readAt conversation.Seq
	}{
		{"by the step that names it", events(said("m1", conversation.Started), conversation.StepStarted{Step: 1, Attempt: 1, Read: []conversation.MessageID{"m1"}}), 0, 2},
		{"not by the step of another", events(said("m1", conversation.Queued), conversation.StepStarted{Step: 1, Attempt: 1, Read: []conversation.MessageID{"m0"}}), 0, 0},
		{"an answer, by the next step", events(said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.StepStarted{Step: 2, Attempt: 1}), 0, 4},
		{"an answer, not by a second attempt", events(said("m1", conversation.Answered), answered("q1", "m1"), conversation.StepStarted{Step: 2, Attempt: 2}), 0, 0},
		{"an answer, not by another task's step", events(said("m1", conversation.Answered), answered("q1", "m1"), nil, conversation.StepStarted{Step: 2, Attempt: 1}), 0, 0},
		{"an answer to a delegation, at once", events(said("m1", conversation.Answered), answered("d1.q1", "m1")), 0, 2},
		{"an approval, by its call", events(approval("q1", "c1"), said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.ToolStarted{Call: "c1"}), 0, 5},
		{"a refusal, by the end of its call", events(approval("q1", "c1"), said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.ToolFinished{Call: "c1", Status: conversation.CallDenied}), 0, 5},
		{"an approval, whatever stands between", events(approval("q1", "c1"), said("m1", conversation.Answered), answered("q1", "m1"), conversation.CoverageNudge{}, merged("m1"), status(conversation.TaskAwaiting, conversation.TaskQueued), conversation.ToolStarted{Call: "c1"}), 0, 7},
		{"an approval, its call before the answer", events(approval("q1", "c1"), said("m1", conversation.Answered), conversation.ToolStarted{Call: "c1"}, answered("q1", "m1"), merged("m1")), 0, 3},
		{"an approval, not by another call", events(approval("q1", "c1"), approval("q2", "c2"), said("m1", conversation.Answered), answered("q1", "m1"), conversation.ToolStarted{Call: "c2"}), 0, 0},
		{"an approval that was asked before the page", events(approval("q1", "c1"), said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.ToolStarted{Call: "c1"}), 1, 5},
		{"an answer, not by a call whose approval another message refuses", events(approval("q2", "c1"), said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.MessageAccepted{Message: "m2", Disposition: conversation.Answered}, answered("q2", "m2"), merged("m2"), conversation.ToolStarted{Call: "c1"}), 1, 0},
		{"an answer, not by a call whose approval expires", events(approval("q2", "c1"), said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.QuestionClosed{Question: "q2", Reason: conversation.QuestionExpired}, conversation.ToolFinished{Call: "c1", Status: conversation.CallDenied}), 1, 0},
		{"an answer, not by a call that is approved behind the page", events(approval("q2", "c1"), said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), said("m2", conversation.Answered), answered("q2", "m2"), merged("m2"), conversation.ToolStarted{Call: "c1"}), -1, 0},
		{"an answer that came during a step, not by a call of that step", events(conversation.Asked{Question: "q1"}, conversation.StepStarted{Step: 2, Attempt: 1}, said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.StepFinished{Step: 2, Attempt: 1}, conversation.ToolStarted{Call: "c1"}, conversation.ToolFinished{Call: "c1"}, conversation.StepStarted{Step: 3, Attempt: 1}), 0, 9},
		{"by a part of an external runtime", events(said("m1", conversation.Started), conversation.PartialResponse{Part: conversation.Part{Message: "p1", Source: "m1"}}), 0, 2},
	} {
		limit := 10
		if x.from < 0 {
			x.from, limit = -x.from, 1
		}
		h := NewHistory(limit, 1<<20)
		for _, e := range x.log[x.from:] {
			h.Add(e)
		}
		i := slices.IndexFunc(h.Page, func(e *HistoryEntry) bool { return e.ID() == "m1" })
		want := time.Time{}
		if x.readAt != 0 {
			want = x.log[x.readAt-1].At
		}
		if got := h.Page[i].Read; !got.Equal(want) {
			t.Errorf("%s: read at %v, want %v", x.name, got, want)
		}
	}
}

// A page ends when all on it is settled, and not before.
func TestHistoryPage(t *testing.T) {
	log := events(
		said("m1", conversation.Started),
		conversation.PartialResponse{Part: conversation.Part{Message: "p1", Text: "Looking."}},
		said("m2", conversation.Queued),
		conversation.MessageEdited{Message: "m1", Text: "edited"},
		conversation.MessageResolved{Message: "m1", How: conversation.ResolvedAnswered},
		conversation.Response{Part: conversation.Part{Message: "p1", Text: "Looking."}, Promoted: true},
		status(conversation.TaskRunning, conversation.TaskComplete),
		said("m3", conversation.Started),
	)
	h, ended := NewHistory(2, 1<<20), 0
	for i, e := range log {
		if h.Add(e) && ended == 0 {
			ended = i + 1
		}
	}
	m, p := h.Page[0], h.Page[1]
	if len(h.Page) != 2 || !h.More || ended != 7 {
		t.Errorf("%d entries, more %v, complete after %d events", len(h.Page), h.More, ended)
	}
	if !m.Edited || m.Said.Text != "edited" || m.How != conversation.ResolvedAnswered || !m.Delivered.Equal(log[6].At) {
		t.Errorf("the message: %+v", m)
	}
	if !p.Final || p.Part.Text != "Looking." {
		t.Errorf("the part: %+v", p)
	}
	if log[0].Body.(conversation.MessageAccepted).Text != "text of m1" {
		t.Error("the event was changed")
	}
}

// Leftovers belong to their new task, also when they are delivered.
func TestHistoryLeftovers(t *testing.T) {
	log := events(said("m1", conversation.Queued), status(conversation.TaskRunning, conversation.TaskError), nil,
		conversation.TaskStatusChanged{New: conversation.TaskQueued, Messages: []conversation.MessageID{"m1"}},
		conversation.MessageResolved{Message: "m1", How: conversation.ResolvedAnswered},
		status(conversation.TaskRunning, conversation.TaskComplete))
	h := NewHistory(10, 1<<20)
	for _, e := range log {
		h.Add(e)
	}
	if m := h.Page[0]; m.Task != "t2" || !m.Delivered.Equal(log[4].At) {
		t.Errorf("%+v", m)
	}
}

func TestTask(t *testing.T) {
	fold := NewTask(conversation.TaskRow{Task: "t1", Trigger: "m1"})
	for _, e := range events(
		said("m1", conversation.Started),
		conversation.MessageEdited{Message: "m1", Text: "edited"},
		conversation.PartialResponse{Part: conversation.Part{Message: "p1", Text: "Looking."}},
		conversation.Asked{Question: "q1", Text: "Where?", Blocking: true},
		conversation.Asked{Question: "q2", Text: "By the way?"},
		said("m2", conversation.Answered),
	) {
		fold.Add(e)
	}
	if q := fold.Question(); q == nil || q.Asked.Question != "q1" {
		t.Errorf("a reply would answer %+v", q)
	}
	if fold.Prompt != "edited" || !fold.Prompted() || fold.Unread != "text of m2" || len(fold.Replies) != 1 || fold.Output() != "Looking.\n\nWhere?" {
		t.Errorf("%+v says %q", fold, fold.Output())
	}
	for _, e := range events(answered("q1", "m2"), conversation.StepStarted{Step: 2, Attempt: 1}, conversation.QuestionClosed{Question: "q2"},
		conversation.Response{Part: conversation.Part{Message: "p1", Text: "Looking."}, Promoted: true}) {
		fold.Add(e)
	}
	if fold.Question() != nil || fold.Unread != "" || len(fold.Parts) != 1 || !fold.Parts[0].Final {
		t.Errorf("%+v", fold)
	}
	left := NewTask(conversation.TaskRow{Task: "t2", Trigger: "m1"})
	for _, e := range slices.Backward(events(said("m1", conversation.Queued), conversation.MessageEdited{Message: "m1", Text: "once"}, conversation.MessageEdited{Message: "m1", Text: "twice"})) {
		left.AddBefore(e)
	}
	if left.Prompt != "twice" || !left.Prompted() {
		t.Errorf("the prompt of leftovers is %q", left.Prompt)
	}
}

func TestOutcome(t *testing.T) {
	o := NewOutcome("m1", "t1")
	for _, e := range events(
		conversation.PartialResponse{Part: conversation.Part{Message: "p1", Text: "to all"}},
		conversation.PartialResponse{Part: conversation.Part{Message: "p2", Text: "to m1", InReplyTo: "m1"}},
		conversation.Asked{Question: "q1", Text: "Where?"},
		status(conversation.TaskRunning, conversation.TaskAwaiting),
		merged("m1"),
	) {
		o.Add(e)
	}
	var texts []string
	for _, p := range o.Answers() {
		texts = append(texts, p.Part.Text)
	}
	if strings.Join(texts, ",") != "to m1" || o.Question() == nil || o.Status != conversation.TaskAwaiting || o.How != conversation.ResolvedMerged {
		t.Errorf("%+v, answers %q", o, texts)
	}
}

// Who waits for a message that was merged waits for what its task says next, or that of the
// question which it answered.
func TestOutcomeOfAMerged(t *testing.T) {
	part := conversation.PartialResponse{Part: conversation.Part{Message: "p1", Text: "Done."}}
	waits := conversation.QuestionView{Task: "t1", Asked: conversation.Asked{Question: "q1", Text: "Where?"}}
	for name, x := range map[string]struct {
		log  []*conversation.Event
		want string // for each event: w it waits, r it rests; then the newest open question
	}{
		"a part":             {events(answered("q2", "m1"), merged("m1"), part), "wwr q1"},
		"a part before":      {events(part, answered("q2", "m1"), merged("m1"), status(conversation.TaskRunning, conversation.TaskComplete)), "wwwr q1"},
		"its end":            {events(answered("q2", "m1"), merged("m1"), status(conversation.TaskRunning, conversation.TaskCancelled)), "wwr q1"},
		"another question":   {events(answered("q1", "m1"), merged("m1"), conversation.Asked{Question: "q3"}, status(conversation.TaskRunning, conversation.TaskAwaiting)), "wwwr q3"},
		"the same, replayed": {events(conversation.Asked{Question: "q1"}, conversation.QuestionClosed{Question: "q1"}), "ww "},
		"an amendment":       {events(merged("m1"), part), "wr q1"},
	} {
		o, got := NewOutcome("m1", "t1", waits), ""
		for _, e := range x.log {
			if o.Add(e); o.Rests() {
				got += "r"
			} else {
				got += "w"
			}
		}
		got += " "
		if q := o.Question(); q != nil {
			got += string(q.Asked.Question)
		}
		if got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	o := NewOutcome("m1", "t2", waits)
	for _, e := range events(part, answered("q1", "m1"), merged("m1"), status(conversation.TaskAwaiting, conversation.TaskQueued)) {
		o.Add(e) // of t1: the question's task goes on with it
	}
	if o.Task != "t1" || len(o.Parts) != 0 || o.Rests() || o.Question() != nil {
		t.Errorf("%+v", o)
	}
}

func TestCall(t *testing.T) {
	c := NewCall("c1")
	log := events(conversation.ToolStarted{Call: "c0"}, conversation.ToolStarted{Call: "c1", Tool: "clock"}, conversation.ToolFinished{Call: "c1"})
	for i, e := range log {
		if done := c.Add(e); done != (i == 2) {
			t.Errorf("done after %d: %v", i+1, done)
		}
	}
	if c.Started.Seq != 2 || c.Finished.Seq != 3 || c.Started == log[1] {
		t.Errorf("%+v", c)
	}
}

// A reply that is repeated is told what its first delivery was told.
func TestRepeatedReply(t *testing.T) {
	const waits, queued = conversation.TaskAwaiting, conversation.TaskQueued
	kept := said("m1", conversation.Queued)
	kept.Deferred = true
	for _, x := range []struct {
		name string
		log  []*conversation.Event
		want conversation.TaskStatus
	}{
		{"it moved its task", events(said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), status(waits, queued)), queued},
		{"its parts in another order", events(said("m1", conversation.Answered), merged("m1"), answered("q1", "m1"), status(waits, queued)), queued},
		{"it approved a call", events(said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.ToolStarted{Call: "c1"}, status(waits, queued)), queued},
		{"it refused a call", events(said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.ToolFinished{Call: "c1", Status: conversation.CallDenied}, status(waits, queued)), queued},
		{"another reply moved it", events(said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), said("m2", conversation.Answered), answered("q2", "m2"), status(waits, queued)), waits},
		{"a question that expired moved it", events(said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), conversation.QuestionClosed{Question: "q2"}, status(waits, queued)), waits},
		{"another task moved", events(said("m1", conversation.Answered), answered("q1", "m1"), merged("m1"), nil, status(waits, queued)), waits},
		{"it was kept", events(kept, status(waits, queued)), waits},
	} {
		f := NewRepeatedReply(conversation.Receipt{Seq: 1, Duplicate: true})
		for _, e := range x.log {
			if f.Add(e) {
				break
			}
		}
		if r := f.Complete(waits); r.OldStatus != waits || r.NewStatus != x.want || r.Message != "m1" || !f.NeedsStatus() {
			t.Errorf("%s: %+v, want %s", x.name, r, x.want)
		}
	}
	f := NewRepeatedReply(conversation.Receipt{Seq: 1})
	if !f.Add(events(said("m1", conversation.Started))[0]) || f.NeedsStatus() {
		t.Error("a message that answers nothing has statuses")
	}
}

// Tasks that are gathered in one walk are what each of them is by itself, leftovers of
// another task among them.
func TestTasksAtOnce(t *testing.T) {
	log := events(
		said("m1", conversation.Started),
		said("m2", conversation.Queued),
		conversation.PartialResponse{Part: conversation.Part{Message: "p1", Text: "Looking."}},
		conversation.MessageEdited{Message: "m2", Text: "edited"},
		conversation.Asked{Question: "q1", Text: "Where?", Blocking: true},
		status(conversation.TaskRunning, conversation.TaskError), nil,
		conversation.TaskStatusChanged{New: conversation.TaskQueued, Messages: []conversation.MessageID{"m2"}},
		conversation.PartialResponse{Part: conversation.Part{Message: "p2", Text: "Again."}},
	)
	key := conversation.SessionKey{Tenant: "t", Session: "s"}
	rows := []conversation.TaskRow{
		{Key: key, Task: "t2", Trigger: "m2", Status: conversation.TaskQueued, First: 7},
		{Key: key, Task: "t1", Trigger: "m1", Status: conversation.TaskError, First: 1, Last: 6},
	}
	gather := func(rows []conversation.TaskRow, bytes int) (list []*Task, read int) {
		tasks := NewTasks(rows, bytes)
		for _, key := range tasks.Sessions() {
			for _, s := range tasks.Stretches(key) {
				for i := range log {
					if e := log[i]; e.Seq > s.After && (s.Before == 0 || e.Seq < s.Before) {
						tasks.Add(key, e)
						read++
					}
				}
			}
			for before, i := tasks.Before(key), len(log)-1; before > 0 && i >= 0; i-- {
				if e := log[i]; e.Seq < before && tasks.AddBefore(key, e) {
					break
				}
			}
		}
		return tasks.Page(), read
	}
	whole, read := gather(rows, 1<<20)
	if len(whole) != 2 || read != len(log) {
		t.Fatalf("%d tasks of %d events read", len(whole), read)
	}
	for i, row := range rows {
		alone, _ := gather([]conversation.TaskRow{row}, 1<<20)
		if got, want := fmt.Sprintf("%+v", whole[i]), fmt.Sprintf("%+v", alone[0]); got != want {
			t.Errorf("together %s\nalone    %s", got, want)
		}
	}
	if whole[0].Prompt != "edited" || whole[1].Prompt != "text of m1" || whole[1].Output() != "Looking." {
		t.Errorf("%+v\n%+v", whole[0], whole[1])
	}
	if cut, _ := gather(rows, 3); len(cut) != 1 || cut[0].Row.Task != "t2" || cut[0].Prompt != "edited" {
		t.Errorf("a page of 3 bytes has %d tasks", len(cut))
	}
}
