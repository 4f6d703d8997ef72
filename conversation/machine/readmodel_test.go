package machine

import (
	"reflect"
	"slices"

	"parley/conversation"
	"parley/conversation/readmodel"
)

// readModels folds the log with package readmodel and compares what it says with
// what the session knows itself. It runs after every command of every transcript,
// so an order of events that the folds do not understand fails here.
func (w *scene) readModels(d conversation.Decided) {
	w.t.Helper()
	if len(w.log) > 500 { // long ones say nothing new, slowly
		return
	}
	w.noteReceipt(d)
	w.receiptsAgain()
	w.questionsAndStatus()
	w.callsAgain()
	w.historyAgain()
}

// noteReceipt keeps the first answer to a message.
func (w *scene) noteReceipt(d conversation.Decided) {
	r := d.Receipt
	if d.Err != nil || r.Duplicate || r.Seq == 0 || r.Message == "" || int(r.Seq) > len(w.log) {
		return
	}
	if b, ok := w.log[r.Seq-1].Body.(conversation.MessageAccepted); ok && b.Message == r.Message {
		w.receipts = append(w.receipts, r)
	}
}

// receiptsAgain asks for each receipt again, as a client does that repeats its
// command now.
func (w *scene) receiptsAgain() {
	for _, first := range w.receipts {
		again := conversation.Receipt{Seq: first.Seq, Duplicate: true}
		readmodel.CompleteReceipt(&again, &w.log[first.Seq-1])
		if again.Message != first.Message || again.Disposition != first.Disposition {
			w.t.Fatalf("the receipt of %d was %+v and is %+v", first.Seq, first, again)
		}
		reply := readmodel.NewRepeatedReply(conversation.Receipt{Seq: first.Seq, Duplicate: true})
		for i := range w.log[first.Seq-1:] {
			if reply.Add(&w.log[int(first.Seq)-1+i]) {
				break
			}
		}
		if !reply.NeedsStatus() {
			continue
		}
		before := conversation.TaskQueued
		for _, e := range slices.Backward(w.log[:first.Seq-1]) {
			if status, ok := readmodel.StatusChange(&e, reply.Receipt.Task); ok {
				before = status
				break
			}
		}
		r := reply.Complete(before)
		if r.Task != first.Task || r.OldStatus != first.OldStatus || r.NewStatus != first.NewStatus || r.Deferred != first.Deferred {
			w.t.Fatalf("the answer at %d was told %+v and is told %+v", first.Seq, first, r)
		}
	}
}

func (w *scene) questionsAndStatus() {
	open := make(map[conversation.TaskID][]conversation.QuestionView)
	for _, q := range w.s.View().Questions {
		open[q.Task] = append(open[q.Task], q)
	}
	for id, row := range w.rows {
		t := readmodel.NewTask(row)
		from := max(int(row.First), 1) - 1
		for i := range w.log[from:] {
			t.Add(&w.log[from+i])
		}
		if !reflect.DeepEqual(append([]conversation.QuestionView(nil), t.Questions...), open[id]) {
			w.t.Fatalf("%s: folded questions %+v, the session has %+v", id, t.Questions, open[id])
		}
		if !t.Prompted() {
			for _, e := range slices.Backward(w.log[:from]) {
				if t.AddBefore(&e) {
					break
				}
			}
		}
		if !t.Prompted() {
			w.t.Fatalf("the prompt of %s was not found", id)
		}
		o := readmodel.NewOutcome(row.Trigger, id)
		for i := range w.log {
			o.Add(&w.log[i])
		}
		if o.Task == id && o.Status != 0 && o.Status != row.Status {
			w.t.Fatalf("%s: folded %s, its row says %s", id, o.Status, row.Status)
		}
	}
}

// callsAgain compares which calls run.
func (w *scene) callsAgain() {
	running := make(map[conversation.CallID]bool)
	for _, c := range w.s.View().Calls {
		running[c.Call] = true
	}
	for _, e := range w.log {
		var id conversation.CallID
		switch b := e.Body.(type) {
		case conversation.ToolStarted:
			id = b.Call
		case conversation.DelegationStarted:
			id = b.Delegation
		default:
			continue
		}
		c := readmodel.NewCall(id)
		for i := range w.log {
			c.Add(&w.log[i])
		}
		if c.Started == nil || (c.Finished == nil) != running[id] {
			w.t.Fatalf("call %s: started %v, finished %v, and it runs: %v", id, c.Started, c.Finished, running[id])
		}
	}
}

// historyAgain compares what was read, and a page that begins anywhere with the
// whole.
func (w *scene) historyAgain() {
	waits := make(map[conversation.MessageID]bool)
	for _, m := range w.s.View().Inbox {
		waits[m.Message] = true
	}
	approval := make(map[conversation.QuestionID]bool)
	answers := make(map[conversation.MessageID]conversation.QuestionID)
	for _, e := range w.log {
		switch b := e.Body.(type) {
		case conversation.Asked:
			approval[b.Question] = b.Approval != nil && b.Delegation == ""
		case conversation.QuestionAnswered:
			answers[b.Message] = b.Question
		}
	}
	whole := w.history(0)
	for _, m := range whole {
		switch {
		case m.Said == nil:
		case waits[m.ID()] && !m.Read.IsZero():
			w.t.Fatalf("%s waits to be read and was read at %v", m.ID(), m.Read)
		case m.How == conversation.ResolvedAnswered && m.Read.IsZero() && w.s.state.Agent != "outside":
			w.t.Fatalf("%s was answered and never read", m.ID())
		case m.Said.Disposition == conversation.Answered && approval[answers[m.ID()]] && m.Read.IsZero():
			w.t.Fatalf("%s decided about a call and was never read", m.ID())
		}
	}
	for after := range w.log {
		if _, asked := w.log[after].Body.(conversation.Asked); !asked { // what a later page does not see matters then
			continue
		}
		after++
		page := w.history(after)
		rest := slices.DeleteFunc(slices.Clone(whole), func(m *readmodel.HistoryEntry) bool { return int(m.Seq) <= after })
		if len(page) != len(rest) {
			w.t.Fatalf("the page after %d has %d entries, want %d", after, len(page), len(rest))
		}
		for i, m := range page {
			if m.Read != rest[i].Read || m.Resolved != rest[i].Resolved || m.Delivered != rest[i].Delivered || m.Task != rest[i].Task {
				w.t.Fatalf("%s on the page after %d is %+v, want %+v", m.ID(), after, *m, *rest[i])
			}
		}
	}
}

func (w *scene) history(after int) []*readmodel.HistoryEntry {
	h := readmodel.NewHistory(len(w.log)+1, 1<<20)
	for i := range w.log[after:] {
		h.Add(&w.log[after+i])
	}
	return h.Page
}
