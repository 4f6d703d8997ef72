package machine

import (
	"slices"
	"time"

	"parley/conversation"
)

// tick does what has become due.
func (d *decision) tick() {
	before := d.clock.ticked
	d.clock.ticked = d.now
	for _, t := range slices.Clone(d.state.Tasks) {
		if st := t.Step; st != nil && st.NotBefore.After(before) && !st.NotBefore.After(d.now) && !st.Parked {
			d.do(d.askModel(t))
		}
		for _, q := range slices.Clone(t.Questions) {
			if at := q.Asked.ExpiresAt; q.Own() && !at.IsZero() && !at.After(d.now) {
				d.questions().expire(t, q)
			}
		}
		d.calls().tickCalls(t)
	}
	if t := d.runnable(); t != nil && d.state.Running() == nil && d.policy.MaxWait > 0 &&
		!d.state.WaitingSince(t).Add(d.policy.MaxWait).After(d.now) && !d.slot {
		d.cancelTask(t, conversation.ByError, "no capacity", &conversation.Failure{Code: conversation.Overloaded, Message: d.policy.Texts.Overloaded}, false)
	}
}

// NextDue is when the session must be loaded if it is not: a time that has
// passed while anything is open that only a loaded session can bring to its
// end, else the next deadline; the zero time = nothing to do.
// Rule 1.6.
func (s *Session) NextDue() time.Time {
	if s.Busy() || s.key.Session.Depth() > 0 && len(s.state.Tasks) > 0 {
		if s.clockNow().Before(s.state.Last) {
			return s.clockNow()
		}
		return s.state.Last
	}
	return s.NextTick()
}

// NextTick is when a loaded session needs a Tick; the zero time = not at all.
// An answer in the past means at once.
// Rule 1.7.
func (s *Session) NextTick() time.Time {
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
		if t.Cancelling != nil && len(t.Calls) > 0 {
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

// clock is the time that the session has last heard of. A Tick may bring no
// event, and yet what it made runnable is due from then on.
func (s *Session) clockNow() time.Time {
	if s.clock.heard.IsZero() {
		return s.state.Last
	}
	return s.clock.heard
}
