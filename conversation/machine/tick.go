package machine

import (
	"slices"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// tick does what has become due.
func (d *decision) tick() {
	before := d.clock.ticked
	d.clock.ticked = d.now
	for _, t := range slices.Clone(state.Active(&d.state)) {
		if st := t.Step; st != nil && st.NotBefore.After(before) && !st.NotBefore.After(d.now) && !st.Parked {
			d.do(d.source().AskModel(t))
		}
		for _, q := range slices.Clone(t.Questions) {
			if at := q.Asked.ExpiresAt; q.Own() && !at.IsZero() && !at.After(d.now) {
				d.questions().expire(t, q)
			}
		}
		if t.Step != nil && t.Cancelling != nil && !t.Cancelling.Until.After(d.now) {
			d.ends().stepStopped(t, conversation.StepFinished{Outcome: conversation.StepUnknown})
		}
		d.calls().tickCalls(t)
		d.outsiders().leaseRanOut(t)
	}
	if t := d.runnable(); t != nil && d.state.Running() == nil && d.policy.MaxWait > 0 &&
		!d.state.WaitingSince(t).Add(d.policy.MaxWait).After(d.now) && !d.slot {
		d.cancelTask(t, conversation.ByError, "no capacity", &conversation.Failure{Code: conversation.Overloaded, Message: d.policy.Texts.Overloaded}, false)
	}
}
