package state

import "parley/conversation"

// NextPart is the next part of the task's source.
// Rule 3.7.
func (st *State) NextPart(t *Task, text string, inReplyTo conversation.MessageID, draft conversation.DraftID) conversation.Part {
	return conversation.Part{
		Message: st.PartID(st.Parts + 1), Source: conversation.SourceID(t.Trigger), Index: t.NextPart,
		Text: text, InReplyTo: inReplyTo, Draft: draft,
	}
}

// ReplyTarget is the message that plain text answers: the oldest unresolved one
// that the last step read, else the oldest unresolved one that the task has
// read, else the trigger.
// Rule 3.6.
func (t *Task) ReplyTarget() conversation.MessageID {
	if id := t.TargetAmong(func(*Message) bool { return true }); id != "" {
		return id
	}
	return t.Trigger
}

// TargetAmong is the eligible message that plain text answers: the first one that the last step
// read, else the oldest read one; "" if none is eligible.
func (t *Task) TargetAmong(eligible func(*Message) bool) conversation.MessageID {
	var oldest conversation.MessageID
	for _, m := range t.Messages {
		if m.Read == 0 || !eligible(m) {
			continue
		}
		if m.ReadBy == t.LastStep {
			return m.ID
		}
		if oldest == "" {
			oldest = m.ID
		}
	}
	return oldest
}

func (st *State) applyPart(e conversation.Event, t *Task, p conversation.Part, promoted bool) {
	st.Activity = e.At
	if promoted {
		return
	}
	n := conversation.Ordinal(string(p.Message), 'p')
	st.Parts = max(st.Parts, n)
	if p.ClientMsgID != "" {
		st.remember(dedupEntry{Key: clientKey(p.Author, p.ClientMsgID), Text: TextKey(p.DedupText()), Message: n, Seq: uint32(e.Seq)})
	}
	if t == nil || p.Source != conversation.SourceID(t.Trigger) {
		return
	}
	if m := t.Message(t.Trigger); m != nil && m.Read == 0 && st.Agent == conversation.External {
		m.Read = e.Seq // no step says so where none of our models runs: its runtime has begun to answer it
		t.readFirst()
	}
	t.NextPart = max(t.NextPart, p.Index+1)
	t.LastPart = &p
}
