package exchange

import (
	"slices"
	"time"

	"parley/conversation"
)

// Run is how the work on one message goes, as a client sees it that has sent the message and
// waits: the task that has it, what that has said since, what it waits for. It begins with the
// message's receipt, and takes all notes of the session from then on.
type Run struct {
	Message conversation.MessageID
	Task    conversation.TaskID // the last one that the message belonged to
	Trigger conversation.MessageID
	Status  conversation.TaskStatus // of Task; 0 = no change was seen
	Begun   time.Time               // of the first event that was seen of it
	Last    time.Time               // of the last one
	Seq     conversation.Seq        // of the last one

	How      conversation.Resolution // of Message; 0 = not resolved
	Evidence conversation.Evidence

	Texts     []*Item // that have ended, in order
	Questions []*conversation.QuestionView
	Calls     []*CallState // that run
	Failure   *conversation.Failure
	Reason    string
	Usage     conversation.Usage // of the steps that have finished
	Stop      conversation.StopReason
	Model     string // that answered last

	closed bool // a question was closed since Status came: with none that blocks the task goes on

	onward   bool                // see GoesOn
	answered conversation.TaskID // another one, whose question the message has answered; "" = none
	moves    bool                // that one goes on
}

// NewRun begins the run of a message that was accepted for a task.
func NewRun(message conversation.MessageID, task conversation.TaskID) *Run {
	return &Run{Message: message, Task: task}
}

// GoesOn has the run go on where a task's model has given its message, as the answer, to a question
// of another task: when the message's own task is complete, with that one, if it goes on.
func (r *Run) GoesOn() *Run {
	r.onward = true
	return r
}

// Add takes the next note. true = it is one of this run.
func (r *Run) Add(n *Note) bool {
	if n.Event != nil {
		switch b := n.Event.Body.(type) {
		case conversation.MessageResolved:
			if b.Message == r.Message {
				r.How, r.Evidence = b.How, b.Evidence
				r.saw(n)
				return true
			}
		case conversation.TaskStatusChanged:
			if r.Message != "" && slices.Contains(b.Messages, r.Message) { // left over: it belongs to its new task
				*r = Run{Message: r.Message, Task: n.Task, Begun: r.Begun, onward: r.onward}
			}
			if n.Task != "" && n.Task == r.answered {
				r.moves = b.New == conversation.TaskQueued || b.New == conversation.TaskRunning
			}
		case conversation.QuestionAnswered:
			if r.onward && b.Message == r.Message && n.Task != r.Task {
				r.answered = n.Task
			}
		}
	}
	if n.Task == "" || n.Task != r.Task {
		return false
	}
	r.saw(n)
	switch n.Kind {
	case Status:
		b := n.Event.Body.(conversation.TaskStatusChanged)
		r.Status, r.Reason, r.Failure, r.closed = b.New, b.Reason, b.Error, false
		if b.Trigger != "" {
			r.Trigger = b.Trigger
		}
		if r.moves && r.Status == conversation.TaskComplete {
			r.Task, r.Status, r.Trigger, r.Questions, r.Calls = r.answered, conversation.TaskQueued, "", nil, nil
			r.answered, r.moves = "", false
		}
	case TextEnded:
		r.Texts = append(r.Texts, n.Item)
	case TextFinal:
		if !slices.ContainsFunc(r.Texts, func(i *Item) bool { return i.Part.Message == n.Item.Part.Message }) {
			r.Texts = append(r.Texts, n.Item) // said before the message came to the task
		}
	case Asked:
		r.Questions = append(r.Questions, n.Question)
	case Closed:
		r.closed = true
		var id conversation.QuestionID
		switch b := n.Event.Body.(type) {
		case conversation.QuestionAnswered:
			id = b.Question
		case conversation.QuestionClosed:
			id = b.Question
		}
		r.Questions = slices.DeleteFunc(r.Questions, func(q *conversation.QuestionView) bool { return q.Asked.Question == id })
	case CallBegan:
		r.Calls = append(r.Calls, n.Call)
	case CallEnded:
		r.Calls = slices.DeleteFunc(r.Calls, func(c *CallState) bool { return c.ID == n.Call.ID })
	case Other:
		if b, is := n.Event.Body.(conversation.StepFinished); is {
			r.Usage.InputTokens += b.Usage.InputTokens
			r.Usage.OutputTokens += b.Usage.OutputTokens
			r.Usage.CachedTokens += b.Usage.CachedTokens
			r.Usage.Estimated = r.Usage.Estimated || b.Usage.Estimated
			r.Stop, r.Model = b.Stop, b.Model
		}
	}
	return true
}

func (r *Run) saw(n *Note) {
	if n.Event == nil {
		return
	}
	if r.Begun.IsZero() {
		r.Begun = n.Time
	}
	r.Last, r.Seq = n.Time, n.Event.Seq
}

// Ended is true when nothing more comes of the run.
func (r *Run) Ended() bool { return r.Status.Ended() }

// Waits are the questions that the run waits for: the blocking ones, and where there are none
// those that its task has kept for its end (rule 4.5 of the machine). Empty while it works.
func (r *Run) Waits() []*conversation.QuestionView {
	if r.Status != conversation.TaskAwaiting {
		return nil
	}
	var open []*conversation.QuestionView
	for _, q := range r.Questions {
		if q.Asked.Blocking {
			open = append(open, q)
		}
	}
	if len(open) == 0 && !r.closed {
		return r.Questions
	}
	return open
}

// Rests is true when who waits for the run may be answered: it has ended, or it waits for an
// answer, or the message was resolved before its task came to it (withdrawn, merged).
func (r *Run) Rests() bool {
	return r.Ended() || len(r.Waits()) > 0 || (r.How != 0 && r.How != conversation.ResolvedAnswered && r.Status == 0)
}

// CallOf is the caller's own call that a question waits for the result of; nil = it is another question.
func (r *Run) CallOf(q *conversation.QuestionView) *CallState {
	for _, c := range r.Calls {
		if c.Callers && c.ID == q.Asked.Call {
			return c
		}
	}
	return nil
}
