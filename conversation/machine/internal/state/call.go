package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"parley/conversation"
)

// NextCall is the id of the next tool call.
func (st *State) NextCall() conversation.CallID {
	return conversation.CallID(fmt.Sprintf("c%d", st.Calls+1))
}

func (st *State) applyToolStarted(e conversation.Event, t *Task, b conversation.ToolStarted) {
	st.Calls = max(st.Calls, conversation.Ordinal(string(b.Call), 'c'))
	if t == nil {
		return
	}
	c := t.Call(b.Call)
	if c == nil {
		c = &Call{ID: b.Call, Step: t.LastStep, Tool: b.Tool, Target: b.Delegation}
		t.Calls = append(t.Calls, c)
	}
	c.Held, c.Idempotent, c.Caller, c.Seq, c.At, c.Deadline = b.Caller, b.Idempotent, b.Caller, e.Seq, e.At, b.Deadline
}

func (st *State) applyDelegationStarted(e conversation.Event, t *Task, b conversation.DelegationStarted) {
	st.Delegations = max(st.Delegations, conversation.Ordinal(string(b.Delegation), 'd'))
	if t != nil {
		t.Calls = append(t.Calls, &Call{
			ID: b.Delegation, Step: t.LastStep, Agent: b.Agent, Idempotent: true, Seq: e.Seq, At: e.At, Deadline: b.Deadline,
		})
	}
}

// applyCallEnded: the result belongs to the last round, or comes from outside it.
// Rule 2.12.
func (st *State) applyCallEnded(t *Task, id conversation.CallID) {
	if t == nil {
		return
	}
	for i, c := range t.Calls {
		if c.ID == id {
			if c.Step == t.LastStep {
				t.UnseenResults = true
			} else {
				t.UnseenInput = true
			}
			t.Calls = append(t.Calls[:i:i], t.Calls[i+1:]...)
			return
		}
	}
}

// standStill stops the deadline of a delegation, or of a tool's call, while it has an open
// question, and lets it go on after the last one: a person's time is not its own.
// Rule 5.12.
func (t *Task) standStill(asked conversation.Asked, at time.Time) {
	c := t.Call(cmp.Or(asked.Delegation, asked.Call))
	if c == nil || c.Deadline.IsZero() {
		return
	}
	asks := slices.ContainsFunc(t.Questions, func(q *Question) bool { return cmp.Or(q.Asked.Delegation, q.Asked.Call) == c.ID })
	switch {
	case asks && c.Stands.IsZero():
		c.Stands = at
	case !asks && !c.Stands.IsZero():
		c.Deadline, c.Stands = c.Deadline.Add(at.Sub(c.Stands)), time.Time{}
	}
}

// Due is the time at which a call is over even if the shell is silent: a tool gets the
// cancel grace on top of its own deadline, which its child enforces.
// Rule 5.3.
func (c *Call) Due(grace time.Duration) time.Time {
	switch {
	case c.Held || c.Deadline.IsZero() || !c.Stands.IsZero():
		return time.Time{}
	case c.Delegation():
		return c.Deadline
	default:
		return c.Deadline.Add(grace)
	}
}
