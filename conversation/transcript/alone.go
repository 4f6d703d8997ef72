package transcript

import (
	"slices"

	"parley/conversation"
)

// A task's model is asked for one message alone where its texts are unattributed: it is not
// known which messages they answer. Its request has neither the other open messages nor
// those texts, so what it says is its answer to that message, shown before or not.

// alone is what a task's requests leave out meanwhile.
type alone struct {
	asked  conversation.MessageID
	ended  bool                     // it is resolved, or others are asked about: nothing is left out
	hidden []conversation.MessageID // the other open ones, and those that unattributed texts were found to answer
	texts  []conversation.Seq       // of the answers with unattributed texts
	before []conversation.MessageID // asked for alone earlier: they and their answers stay
}

// askAlone begins to leave out, or goes on with another message.
// Rule 8.12.
func (t *Transcript) askAlone(task conversation.TaskID, m conversation.MessageID) {
	a := &alone{asked: m}
	if last := t.alone[task]; last != nil {
		a.before = append(last.before, last.asked)
	}
	t.alone[task] = a
	for _, s := range t.said[task] {
		if s.asked {
			a.texts = append(a.texts, s.seq)
		}
	}
	for _, s := range t.said[task] {
		if s.answers != "" && slices.Contains(a.texts, s.seq) && !slices.Contains(a.before, s.answers) {
			a.hidden = append(a.hidden, s.answers)
		}
	}
	for _, o := range t.open[task] {
		if o.id != m {
			a.hidden = append(a.hidden, o.id)
		}
	}
}

// askedAlone is what the requests of a task leave out now; nil = nothing.
func (t *Transcript) askedAlone(task conversation.TaskID) *alone {
	if a := t.alone[task]; a != nil && !a.ended {
		return a
	}
	return nil
}

// end shows all again, until the next message is asked for alone.
func (a *alone) end() {
	if a != nil {
		a.ended = true
	}
}

// leavesOut is true for an entry that a task's requests leave out. calls are those of the
// last answer that was left out: their results go with it.
func (a *alone) leavesOut(e *conversation.Entry, tr *trace, calls map[string]bool) bool {
	if e.Role == conversation.RoleTool {
		return calls[e.CallID]
	}
	clear(calls)
	switch {
	case e.Message != "":
		return slices.Contains(a.hidden, e.Message)
	case len(e.Nudge) > 0:
		return len(e.Nudge) > 1 || slices.Contains(a.hidden, e.Nudge[0])
	case e.Role == conversation.RoleUser:
		return tr.note
	case !slices.Contains(a.texts, tr.seq):
		return false
	}
	for _, item := range e.Items {
		if item.Kind == conversation.ItemCall && item.Tool != conversation.ToolRespond && item.Tool != conversation.ToolCover {
			clear(calls)
			return false // a word on the way
		}
		if item.Kind == conversation.ItemCall {
			calls[item.ID] = true
		}
	}
	return true
}
