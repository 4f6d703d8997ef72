package conversation

// Parts of outside runtimes: agents that are not ours deliver what they say.
// Requirements M, notes.

func (s *Session) decideAddPart(c AddPart) *Error {
	if isBlank(c.Text) {
		s.out.Receipt.Nothing = true
		return nil
	}
	if d := c.Duplicate; d != nil {
		s.out.Receipt = Receipt{Message: d.Message, Seq: d.Seq, PartIndex: c.Index, Duplicate: true}
		return nil
	}
	if s.state.Closed {
		return Errorf(SessionIsClosed, "the session is closed")
	}
	part := Part{Message: s.partID(s.state.Parts + 1), Text: c.Text}
	var t *task
	if c.Source != "" {
		part.Source, part.Index = SourceID("ext:"+c.Source), c.Index
		if n := ordinal(c.Source, 'm'); s.state.Agent == Outside && n > 0 && n <= s.state.Messages && s.messageID(n) == MessageID(c.Source) {
			if t = s.outsideTask(MessageID(c.Source)); t == nil {
				return Errorf(Conflict, "the message %s has ended and takes no more parts", c.Source)
			}
			if t.Status != TaskRunning {
				return Errorf(SessionBusy, "another message of this session is being answered first")
			}
			part.Source = SourceID(c.Source)
		}
	}
	var e Event
	switch {
	case !c.Final:
		e = s.emit(t, PartialResponse{part})
	case t == nil:
		e = s.emit(nil, Response{Part: part})
	default:
		part.InReplyTo = t.Trigger
		e = s.emit(t, Response{Part: part})
		s.resolve(t, t.Trigger, ResolvedAnswered, &part.Index, "")
		s.finish(t, ResolvedUnanswered)
	}
	s.out.Receipt = Receipt{Message: part.Message, Seq: e.Seq, PartIndex: part.Index}
	return nil
}

func (s *Session) outsideTask(trigger MessageID) *task {
	for _, t := range s.state.Tasks {
		if t.Trigger == trigger && t.Cancelling == nil {
			return t
		}
	}
	return nil
}
