package readmodel

import "parley/conversation"

// Outcome says what became of one message so far. It begins with the first event
// after the message's acceptance.
type Outcome struct {
	Message  conversation.MessageID
	Task     conversation.TaskID        // the last one that the message belonged to
	How      conversation.Resolution    // 0 = not resolved
	Evidence conversation.Evidence      // with How answered
	Status   conversation.TaskStatus    // of Task; 0 = no change was seen
	Parts    []ShownPart                // of Task, since the message came to it
	Question *conversation.QuestionView // the newest open one of Task; nil = none
}

// NewOutcome begins the outcome of a message that was accepted for a task.
func NewOutcome(message conversation.MessageID, task conversation.TaskID) *Outcome {
	return &Outcome{Message: message, Task: task}
}

// Add takes the next event.
func (o *Outcome) Add(e *conversation.Event) {
	switch b := e.Body.(type) {
	case conversation.MessageResolved:
		if b.Message == o.Message {
			o.How, o.Evidence = b.How, b.Evidence
		}
		return
	case conversation.TaskStatusChanged:
		for _, m := range b.Messages {
			if m == o.Message { // left over: it belongs to its new task
				o.Task, o.Parts = e.Task, nil
			}
		}
	}
	if e.Task != o.Task {
		return
	}
	switch b := e.Body.(type) {
	case conversation.TaskStatusChanged:
		o.Status = b.New
	case conversation.PartialResponse:
		o.Parts = append(o.Parts, ShownPart{Part: b.Part, Seq: e.Seq, At: e.At})
	case conversation.Response:
		o.respond(b, e)
	case conversation.Asked:
		o.Question = &conversation.QuestionView{Task: e.Task, Asked: b, At: e.At}
	case conversation.QuestionAnswered, conversation.QuestionClosed:
		o.Question = nil
	}
}

// respond differs from a task's in one point: a part that was shown before the
// message came is not among Parts, and counts when it becomes the final one.
func (o *Outcome) respond(b conversation.Response, e *conversation.Event) {
	if b.Promoted {
		for i := range o.Parts {
			if o.Parts[i].Part.Message == b.Message {
				o.Parts[i].Final = true
				return
			}
		}
	}
	o.Parts = append(o.Parts, ShownPart{Part: b.Part, Kind: b.ResponseKind, Final: true, Seq: e.Seq, At: e.At})
}

// Answers are the parts that answer this very message; if none names it, all that
// its task has said since.
func (o *Outcome) Answers() []ShownPart {
	var own []ShownPart
	for _, p := range o.Parts {
		if p.Part.InReplyTo == o.Message {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return o.Parts
	}
	return own
}
