package readmodel

import (
	"slices"

	"parley/conversation"
)

// Outcome says what became of one message so far. It begins with the first event
// after the message's acceptance.
type Outcome struct {
	Message  conversation.MessageID
	Task     conversation.TaskID     // the last one that the message belonged to; that of the question which it answered
	How      conversation.Resolution // 0 = not resolved
	Evidence conversation.Evidence   // with How answered
	Status   conversation.TaskStatus // of Task; 0 = no change was seen
	Parts    []ShownPart             // of Task, since the message came to it
	Seq      conversation.Seq        // the last event that was taken

	followed  bool                        // something was shown since the message was merged
	questions []conversation.QuestionView // of the session, that are open, oldest first
}

// NewOutcome begins the outcome of a message that was accepted for a task. open are the
// questions that were asked before it and are open.
func NewOutcome(message conversation.MessageID, task conversation.TaskID, open ...conversation.QuestionView) *Outcome {
	return &Outcome{Message: message, Task: task, questions: slices.Clone(open)}
}

// Question is the newest open one of Task; nil = there is none.
func (o *Outcome) Question() *conversation.QuestionView {
	for i := len(o.questions) - 1; i >= 0; i-- {
		if o.questions[i].Task == o.Task {
			return &o.questions[i]
		}
	}
	return nil
}

// Rests is true when who waits for the message may be told. What comes of a message that
// was merged is what its task says next; that it answered a question is no news. Where
// Status is 0 nothing has changed since the message came.
func (o *Outcome) Rests() bool {
	switch o.How {
	case 0:
		return o.Status == conversation.TaskAwaiting
	case conversation.ResolvedMerged:
		return o.followed || o.Status.Ended() || o.Status == conversation.TaskAwaiting
	default:
		return true
	}
}

// Add takes the next event.
func (o *Outcome) Add(e *conversation.Event) {
	o.Seq = e.Seq
	switch b := e.Body.(type) {
	case conversation.MessageResolved:
		if b.Message == o.Message {
			o.How, o.Evidence = b.How, b.Evidence
		}
		return
	case conversation.TaskStatusChanged:
		for _, m := range b.Messages {
			if m == o.Message { // left over: it belongs to its new task
				o.belongs(e.Task)
			}
		}
	case conversation.Asked:
		o.close(b.Question)
		o.questions = append(o.questions, conversation.QuestionView{Task: e.Task, Asked: b, At: e.At})
		return
	case conversation.QuestionAnswered:
		o.close(b.Question)
		if b.Message == o.Message && e.Task != o.Task { // another task goes on with it
			o.belongs(e.Task)
		}
		return
	case conversation.QuestionClosed:
		o.close(b.Question)
		return
	}
	if e.Task != o.Task {
		return
	}
	switch b := e.Body.(type) {
	case conversation.TaskStatusChanged:
		o.Status = b.New
	case conversation.PartialResponse:
		o.Parts = append(o.Parts, ShownPart{Part: b.Part, Seq: e.Seq, At: e.At})
		o.followed = o.How == conversation.ResolvedMerged
	case conversation.Response:
		o.respond(b, e)
		o.followed = o.How == conversation.ResolvedMerged
	}
}

func (o *Outcome) belongs(task conversation.TaskID) {
	o.Task, o.Status, o.Parts = task, 0, nil
}

func (o *Outcome) close(id conversation.QuestionID) {
	o.questions = slices.DeleteFunc(o.questions, func(q conversation.QuestionView) bool { return q.Asked.Question == id })
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
