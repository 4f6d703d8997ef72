package state

import (
	"slices"

	"parley/conversation"
)

// A long queue is mostly tasks that wait for their turn and for nothing else: no rule has
// anything to do with them but to start the first. How many of them end the list is
// kept, so that no decision looks at each of a thousand.

// WaitsOnly is true for a task that does nothing but wait for its turn.
func (t *Task) WaitsOnly() bool {
	return t.Status == conversation.TaskQueued && t.Order == OrderFIFO && t.Cancelling == nil && t.NotBefore.IsZero() &&
		t.Step == nil && t.Lease == nil && len(t.Calls) == 0 && len(t.Questions) == 0
}

// Active are the tasks that rules have something to do with; behind them stand others that
// wait only.
func Active(st *State) []*Task { return st.Tasks[:len(st.Tasks)-st.waitOnly] }

// Waiters are the tasks behind the active ones.
func Waiters(st *State) []*Task { return st.Tasks[len(st.Tasks)-st.waitOnly:] }

// noteQueue takes what an event has changed: a task was born by it, or it was there.
func noteQueue(st *State, e conversation.Event, t *Task, born bool) {
	if _, moved := e.Body.(conversation.MessageMoved); moved {
		countWaiters(st)
		return
	}
	switch last := len(st.Tasks) - 1; {
	case t == nil:
	case t.waits && t.Status.Ended():
		countWaiters(st)
	case born && t.WaitsOnly() && st.Tasks[last] == t:
		t.waits = true
		st.waitOnly++
	case born && st.Tasks[last] == t:
		st.waitOnly = 0
	case t.waits && !t.WaitsOnly():
		t.waits = false
		if i := slices.Index(Waiters(st), t); i >= 0 { // the first, but for those that are taken back
			st.waitOnly -= i + 1
		}
	}
}

// countWaiters counts anew.
func countWaiters(st *State) {
	st.waitOnly = 0
	for _, t := range slices.Backward(st.Tasks) {
		if t.waits = t.WaitsOnly(); !t.waits {
			break
		}
		st.waitOnly++
	}
}
