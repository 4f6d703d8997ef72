package readmodel

import "parley/conversation"

// CompleteReceipt fills in what the receipt of a message that is repeated after a
// long time does not say. e is the event at r.Seq.
func CompleteReceipt(r *conversation.Receipt, e *conversation.Event) {
	accepted, ok := e.Body.(conversation.MessageAccepted)
	if !ok || e.Seq != r.Seq {
		return
	}
	r.Message, r.Disposition = accepted.Message, accepted.Disposition
	if e.Task != "" {
		r.Task = e.Task
	}
}

// RepeatedReply is the receipt of a reply or answer that is repeated: that of its
// first delivery. It begins with the event at the receipt's Seq. Only what the
// first delivery itself brought about counts, which follows its message directly:
// a task that stayed where it was, because another of its questions was open, may
// have moved for other reasons since.
type RepeatedReply struct {
	Receipt conversation.Receipt

	answers bool                            // it answered a question, or was kept for the next one
	moved   *conversation.TaskStatusChanged // what it brought about
}

// NewRepeatedReply begins with the receipt of the repetition.
func NewRepeatedReply(r conversation.Receipt) *RepeatedReply { return &RepeatedReply{Receipt: r} }

// Add takes the next event; it is done when no later one counts.
func (f *RepeatedReply) Add(e *conversation.Event) (done bool) {
	r := &f.Receipt
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		if e.Seq != r.Seq {
			return true
		}
		r.Message, r.Task, r.Deferred = b.Message, e.Task, b.Deferred
		f.answers = b.Deferred || b.Disposition == conversation.Answered
		return b.Deferred || !f.answers // what is kept moves nothing
	case conversation.QuestionAnswered:
		return b.Message != r.Message
	case conversation.MessageResolved:
		return b.Message != r.Message
	case conversation.ToolStarted: // the call that it approved
		return e.Task != r.Task
	case conversation.ToolFinished:
		// The call that it refused, or whose result it is. The end of another call may come
		// here later, and moves nothing: the task waits for another question then.
		return e.Task != r.Task || b.Status != conversation.CallDenied && b.Status != conversation.CallOK
	case conversation.TaskStatusChanged:
		if e.Task == r.Task {
			f.moved = &b
		}
		return true
	default:
		return true
	}
}

// NeedsStatus is true when Complete needs the task's status before the reply.
func (f *RepeatedReply) NeedsStatus() bool { return f.answers }

// Complete is the receipt, given the status that its task had before the reply;
// see StatusChange.
func (f *RepeatedReply) Complete(before conversation.TaskStatus) conversation.Receipt {
	r := f.Receipt
	if f.answers {
		r.OldStatus, r.NewStatus = before, before
		if f.moved != nil && f.moved.Old == before {
			r.NewStatus = f.moved.New
		}
	}
	return r
}

// StatusChange is the status that an event gave a task. Read backwards, the first
// one tells how the task stood; without any it was QUEUED, as it was born.
func StatusChange(e *conversation.Event, task conversation.TaskID) (status conversation.TaskStatus, ok bool) {
	b, ok := e.Body.(conversation.TaskStatusChanged)
	if !ok || e.Task != task {
		return 0, false
	}
	return b.New, true
}
