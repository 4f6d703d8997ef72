package readmodel

import (
	"slices"
	"strings"
	"time"

	"parley/conversation"
)

// Task gathers what the log says of one task. It begins with the event that created the
// task (Row.First) and may end with the last one of its status (Row.Last).
type Task struct {
	Row       conversation.TaskRow
	Prompt    string // the text of its trigger, as it was edited last
	Parts     []ShownPart
	Questions []conversation.QuestionView // open ones, in the order in which they were asked
	Replies   []ReplyEntry
	Unread    string // the reply that no step has seen yet; "" = none

	Trigger conversation.MessageAccepted // its trigger as it was accepted

	prompted bool // Prompt is known
	edited   bool // by events before the task
}

// ShownPart is a part as it was shown.
type ShownPart struct {
	Part  conversation.Part
	Kind  conversation.ResponseKind
	Final bool
	Seq   conversation.Seq
	At    time.Time
}

// ReplyEntry holds a user's answer to a task's question.
type ReplyEntry struct {
	Text string
	At   time.Time
}

// NewTask begins the task of a row.
func NewTask(row conversation.TaskRow) *Task { return &Task{Row: row} }

// Add takes the next event.
func (t *Task) Add(e *conversation.Event) {
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		if e.Task == t.Row.Task && (b.Disposition == conversation.Answered || b.Deferred) {
			t.Replies = append(t.Replies, ReplyEntry{b.Text, e.At})
			t.Unread = b.Text
		}
		if b.Message == t.Row.Trigger {
			t.Prompt, t.Trigger, t.prompted = b.Text, b, true
		}
	case conversation.MessageEdited:
		if b.Message == t.Row.Trigger {
			t.Prompt = b.Text
		}
	}
	if e.Task != t.Row.Task {
		return
	}
	switch b := e.Body.(type) {
	case conversation.StepStarted:
		t.Unread = ""
	case conversation.PartialResponse:
		t.Parts = append(t.Parts, ShownPart{Part: b.Part, Seq: e.Seq, At: e.At})
	case conversation.Response:
		t.Parts = respond(t.Parts, b, e)
	case conversation.Asked:
		t.Questions = append(t.Questions, conversation.QuestionView{Task: e.Task, Asked: b, At: e.At})
	case conversation.QuestionAnswered:
		t.close(b.Question)
	case conversation.QuestionClosed:
		t.close(b.Question)
	case conversation.TaskStatusChanged:
		if b.New.Ended() {
			t.Unread, t.Questions = "", nil
		}
	}
}

// respond adds the last part of a task, or marks the one that was promoted to it.
func respond(parts []ShownPart, b conversation.Response, e *conversation.Event) []ShownPart {
	if b.Promoted {
		for i := range parts {
			if parts[i].Part.Message == b.Message {
				parts[i].Final, parts[i].Kind = true, b.ResponseKind
			}
		}
		return parts
	}
	return append(parts, ShownPart{Part: b.Part, Kind: b.ResponseKind, Final: true, Seq: e.Seq, At: e.At})
}

func (t *Task) close(id conversation.QuestionID) {
	t.Questions = slices.DeleteFunc(t.Questions, func(q conversation.QuestionView) bool { return q.Asked.Question == id })
}

// Prompted is true when Add has seen the trigger accepted. A task of leftovers
// was born after that: AddBefore finds its prompt.
func (t *Task) Prompted() bool { return t.prompted }

// AddBefore takes the events before the task, backwards; it is done when the
// prompt is found.
func (t *Task) AddBefore(e *conversation.Event) (done bool) {
	switch b := e.Body.(type) {
	case conversation.MessageEdited:
		if b.Message == t.Row.Trigger && !t.edited && t.Prompt == "" {
			t.Prompt, t.edited = b.Text, true
		}
	case conversation.MessageAccepted:
		if b.Message == t.Row.Trigger {
			if t.Prompt == "" {
				t.Prompt = b.Text
			}
			t.Trigger, t.prompted = b, true
			return true
		}
	}
	return false
}

// Question is the one that a reply would answer: the newest, a blocking one first;
// nil = none is open.
func (t *Task) Question() *conversation.QuestionView {
	var found *conversation.QuestionView
	for i := range t.Questions {
		q := &t.Questions[i]
		if found == nil || q.Asked.Blocking || !found.Asked.Blocking {
			found = q
		}
	}
	return found
}

// Output returns the task's text: its parts, and the question that is open.
func (t *Task) Output() string {
	var texts []string
	for _, p := range t.Parts {
		texts = append(texts, p.Part.Text)
	}
	if q := t.Question(); q != nil {
		texts = append(texts, q.Asked.Text)
	}
	return strings.Join(texts, "\n\n")
}
