package machine

import (
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/effects"
)

// hold keeps what a decision wants done. After a recovery that is everything that
// is outstanding, whatever the recovery itself has opened among it.
func (s *Session) hold(wanted []conversation.Effect, recovered bool) {
	if recovered && s.Exists() {
		var all []conversation.Effect
		for _, e := range wanted {
			if !effects.GoesOn(e) {
				all = append(all, e)
			}
		}
		wanted = append(all, s.Outstanding(s.clockNow())...)
	}
	s.held.Keep(s.state.Head, wanted)
}

// Durable takes that everything up to a seq is stored, and hands out the effects
// that waited for it and are still to be done, each once. The caller does them
// now, or never: what it does not do, because its node goes away, is outstanding
// after the next recovery. Nothing is handed out for events that are not durable.
func (s *Session) Durable(seq conversation.Seq) []conversation.Effect {
	return s.held.Durable(seq, s.stillToDo)
}

// stillToDo is true while an effect is called for: a cancel, an end or another
// attempt may have come while its commit was on its way.
// Rule 1.12.
func (s *Session) stillToDo(e conversation.Effect) bool {
	switch e := e.(type) {
	case conversation.AskModel:
		t := s.state.StepOf(e.Step, e.Attempt)
		return t != nil && t.Cancelling == nil && !t.Step.NotBefore.After(s.clockNow())
	case conversation.RunTool:
		t, c := s.state.Call(e.Call)
		return c != nil && !c.Held && c.Seq == e.Seq && t.Cancelling == nil
	case conversation.AmendDelegation:
		t, c := s.state.Call(e.Call)
		return c != nil && t.Cancelling == nil
	case conversation.StartDelegation:
		t, c := s.state.Call(e.Call)
		return c != nil && e.Stop == s.stops(t)
	case conversation.WantSlot:
		return s.wantsSlot(s.clockNow())
	case conversation.RouteAnswer:
		_, c := s.state.Call(e.Delegation)
		return c != nil
	case conversation.Report:
		return s.state.Final != nil && s.state.Final.Status != 0
	case conversation.ReportQuestion:
		_, q := s.state.Question(e.Asked.Question)
		return q != nil
	case conversation.ReportQuestions:
		return len(s.state.Tasks) > 0
	default: // an order of messages, and a question that has closed, are said in any case
		return true
	}
}

// Outstanding derives from the state every acquiring effect that must be in
// progress now. After a load all of it must be started. It holds no attempt whose
// time is still to come: the Tick at NextTick returns that.
func (s *Session) Outstanding(now time.Time) []conversation.Effect {
	now = conversation.Stamp(now)
	var all []conversation.Effect
	for _, t := range s.state.Tasks {
		if st := t.Step; st != nil && t.Cancelling == nil && !st.Parked && !st.NotBefore.After(now) {
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

// wantsSlot is true while a task could start if there was a slot.
// Rule 6.3.
func (s *Session) wantsSlot(now time.Time) bool {
	return s.state.Key.Session.Depth() == 0 && s.state.Agent != conversation.External && s.state.Running() == nil && s.state.RunnableAt(now) != nil
}
