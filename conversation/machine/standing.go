package machine

import (
	"time"

	"parley/conversation"
)

// Standing returns the session's standing: the one that Decided returned last, or
// after a load the one that it would return.
func (s *Session) Standing() conversation.Standing {
	busy, tick := s.busy(), s.nextTick()
	return conversation.Standing{
		Head: s.state.Head, WakeAt: s.nextDue(busy, tick), NextTick: tick, Busy: busy,
		HoldsSlot: s.holdsSlot(), WantsSlot: s.wantsSlot(s.clockNow()),
	}
}

// nextDue is the time at which the session must be loaded, if it is not in memory.
// The time has passed already while something is open that only a loaded session
// can end; else it is the next deadline; the zero time = nothing to do.
// Rule 1.6.
func (s *Session) nextDue(busy bool, tick time.Time) time.Time {
	if busy || s.state.Key.Session.Depth() > 0 && len(s.state.Tasks) > 0 {
		if s.clockNow().Before(s.state.Last) {
			return s.clockNow()
		}
		return s.state.Last
	}
	return tick
}

// nextTick is the time at which a loaded session needs a Tick; the zero time = never.
// An answer in the past means at once.
// Rule 1.7.
func (s *Session) nextTick() time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	done := s.clock.ticked // only a Tick does what has become due
	for _, t := range s.state.Tasks {
		if t.Step != nil && t.Step.NotBefore.After(done) && !t.Step.Parked {
			sooner(t.Step.NotBefore)
		}
		if t.Status == conversation.TaskQueued && t.NotBefore.After(done) {
			sooner(t.NotBefore)
		}
		for _, q := range t.Questions {
			if q.Own() {
				sooner(q.Asked.ExpiresAt)
			}
		}
		if t.Cancelling != nil && (t.Step != nil || len(t.Calls) > 0) {
			sooner(t.Cancelling.Until)
			continue
		}
		for _, c := range t.Calls {
			sooner(s.callDue(c))
		}
	}
	if s.policy.MaxWait > 0 && s.state.Running() == nil {
		if t := s.state.RunnableAt(s.clockNow()); t != nil {
			sooner(s.state.WaitingSince(t).Add(s.policy.MaxWait))
		}
	}
	return next
}

// clockNow is the time that the session has last heard of. A Tick may bring no
// event, and yet what it made runnable is due from then on.
func (s *Session) clockNow() time.Time {
	if s.clock.heard.IsZero() {
		return s.state.Last
	}
	return s.clock.heard
}

// busy is true while a step or a call is open, or a task wants a slot: the
// session must stay in memory. A task of an outside runtime has none of these.
func (s *Session) busy() bool {
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

// holdsSlot is true while a root task is RUNNING.
// Rules 6.1, 6.4.
func (s *Session) holdsSlot() bool {
	return s.state.Key.Session.Depth() == 0 && s.state.Agent != conversation.External && s.state.Running() != nil
}

// wouldQueue is true when a new task could not start at once even with a free
// slot: another one runs, or waits before it.
func (s *Session) wouldQueue() bool {
	return s.state.Running() != nil || s.state.RunnableAt(s.clockNow()) != nil
}
