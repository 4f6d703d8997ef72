package machine

import (
	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// Parts of outside runtimes: agents that are not ours deliver what they say.
// Requirements M, notes.

// Rules 9.11, 9.12.
func (d outside) decideAddPart(c conversation.AddPart) *conversation.Error {
	if conversation.IsBlank(c.Text) {
		d.out.Receipt.Ignored = true
		return nil
	}
	if done, err := d.deliveredBefore(c); done || err != nil {
		return err
	}
	if d.state.Closed {
		return conversation.Errorf(conversation.SessionIsClosed, "the session is closed")
	}
	part := conversation.Part{Message: d.state.PartID(d.state.Parts + 1), Text: c.Text}
	var t *state.Task
	if c.Source == "" {
		part.Author, part.ClientMsgID = c.Author, c.ClientMsgID
		if part.ClientMsgID == "" {
			part.Author = "" // it is kept for the key's sake alone
		}
	} else {
		part.Source, part.Index = conversation.SourceID("ext:"+c.Source), c.Index
		if n := conversation.Ordinal(c.Source, 'm'); d.state.Agent == conversation.External && n > 0 && n <= d.state.Messages && d.state.MessageID(n) == conversation.MessageID(c.Source) {
			if t = d.state.ExternalTask(conversation.MessageID(c.Source)); t == nil {
				return conversation.Errorf(conversation.Conflict, "the message %s has ended and takes no more parts", c.Source)
			}
			if t.Status != conversation.TaskRunning {
				return conversation.Errorf(conversation.SessionBusy, "another message of this session is being answered first")
			}
			part.Source = conversation.SourceID(c.Source)
		}
	}
	var e conversation.Event
	switch {
	case !c.Final:
		e = d.emit(t, conversation.PartialResponse{Part: part})
	case t == nil:
		e = d.emit(nil, conversation.Response{Part: part})
	default:
		part.InReplyTo = t.Trigger
		e = d.emit(t, conversation.Response{Part: part})
		d.answered(t, t.Trigger, part.Index, conversation.EvidenceNamed)
		d.finish(t, conversation.ResolvedUnanswered)
	}
	d.out.Receipt = conversation.Receipt{Message: part.Message, Seq: e.Seq, PartIndex: part.Index}
	return nil
}

// deliveredBefore answers a part that was delivered before: the store knows all
// that have a source, and the session the last plain ones. A source's part
// with an index never changes; a client that uses its id again for other text has
// made a mistake.
func (d outside) deliveredBefore(c conversation.AddPart) (bool, *conversation.Error) {
	dup := c.Duplicate
	if c.Source != "" {
		if dup == nil {
			return false, nil
		}
		d.out.Receipt = conversation.Receipt{Message: dup.Message, Seq: dup.Seq, PartIndex: c.Index, Duplicate: true}
		return true, nil
	}
	if c.ClientMsgID == "" {
		return false, nil
	}
	if dup == nil {
		r, ok := d.state.Recall(c.Author, c.ClientMsgID)
		if !ok {
			return false, nil
		}
		dup = &conversation.Duplicate{Message: d.state.PartID(r.Message), Seq: conversation.Seq(r.Seq), SameText: r.Text == state.TextKey(c.DedupText())}
	}
	if !dup.SameText {
		return false, conversation.Errorf(conversation.Conflict, "the id %q was used for something else", c.ClientMsgID)
	}
	d.out.Receipt = conversation.Receipt{Message: dup.Message, Seq: dup.Seq, Duplicate: true}
	return true, nil
}

// decideHandOut gives the RUNNING task's message to a runtime.
func (d outside) decideHandOut(c conversation.HandOut) *conversation.Error {
	t := d.state.Running()
	if t == nil || d.state.Agent != conversation.External {
		return conversation.Errorf(conversation.NotFound, "nothing waits for a runtime in this session")
	}
	d.emit(t, conversation.RuntimeStatus{Message: t.Trigger, Status: conversation.RuntimeHandedOut, Generation: 1, Runtime: c.Runtime, Until: d.now.Add(d.policy.OutsideLease)})
	d.out.Receipt.Message, d.out.Receipt.NextPart = t.Trigger, t.NextPart
	return nil
}

// decideRuntimeSays takes a runtime's word about the RUNNING task's message.
func (d outside) decideRuntimeSays(c conversation.RuntimeSays) *conversation.Error {
	t := d.state.Running()
	if t == nil || d.state.Agent != conversation.External || t.Trigger != c.Message {
		return conversation.Errorf(conversation.Conflict, "the message is not a runtime's business")
	}
	d.emit(t, conversation.RuntimeStatus{Message: c.Message, Status: c.Status, Generation: c.Generation, Error: c.Error})
	return nil
}
