package effects

import (
	"slices"

	"parley/conversation"
)

// Held are the effects that wait for their commit. The zero value holds none.
type Held struct {
	decisions []decided            // oldest first; nil = none
	asked     conversation.Attempt // the last one that was handed out
}

// decided are the effects of one decision.
type decided struct {
	after   conversation.Seq // the last event that they depend on
	effects []conversation.Effect
}

// Empty is true when nothing waits.
func (h *Held) Empty() bool { return len(h.decisions) == 0 }

// Keep takes the effects of a decision.
func (h *Held) Keep(after conversation.Seq, effects []conversation.Effect) {
	for _, e := range effects {
		if stop, ok := e.(conversation.StopCall); ok {
			h.forgetStart(stop.Call)
		}
	}
	if slices.ContainsFunc(effects, func(e conversation.Effect) bool { return !Releases(e) }) {
		h.decisions = append(h.decisions, decided{after, effects})
	}
}

// forgetStart drops the start of a delegation that was told to stop before its commit
// was durable: the one who was told answers that it has stopped. Without this
// a wrap-up that a message undoes would start it after all.
func (h *Held) forgetStart(call conversation.CallID) {
	for i := range h.decisions {
		h.decisions[i].effects = slices.DeleteFunc(slices.Clone(h.decisions[i].effects), func(e conversation.Effect) bool {
			start, ok := e.(conversation.StartDelegation)
			return ok && start.Call == call && !start.Stop
		})
	}
}

// Durable hands out the effects that waited for a seq and are still to be done, each
// once.
func (h *Held) Durable(seq conversation.Seq, stillToDo func(conversation.Effect) bool) []conversation.Effect {
	var due []conversation.Effect
	n := 0
	for ; n < len(h.decisions) && h.decisions[n].after <= seq; n++ {
		for _, e := range h.decisions[n].effects {
			if Releases(e) || !stillToDo(e) {
				continue
			}
			if ask, ok := e.(conversation.AskModel); ok {
				if h.asked == (conversation.Attempt{Step: ask.Step, N: ask.Attempt}) {
					continue // a clock that was set back brings its Tick again
				}
				h.asked = conversation.Attempt{Step: ask.Step, N: ask.Attempt}
			}
			due = append(due, e)
		}
	}
	if h.decisions = h.decisions[n:]; len(h.decisions) == 0 {
		h.decisions = nil
	}
	return due
}

// Releases is true for effects that only stop something.
func Releases(e conversation.Effect) bool {
	switch e.(type) {
	case conversation.StopModel, conversation.StopCall, conversation.RefuseDelegation:
		return true
	default:
		return false
	}
}

// Releasing are those of the effects that only stop something.
func Releasing(all []conversation.Effect) []conversation.Effect {
	var found []conversation.Effect
	for _, e := range all {
		if Releases(e) {
			found = append(found, e)
		}
	}
	return found
}

// GoesOn is true for effects that start something which the state tells of as
// long as it goes on: Outstanding has them again after a load. The others are said
// once.
func GoesOn(e conversation.Effect) bool {
	switch e.(type) {
	case conversation.AskModel, conversation.RunTool, conversation.StartDelegation, conversation.AmendDelegation, conversation.WantSlot:
		return true
	default:
		return false
	}
}
