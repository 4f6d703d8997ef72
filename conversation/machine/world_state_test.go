package machine

import (
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/machine/internal/effects"
	"parley/conversation/machine/internal/state"
)

// What holds after every single command.

func (w *world) invariants(n *node) {
	running, steps := 0, 0
	for _, t := range n.live.state.Tasks {
		if t.Status == conversation.TaskRunning {
			running++
		}
		if t.Step != nil {
			steps++
			if n.live.drained && t.Cancelling == nil && !t.Step.Parked && !t.Step.NotBefore.After(w.now) {
				w.fatalf("%s: step %d is open after a drain", n.id, t.Step.N)
			}
			if t.Status != conversation.TaskRunning {
				w.fatalf("%s: %s has an open step and is %s", n.id, n.live.state.TaskID(t.N), t.Status)
			}
		}
		if t.Status.Ended() {
			w.fatalf("%s: an ended task is still there", n.id)
		}
		if wrong := wronglyAwaiting(n.live, t); wrong != "" {
			w.fatalf("%s: %s: %s", n.id, n.live.state.TaskID(t.N), wrong)
		}
		read := slices.IndexFunc(t.Messages, func(m *state.Message) bool { return m.Read == 0 })
		if read >= 0 && slices.ContainsFunc(t.Messages[read:], func(m *state.Message) bool { return m.Read != 0 }) {
			w.fatalf("%s: in %s an unread message stands before one that was read", n.id, n.live.state.TaskID(t.N))
		}
	}
	for _, t := range state.Waiters(&n.live.state) {
		if !t.WaitsOnly() {
			w.fatalf("%s: the task %s is counted among those that only wait: %+v", n.id, t.ID(), t)
		}
	}
	if running > 1 || steps > 1 {
		w.fatalf("%s: %d tasks RUNNING, %d steps open", n.id, running, steps)
	}
	if w.r.IntN(16) == 0 {
		w.sameAgain(n)
	}
	if w.r.IntN(4) == 0 {
		w.outstanding(n)
	}
}

// sameAgain: the log alone gives the same session, and so does a snapshot.
func (w *world) sameAgain(n *node) {
	again := w.replayed(n.key(), n.log())
	live := snapshot(w.t, n.live)
	if a, b := string(live), string(snapshot(w.t, again)); a != b {
		w.fatalf("%s: replayed state differs\nlive   %s\nreplay %s", n.id, a, b)
	}
	restored, err := Restore(n.key(), w.rules, live)
	if err != nil || string(snapshot(w.t, restored)) != string(live) {
		w.fatalf("%s: the restored session differs: %v\nlive     %s\nrestored %s", n.id, err, live, snapshot(w.t, restored))
	}
	want := describeAll(n.live.Outstanding(w.now))
	for _, s := range []*Session{again, restored} {
		if got := describeAll(s.Outstanding(w.now)); got != want {
			w.fatalf("%s: Outstanding differs\nlive   %s\nloaded %s", n.id, want, got)
		}
	}
}

// outstanding is what is in progress, or would be after a load.
func (w *world) outstanding(n *node) {
	wants := false
	for _, e := range n.live.Outstanding(w.now) {
		if !n.live.stillToDo(e) {
			w.fatalf("%s: outstanding, but not wanted: %s", n.id, describe(e))
		}
		if !effects.GoesOn(e) {
			w.fatalf("%s: outstanding, and a recovery would hand it out twice: %s", n.id, describe(e))
		}
		_, want := e.(conversation.WantSlot)
		wants = wants || want
	}
	if st := n.live.Standing(); st.WantsSlot != wants || st.WantsSlot && st.HoldsSlot {
		w.fatalf("%s: outstanding says wants a slot: %v; %+v", n.id, wants, st)
	}
}

func describeAll(effects []conversation.Effect) string {
	var all []string
	for _, e := range effects {
		all = append(all, describe(e))
	}
	return strings.Join(all, "; ")
}

// judgeDecision: what a command is told, and the rows of tasks, are what the
// events say.
func (w *world) judgeDecision(n *node, c conversation.Command, d conversation.Decided) {
	status := map[conversation.TaskID]conversation.TaskStatus{}
	var accepted *conversation.MessageAccepted
	started, parked := map[conversation.TaskID]bool{}, false
	for _, e := range d.Events {
		w.soon(n, e)
		if problem := n.order.judge(e, w.now, n.live); problem != "" {
			w.fatalf("%s: event %d %s %s: %s", n.id, e.Seq, e.Body.Kind(), body(e.Body), problem)
		}
		switch b := e.Body.(type) {
		case conversation.TaskStatusChanged:
			status[e.Task] = b.New
			started[e.Task] = started[e.Task] || b.New == conversation.TaskRunning
			parked = parked || b.New == conversation.TaskAwaiting
		case conversation.MessageAccepted:
			accepted = &b
			if d.Receipt.Message != b.Message || d.Receipt.Seq != e.Seq || d.Receipt.Disposition != b.Disposition || d.Receipt.Task != e.Task {
				if _, tell := c.(conversation.Tell); !tell {
					w.fatalf("%s: the receipt %+v is not of event %d: %s", n.id, d.Receipt, e.Seq, body(b))
				}
			}
			if b.Disposition != conversation.Joined && b.Disposition != conversation.Answered {
				status[e.Task] = conversation.TaskQueued
			}
		}
	}
	if accepted != nil && !d.Receipt.Duplicate {
		own := accepted.Disposition == conversation.Started || accepted.Disposition == conversation.Queued
		// It queues behind a task that parks at once when its turn comes, because its tool
		// has asked while it was QUEUED: then it starts in the same commit all the same.
		behind := accepted.Disposition == conversation.Queued && parked
		if runs := started[d.Receipt.Task]; own && !behind && runs != (accepted.Disposition == conversation.Started) && !d.Receipt.Deferred {
			w.fatalf("%s: the receipt says %s, RUNNING in the same commit: %v", n.id, accepted.Disposition, runs)
		}
	}
	if say, ok := c.(conversation.Say); ok && d.Receipt.Disposition == conversation.Answered && !strings.HasPrefix(say.Text, "/answer") {
		w.judgePlain(n, say, d)
	}
	w.judgeRows(n, d, status)
}

// judgePlain: a message that was not said to be an answer is one only where it can
// be meant as one.
func (w *world) judgePlain(n *node, say conversation.Say, d conversation.Decided) {
	var answer conversation.QuestionAnswered
	for _, e := range d.Events {
		if b, ok := e.Body.(conversation.QuestionAnswered); ok && b.Message == d.Receipt.Message {
			answer = b
		}
	}
	for _, e := range n.log() {
		q, ok := e.Body.(conversation.Asked)
		if !ok || q.Question != answer.Question || conversation.QuestionID(say.InReplyTo) == q.Question {
			continue
		}
		switch {
		case !q.Blocking:
			w.fatalf("%s: a plain message answers %s, which waits for none", n.id, q.Question)
		case q.Delegation != "" && d.Receipt.OldStatus != conversation.TaskAwaiting:
			w.fatalf("%s: a plain message answers %s of a delegation while its task is %s", n.id, q.Question, d.Receipt.OldStatus)
		case q.Approval == nil && len(q.Choices) > 0 && !slices.Contains(q.Choices, answer.Text):
			w.fatalf("%s: %q answers %s, which is none of its choices", n.id, answer.Text, q.Question)
		}
	}
}

func (w *world) judgeRows(n *node, d conversation.Decided, status map[conversation.TaskID]conversation.TaskStatus) {
	rows := map[conversation.TaskID]conversation.TaskRow{}
	for _, row := range d.Rows {
		rows[row.Task] = row
	}
	for id, s := range status {
		if rows[id].Status != s {
			w.fatalf("%s: the row of %s says %s, its last event %s", n.id, id, rows[id].Status, s)
		}
	}
	for _, t := range n.live.View().Tasks {
		if row, there := rows[t.Task]; there && (row.Status != t.Status || row.Trigger != t.Trigger) {
			w.fatalf("%s: the row %+v is not of %+v", n.id, row, t)
		}
	}
}

// soon: what is to happen later is reckoned from the clock as it is now, even if
// it has been set back.
func (w *world) soon(n *node, e conversation.Event) {
	p := n.live.Policy()
	switch b := e.Body.(type) {
	case conversation.StepStarted:
		if b.Cause == conversation.CauseError && b.NotBefore.After(w.now.Add(p.BackoffMax)) {
			w.fatalf("%s: at %v the retry %d waits until %v", n.id, w.now, e.Seq, b.NotBefore)
		}
	case conversation.ToolStarted:
		if b.Deadline.After(w.now.Add(p.ToolTimeout)) {
			w.fatalf("%s: at %v the call %s may take until %v", n.id, w.now, b.Call, b.Deadline)
		}
	case conversation.MessageAccepted:
		if b.NotBefore.After(w.now.Add(p.CollectWindow)) {
			w.fatalf("%s: at %v the message %s waits until %v", n.id, w.now, b.Message, b.NotBefore)
		}
	}
}
