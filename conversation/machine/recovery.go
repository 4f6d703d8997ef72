package machine

import (
	"slices"

	"parley/conversation"
)

// recover decides what becomes of what was open when the process ended:
// docs/MACHINE.md, section 1.
// Rules 1.5, 5.2.
func (d *decision) recover(lost conversation.Recovered) {
	for _, t := range slices.Clone(d.state.Tasks) {
		for _, c := range slices.Clone(t.Calls) {
			switch {
			case c.Delegation() || c.Held:
			case t.Cancelling != nil && c.Idempotent:
				d.calls().finishTool(t, c, conversation.CallCancelled, "cancelled", 0)
			case !c.Idempotent:
				d.calls().finishTool(t, c, conversation.CallUnknown, "outcome unknown: the server stopped while this call ran; it may or may not have taken effect", 0)
			default: // it runs again, from its beginning
				d.questions().closeOf(t, c)
			}
		}
		if t.Step != nil && t.Cancelling == nil {
			d.resumeStep(t, lost)
		}
		if t.Cancelling != nil {
			if t.Step != nil {
				outcome := conversation.StepCancelled // nothing of it runs
				if d.acts(t.Step) {
					outcome = conversation.StepUnknown
				}
				d.ends().stepStopped(t, conversation.StepFinished{Outcome: outcome})
			}
			d.calls().stopCalls(t)
		}
		if d.state.Key.Session.Depth() > 0 {
			d.calls().reportQuestions(t) // the parent may not wait for us any more, and then says so
		}
	}
}
