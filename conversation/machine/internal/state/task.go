package state

import (
	"slices"
	"time"

	"parley/conversation"
)

// Within the same order the list's own order counts: born, or as moved.
func (st *State) RunnableAt(now time.Time) *Task {
	var next *Task
	for _, t := range Active(st) {
		if t.Status == conversation.TaskQueued && t.Cancelling == nil && !t.NotBefore.After(now) &&
			(next == nil || t.Order > next.Order) {
			next = t
		}
	}
	if rest := Waiters(st); next == nil && len(rest) > 0 {
		return rest[0]
	}
	return next
}

// Blocked: rule 2.2, a blocking question of the task's own steps is open.
// Rule 2.2.
func (t *Task) Blocked() bool {
	for _, q := range t.Questions {
		if q.Own() && q.Asked.Blocking {
			return true
		}
	}
	return false
}

// Asking: rule 2.7, a non-blocking question of the task's own steps is open.
// Rule 2.7.
func (t *Task) Asking() bool {
	for _, q := range t.Questions {
		if q.Own() && !q.Asked.Blocking {
			return true
		}
	}
	return false
}

// ToolOpen: rule 2.3. A call that waits for an approval, or for its caller, is rule 2.2's business.
// Rule 2.3.
func (t *Task) ToolOpen() bool {
	for _, c := range t.Calls {
		if !c.Delegation() && !c.Held {
			return true
		}
	}
	return false
}

// Delegating is true while a delegation of that step runs; step 0 = of any.
// Rules 2.4, 2.6.
func (t *Task) Delegating(of conversation.StepNumber) bool {
	for _, c := range t.Calls {
		if c.Delegation() && (of == 0 || c.Step == of) {
			return true
		}
	}
	return false
}

// DelegationsAsk: every running delegation has an open question.
// Rule 2.4a.
func (t *Task) DelegationsAsk() bool {
	for _, c := range t.Calls {
		if !c.Delegation() {
			continue
		}
		asks := false
		for _, q := range t.Questions {
			asks = asks || q.Asked.Delegation == c.ID
		}
		if !asks {
			return false
		}
	}
	return true
}

// Joinable is true while a task waits for its turn or for an answer: a message may join it.
func Joinable(st *State) bool {
	return slices.ContainsFunc(st.Tasks, func(t *Task) bool {
		return t.Status == conversation.TaskAwaiting || t.Status == conversation.TaskQueued
	})
}

func (st *State) applyStatus(e conversation.Event, t *Task, b conversation.TaskStatusChanged) {

	if b.Old == 0 { // leftovers of another task
		t = st.newTask(e, b.Trigger)
		t.Order = OrderLeftover
		for _, id := range b.Messages {
			if from, m := st.Message(id); m != nil {
				from.drop(id)
				m.Deferred = false
				t.Messages = append(t.Messages, m)
			}
		}
		t.Events = leftOver(t.Messages)
		return
	}
	if t == nil {
		return
	}
	if b.Old == conversation.TaskRunning {
		st.FreeSince = e.At
	}
	if b.Old == conversation.TaskAwaiting && b.New == conversation.TaskQueued {
		t.Order, t.Replied = OrderReplied, true
	}
	t.Status, t.Updated, t.Last = b.New, e.At, e.Seq
	if !b.New.Ended() {
		return
	}
	for i := range st.Tasks {
		if st.Tasks[i] == t {
			st.Tasks = without(st.Tasks, i)
			break
		}
	}
	if len(st.Tasks) == 0 {
		st.Tasks = nil
	}
	if st.Key.Session.Depth() > 0 {
		if st.Final == nil {
			st.Final = &Final{}
		}
		st.Final.Status = map[conversation.TaskStatus]conversation.CallStatus{conversation.TaskComplete: conversation.CallOK, conversation.TaskError: conversation.CallFailed, conversation.TaskCancelled: conversation.CallCancelled}[b.New]
	}
}

// newTask puts a QUEUED task at the end of the list. The event names it.
func (st *State) newTask(e conversation.Event, trigger conversation.MessageID) *Task {
	t := &Task{
		id: e.Task, N: conversation.Ordinal(string(e.Task), 't'), Status: conversation.TaskQueued, Trigger: trigger,
		Created: e.At, Updated: e.At, First: e.Seq, Last: e.Seq,
	}
	st.TaskCount = max(st.TaskCount, t.N)
	st.Tasks = append(st.Tasks, t)
	return t
}

func (st *State) applyCancelling(e conversation.Event, t *Task, b conversation.TaskCancelling) {
	if b.ClientMsgID != "" {
		st.remember(dedupEntry{
			Key: clientKey(b.Author, b.ClientMsgID), Text: TextKey(b.DedupText()), Message: conversation.Ordinal(string(e.Task), 't'), Seq: uint32(e.Seq),
		})
	}
	if t != nil && t.Cancelling == nil {
		t.Cancelling = &Cancelling{By: b.By, Until: b.Until, Error: b.Error, Drop: b.Drop, Seq: e.Seq}
	}
}

// ReadUnresolved is true while a message that a step has read has no resolution.
func (t *Task) ReadUnresolved() bool { return len(t.Messages) > 0 && t.Messages[0].Read != 0 }

// Unfinished is true while a step or a call is open, or a task wants a slot: the
// session must stay in memory. A task of an outside runtime has none of these.
func Unfinished(st *State, now time.Time) bool {
	for _, t := range Active(st) {
		if t.Step != nil || t.Cancelling != nil {
			return true
		}
		for _, c := range t.Calls {
			if !c.Held {
				return true
			}
		}
	}
	return st.Running() == nil && st.RunnableAt(now) != nil
}

// Awaits is true while a line of the settle rule still keeps an AWAITING task waiting.
// Rule 2.10.
func (t *Task) Awaits() bool {
	if t.Blocked() {
		return true
	}
	if t.ToolOpen() || t.UnseenResults && !t.Delegating(t.LastStep) || t.News() {
		return false
	}
	if t.Delegating(0) {
		return t.DelegationsAsk()
	}
	return t.Asking()
}

// Limited is true for a task at its step limit, whose next step is the last one, with
// tools off. What people say is read there too, and steps are counted anew from then
// on: a task that is talked to does not run out.
// Rules 7.1, 7.2.
func (t *Task) Limited(maxSteps int) bool { return t.StepsSince >= maxSteps && !t.Spoken() }

// Wrapping is true at the step limit while delegations run and something else is
// unseen than words: they are stopped and awaited. What is said meanwhile waits for
// that, or they would be stopped and go on.
// Rule 7.2.
func (t *Task) Wrapping(maxSteps int) bool {
	return t.Status == conversation.TaskRunning && t.Step == nil && t.StepsSince >= maxSteps && t.Delegating(0) && !t.Blocked() && !t.ToolOpen() &&
		!t.Allowed && (t.UnseenInput || t.UnseenResults && !t.Delegating(t.LastStep))
}

// Stops is true while the delegations of the task are being ended.
func (t *Task) Stops(maxSteps int) bool { return t.Cancelling != nil || t.Wrapping(maxSteps) }
