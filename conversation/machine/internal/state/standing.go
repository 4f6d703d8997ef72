package state

import (
	"time"

	"parley/conversation"
)

// Due is the time at which the session must be loaded, if it is not in memory.
// The time has passed already while something is open that only a loaded session
// can end; else it is the next deadline; the zero time = nothing to do.
// Rule 1.6.
func (st *State) Due(now time.Time, busy bool, tick time.Time) time.Time {
	if busy || st.Key.Session.Depth() > 0 && len(st.Tasks) > 0 {
		if now.Before(st.Last) {
			return now
		}
		return st.Last
	}
	return tick
}

// NextTick is the time at which a loaded session needs a Tick; the zero time = never.
// An answer in the past means at once. ticked is the time of the last Tick: only a Tick
// does what has become due.
// Rule 1.7.
func (st *State) NextTick(now, ticked time.Time, grace, maxWait time.Duration) time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, t := range Active(st) {
		if t.Step != nil && t.Step.NotBefore.After(ticked) && !t.Step.Parked {
			sooner(t.Step.NotBefore)
		}
		if t.Status == conversation.TaskQueued && t.NotBefore.After(ticked) {
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
			sooner(c.Due(grace))
		}
		if t.Lease.Held() {
			sooner(t.Lease.Until)
		}
	}
	if maxWait > 0 && st.Running() == nil {
		if t := st.RunnableAt(now); t != nil {
			sooner(st.WaitingSince(t).Add(maxWait))
		}
	}
	return next
}
