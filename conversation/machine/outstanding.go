package machine

import (
	"slices"
	"time"

	"parley/conversation"
)

// recover decides what becomes of what was open when the process ended:
// docs/MACHINE.md, section 1.
// Rules 1.5, 5.2.
func (d *decision) recover() {
	for _, t := range slices.Clone(d.state.Tasks) {
		for _, c := range slices.Clone(t.Calls) {
			switch {
			case c.Delegation() || c.Held:
			case t.Cancelling != nil && c.Idempotent:
				d.calls().finishTool(t, c, conversation.CallCancelled, "cancelled", 0)
			case !c.Idempotent:
				d.calls().finishTool(t, c, conversation.CallUnknown, "outcome unknown: the server stopped while this call ran; it may or may not have taken effect", 0)
			}
		}
		if t.Step != nil {
			d.resumeStep(t)
		}
		if t.Cancelling != nil {
			d.calls().stopCalls(t)
		}
		if d.key.Session.Depth() > 0 {
			d.calls().reportQuestions(t) // the parent may not wait for us any more, and then says so
		}
	}
}

// Outstanding derives from the state every acquiring effect that must be in
// progress now. After a load it is what to start. It holds no attempt whose
// time is still to come: the Tick at NextTick returns that.
func (s *Session) Outstanding(now time.Time) []conversation.Effect {
	now = conversation.Stamp(now)
	var all []conversation.Effect
	for _, t := range s.state.Tasks {
		if st := t.Step; st != nil && !st.Parked && !st.NotBefore.After(now) {
			all = append(all, s.askModel(t))
		}
		for _, c := range t.Calls {
			all = append(all, s.callEffects(t, c)...)
		}
	}
	if s.wantsSlot(now) {
		all = append(all, conversation.WantSlot{Task: s.state.TaskID(s.state.RunnableAt(now).N)})
	}
	return all
}

// Wants is true while an acquiring effect that Decide returned is still called
// for: a cancel, an end or another attempt may have come while its commit was
// in flight. What goes on for a while must be outstanding, texts aside; a thing
// that is only said must still be true.
// Rule 1.12.
func (s *Session) Wants(e conversation.Effect) bool {
	switch f := e.(type) {
	case conversation.AskModel:
	case conversation.RunTool:
		f.Args = ""
		e = f
	case conversation.AmendDelegation:
		f.Text = ""
		e = f
	case conversation.StartDelegation:
		f.Objective = ""
		e = f
	case conversation.WantSlot:
		return s.wantsSlot(s.clockNow())
	case conversation.RouteAnswer:
		_, c := s.state.Call(f.Delegation)
		return c != nil
	case conversation.Report:
		return s.state.Final != nil && s.state.Final.Status != 0
	case conversation.ReportQuestion:
		_, q := s.state.Question(f.Asked.Question)
		return q != nil
	case conversation.ReportQuestions:
		return len(s.state.Tasks) > 0
	case conversation.ReportQuestionClosed, conversation.Triage:
		return true
	}
	return slices.Contains(s.Outstanding(s.clockNow()), e)
}

// Rule 6.3.
func (s *Session) wantsSlot(now time.Time) bool {
	return s.key.Session.Depth() == 0 && s.state.Agent != conversation.Outside && s.state.Running() == nil && s.state.RunnableAt(now) != nil
}

// Busy is true while a step or a call is open, or a task wants a slot: the
// session must stay in memory. A task of an outside runtime has none of these.
func (s *Session) Busy() bool {
	for _, t := range s.state.Tasks {
		if t.Step != nil || t.Cancelling != nil {
			return true
		}
		for _, c := range t.Calls {
			if !c.Held {
				return true
			}
		}
	}
	return s.state.Running() == nil && s.state.RunnableAt(s.clockNow()) != nil
}

// HoldsSlot is true while a root task is RUNNING.
// Rules 6.1, 6.4.
func (s *Session) HoldsSlot() bool {
	return s.key.Session.Depth() == 0 && s.state.Agent != conversation.Outside && s.state.Running() != nil
}

// WouldQueue is true when a new task could not start at once even with a free
// slot: another one runs, or waits before it.
func (s *Session) WouldQueue() bool {
	return s.state.Running() != nil || s.state.RunnableAt(s.clockNow()) != nil
}
