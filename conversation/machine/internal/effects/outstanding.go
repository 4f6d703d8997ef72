package effects

import (
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// Source is a session, as far as its effects follow from it.
type Source struct {
	State    *state.State
	MaxSteps int // of a task
}

// AskModel asks the model of a task's open step, for the attempt that it is at.
func (s Source) AskModel(t *state.Task) conversation.Effect {
	st := t.Step
	return conversation.AskModel{Task: t.ID(), Step: st.N, Attempt: st.Attempt, Agent: st.Agent, Upto: st.Seq, WrapUp: st.WrapUp, Form: st.Form}
}

// StillToDo is true while an effect is called for: a cancel, an end or another
// attempt may have come while its commit was on its way.
// Rule 1.12.
func (s Source) StillToDo(e conversation.Effect, now time.Time) bool {
	switch e := e.(type) {
	case conversation.AskModel:
		t := s.State.StepOf(e.Step, e.Attempt)
		return t != nil && t.Cancelling == nil && !t.Step.NotBefore.After(now)
	case conversation.RunTool:
		t, c := s.State.Call(e.Call)
		return c != nil && !c.Held && c.Seq == e.Seq && t.Cancelling == nil
	case conversation.AmendDelegation:
		t, c := s.State.Call(e.Call)
		return c != nil && t.Cancelling == nil
	case conversation.StartDelegation:
		t, c := s.State.Call(e.Call)
		return c != nil && e.Stop == t.Stops(s.MaxSteps)
	case conversation.WantSlot:
		return s.WantsSlot(now)
	case conversation.RouteAnswer:
		_, c := s.State.Call(e.Delegation)
		return c != nil
	case conversation.AnswerTool:
		t, c := s.State.Call(e.Call)
		return c != nil && t.Cancelling == nil
	case conversation.Report:
		return s.State.Final != nil && s.State.Final.Status != 0
	case conversation.ReportQuestion:
		_, q := s.State.Question(e.Asked.Question)
		return q != nil
	case conversation.ReportQuestions:
		return len(s.State.Tasks) > 0
	default: // an order of messages, and a question that has closed, are said in any case
		return true
	}
}

// Outstanding derives from the state every acquiring effect that must be in
// progress now.
func (s Source) Outstanding(now time.Time) []conversation.Effect {
	var all []conversation.Effect
	for _, t := range s.State.Tasks {
		if st := t.Step; st != nil && t.Cancelling == nil && !st.Parked && !st.NotBefore.After(now) {
			all = append(all, s.AskModel(t))
		}
		for _, c := range t.Calls {
			if e := s.call(t, c); e != nil {
				all = append(all, e)
			}
		}
	}
	if s.WantsSlot(now) {
		all = append(all, conversation.WantSlot{Task: s.State.RunnableAt(now).ID()})
	}
	return all
}

// call is the acquiring effect that an open call needs after a load; nil = none.
func (s Source) call(t *state.Task, c *state.Call) conversation.Effect {
	id := t.ID()
	switch {
	case c.Held:
		return nil
	case c.Delegation():
		return conversation.StartDelegation{
			Task: id, Call: c.ID, Agent: c.Agent, Session: s.State.Key.Session + "/" + conversation.SessionID(c.ID), Seq: c.Seq, Deadline: c.Deadline,
			Stop: t.Stops(s.MaxSteps),
		}
	case t.Cancelling != nil:
		return nil
	case c.Tool == conversation.ToolAmend:
		return conversation.AmendDelegation{Call: c.ID, Delegation: c.Target, Seq: c.Seq}
	default:
		return conversation.RunTool{Task: id, Call: c.ID, Tool: c.Tool, Seq: c.Seq, Deadline: c.Deadline}
	}
}

// WantsSlot is true while a task could start if there was a slot.
// Rule 6.3.
func (s Source) WantsSlot(now time.Time) bool {
	st := s.State
	return st.Key.Session.Depth() == 0 && st.Agent != conversation.External && st.Running() == nil && st.RunnableAt(now) != nil
}
