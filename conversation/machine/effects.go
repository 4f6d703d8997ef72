package machine

import (
	"slices"
	"time"

	"parley/conversation"
)

// Effects that start or tell something wait here until the commit of the events
// that caused them is durable; only then it shows whether they are still to be done.

// held are the effects of one decision.
type held struct {
	after   conversation.Seq // the last event that they depend on
	effects []conversation.Effect
}

// hold keeps what a decision wants done. After a recovery that is everything that
// is outstanding, whatever the recovery itself has opened among it.
func (s *Session) hold(effects []conversation.Effect, recovered bool) {
	if recovered && s.Exists() {
		var all []conversation.Effect
		for _, e := range effects {
			if !goesOn(e) {
				all = append(all, e)
			}
		}
		effects = append(all, s.Outstanding(s.clockNow())...)
	}
	for _, e := range effects {
		if stop, ok := e.(conversation.StopCall); ok {
			s.forgetStart(stop.Call)
		}
	}
	for _, e := range effects {
		if !releases(e) {
			s.held = append(s.held, held{s.state.Head, effects})
			return
		}
	}
}

// forgetStart drops the start of a delegation that was told to stop before its commit
// was durable: the one who was told answers that it has stopped. Without this
// a wrap-up that a message undoes would start it after all.
func (s *Session) forgetStart(call conversation.CallID) {
	for i := range s.held {
		s.held[i].effects = slices.DeleteFunc(slices.Clone(s.held[i].effects), func(e conversation.Effect) bool {
			start, ok := e.(conversation.StartDelegation)
			return ok && start.Call == call && !start.Stop
		})
	}
}

// Durable takes that everything up to a seq is stored, and hands out the effects
// that waited for it and are still to be done, each once. The caller does them
// now, or never: what it does not do, because its node goes away, is outstanding
// after the next recovery. Nothing is handed out for events that are not durable.
func (s *Session) Durable(seq conversation.Seq) []conversation.Effect {
	var due []conversation.Effect
	n := 0
	for ; n < len(s.held) && s.held[n].after <= seq; n++ {
		for _, e := range s.held[n].effects {
			if releases(e) || !s.stillToDo(e) {
				continue
			}
			if ask, ok := e.(conversation.AskModel); ok {
				if s.asked == (conversation.Attempt{Step: ask.Step, N: ask.Attempt}) {
					continue // a clock that was set back brings its Tick again
				}
				s.asked = conversation.Attempt{Step: ask.Step, N: ask.Attempt}
			}
			due = append(due, e)
		}
	}
	if s.held = s.held[n:]; len(s.held) == 0 {
		s.held = nil
	}
	return due
}

// releases is true for effects that only stop something.
func releases(e conversation.Effect) bool {
	switch e.(type) {
	case conversation.StopModel, conversation.StopCall, conversation.RefuseDelegation:
		return true
	default:
		return false
	}
}

// releasing are those of the effects that only stop something.
func releasing(effects []conversation.Effect) []conversation.Effect {
	var found []conversation.Effect
	for _, e := range effects {
		if releases(e) {
			found = append(found, e)
		}
	}
	return found
}

// goesOn is true for effects that start something which the state tells of as
// long as it goes on: Outstanding has them again after a load. The others are said
// once.
func goesOn(e conversation.Effect) bool {
	switch e.(type) {
	case conversation.AskModel, conversation.RunTool, conversation.StartDelegation, conversation.AmendDelegation, conversation.WantSlot:
		return true
	default:
		return false
	}
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
