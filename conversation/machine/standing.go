package machine

import (
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/outside"
	"parley/conversation/machine/internal/state"
)

// Standing returns the session's standing: the one that Decided returned last, or
// after a load the one that it would return.
func (s *Session) Standing() conversation.Standing {
	busy, tick := state.Unfinished(&s.state, s.clockNow()), s.state.NextTick(s.clockNow(), s.clock.ticked, s.policy.CancelGrace, s.policy.MaxWait)
	return conversation.Standing{
		Head: s.state.Head, WakeAt: s.state.Due(s.clockNow(), busy, tick), NextTick: tick, Busy: busy,
		HoldsSlot: s.holdsSlot(), WantsSlot: s.source().WantsSlot(s.clockNow()), Claim: outside.Claimable(&s.state),
	}
}

// clockNow is the time that the session has last heard of. A Tick may bring no
// event, and yet what it made runnable is due from then on.
func (s *Session) clockNow() time.Time {
	if s.clock.heard.IsZero() {
		return s.state.Last
	}
	return s.clock.heard
}

// holdsSlot is true while a root task is RUNNING.
// Rules 6.1, 6.4.
func (s *Session) holdsSlot() bool {
	return s.state.Key.Session.Depth() == 0 && !s.state.Agent.Outside() && s.state.Running() != nil
}

// wouldQueue is true when a new task could not start at once even with a free
// slot: another one runs, or waits before it.
func (s *Session) wouldQueue() bool {
	return s.state.Running() != nil || s.state.RunnableAt(s.clockNow()) != nil
}
