package state

import (
	"slices"

	"parley/conversation"
)

// NextPart is the next part of the task's source.
// Rule 3.7.
func (st *State) NextPart(t *Task, text string, inReplyTo conversation.MessageID, draft conversation.DraftID) conversation.Part {
	return conversation.Part{
		Message: st.PartID(st.Parts + 1), Source: conversation.SourceID(t.Trigger), Index: t.NextPart,
		Text: text, InReplyTo: inReplyTo, Draft: draft,
	}
}

// Guess is the message that a text without a name is shown as an answer to: what the
// answered question was about, in a step that an answer opened; else the oldest
// unresolved message that the last step read; else the oldest unresolved one that
// the task has read; else the trigger. Messages that the answer itself names are
// not open any more.
// Rule 3.6.
func (t *Task) Guess(named []conversation.MessageID) conversation.MessageID {
	if t.About != "" {
		return t.About
	}
	return t.oldestOpen(t.LastStep, named)
}

// AboutDelegation is the message for which a delegation was started, as far as that
// can be guessed.
// Rule 4.11.
func (t *Task) AboutDelegation(c *Call) conversation.MessageID { return t.oldestOpen(c.Step, nil) }

// oldestOpen is the oldest unresolved message that a step read; else the oldest that
// the task has read; else the trigger.
func (t *Task) oldestOpen(step conversation.StepNumber, named []conversation.MessageID) conversation.MessageID {
	var oldest conversation.MessageID
	for _, m := range t.Messages {
		if m.Read == 0 || slices.Contains(named, m.ID) {
			continue
		}
		if m.ReadBy == step {
			return m.ID
		}
		if oldest == "" {
			oldest = m.ID
		}
	}
	if oldest == "" {
		return t.Trigger
	}
	return oldest
}

func (st *State) applyPart(e conversation.Event, t *Task, p conversation.Part, promoted bool) {
	st.Activity = e.At
	if promoted {
		return
	}
	st.LastParts = st.LastParts.With(uint64(e.Seq))
	n := conversation.Ordinal(string(p.Message), 'p')
	st.Parts = max(st.Parts, n)
	if p.ClientMsgID != "" {
		st.remember(dedupEntry{Key: clientKey(p.Author, p.ClientMsgID), Text: TextKey(p.DedupText()), Message: n, Seq: uint32(e.Seq)})
	}
	if t == nil || p.Source != conversation.SourceID(t.Trigger) {
		return
	}
	if m := t.Message(t.Trigger); m != nil && m.Read == 0 && st.Agent.Outside() {
		m.Read, m.Files = e.Seq, nil // no step says so where none of our models runs: its runtime has begun to answer it
		t.readFirst()
	}
	if t.Lease.Held() {
		t.Lease.Heard = true
	}
	t.NextPart = max(t.NextPart, p.Index+1)
	t.LastPart = &p
	if p.Cut && t.Cancelling == nil { // the next step goes on with it
		t.Cuts++
		t.UnseenInput = true
	}
	t.noteShown(p)
	t.noteUnnamed(e, p)
}
