package machine

import (
	"parley/conversation"
)

// Parts of outside runtimes: agents that are not ours deliver what they say.
// Requirements M, notes.

func (s *Session) decideAddPart(c conversation.AddPart) *conversation.Error {
	if conversation.IsBlank(c.Text) {
		s.out.Receipt.Nothing = true
		return nil
	}
	if done, err := s.deliveredBefore(c); done || err != nil {
		return err
	}
	if s.state.Closed {
		return conversation.Errorf(conversation.SessionIsClosed, "the session is closed")
	}
	part := conversation.Part{Message: s.partID(s.state.Parts + 1), Text: c.Text}
	var t *task
	if c.Source == "" {
		part.Author, part.ClientMsgID = c.Author, c.ClientMsgID
		if part.ClientMsgID == "" {
			part.Author = "" // it is kept for the key's sake alone
		}
	} else {
		part.Source, part.Index = conversation.SourceID("ext:"+c.Source), c.Index
		if n := conversation.Ordinal(c.Source, 'm'); s.state.Agent == conversation.Outside && n > 0 && n <= s.state.Messages && s.messageID(n) == conversation.MessageID(c.Source) {
			if t = s.outsideTask(conversation.MessageID(c.Source)); t == nil {
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
		e = s.emit(t, conversation.PartialResponse{Part: part})
	case t == nil:
		e = s.emit(nil, conversation.Response{Part: part})
	default:
		part.InReplyTo = t.Trigger
		e = s.emit(t, conversation.Response{Part: part})
		s.resolve(t, t.Trigger, conversation.ResolvedAnswered, &part.Index, "")
		s.finish(t, conversation.ResolvedUnanswered)
	}
	s.out.Receipt = conversation.Receipt{Message: part.Message, Seq: e.Seq, PartIndex: part.Index}
	return nil
}

// deliveredBefore answers a part that was delivered before: the store knows all
// that have a source, and the session the last plain ones. What a source has said
// under an index stays; a client's id under which something else was said is a
// mistake of the client.
func (s *Session) deliveredBefore(c conversation.AddPart) (bool, *conversation.Error) {
	d := c.Duplicate
	if c.Source != "" {
		if d == nil {
			return false, nil
		}
		s.out.Receipt = conversation.Receipt{Message: d.Message, Seq: d.Seq, PartIndex: c.Index, Duplicate: true}
		return true, nil
	}
	if c.ClientMsgID == "" {
		return false, nil
	}
	if d == nil {
		r, ok := s.state.recall(c.Author, c.ClientMsgID)
		if !ok {
			return false, nil
		}
		d = &conversation.Duplicate{Message: s.partID(r.Message), Seq: conversation.Seq(r.Seq), SameText: r.Text == textKey(c.Said())}
	}
	if !d.SameText {
		return false, conversation.Errorf(conversation.Conflict, "the id %q was used for something else", c.ClientMsgID)
	}
	s.out.Receipt = conversation.Receipt{Message: d.Message, Seq: d.Seq, Duplicate: true}
	return true, nil
}

func (s *Session) outsideTask(trigger conversation.MessageID) *task {
	for _, t := range s.state.Tasks {
		if t.Trigger == trigger && t.Cancelling == nil {
			return t
		}
	}
	return nil
}
