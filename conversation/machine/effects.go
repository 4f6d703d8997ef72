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
			if _, gone := e.(conversation.AnswerTool); !gone && !effects.GoesOn(e) { // no tool has lived on
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

// stillToDo is true while an effect is called for.
func (s *Session) stillToDo(e conversation.Effect) bool {
	return s.source().StillToDo(e, s.clockNow())
}

// Outstanding derives from the state every acquiring effect that must be in
// progress now. After a load all of it must be started. It holds no attempt whose
// time is still to come: the Tick at NextTick returns that.
func (s *Session) Outstanding(now time.Time) []conversation.Effect {
	return s.source().Outstanding(conversation.Stamp(now))
}

func (s *Session) source() effects.Source {
	return effects.Source{State: &s.state, MaxSteps: s.maxSteps()}
}
