package gateway

import (
	"context"
	"strings"
	"time"

	"parley/conversation"
)

// taskDetail is a task as the tasks API shows it: its row, and what the log says
// of it.
type taskDetail struct {
	row       conversation.TaskRow
	prompt    string
	parts     []taskPart
	questions []conversation.QuestionView // open ones, in order
	replies   []taskReply
	unread    string // the reply that no step has seen yet
}

type taskPart struct {
	part  conversation.Part
	kind  conversation.ResponseKind
	final bool
	seq   conversation.Seq
	at    time.Time
}

type taskReply struct {
	text string
	at   time.Time
}

// taskDetail reads a task's events: from the one that created it to the last of
// its status, or to the end while it is open.
func (c *core) taskDetail(ctx context.Context, row conversation.TaskRow) (*taskDetail, error) {
	t := &taskDetail{row: row}
	before := conversation.Seq(0)
	if row.Status.Ended() && row.Last > 0 {
		before = row.Last + 1
	}
	found := false
	for e, err := range c.events(ctx, row.Key, max(row.First, 1)-1, before) {
		if err != nil {
			return nil, err
		}
		found = t.add(e) || found
	}
	if !found {
		return t, c.findPrompt(ctx, t)
	}
	return t, nil
}

// findPrompt looks backwards for the trigger of a task of leftovers, which was
// accepted before the task was born.
func (c *core) findPrompt(ctx context.Context, t *taskDetail) error {
	edited := false
	for record, err := range c.sessions.Records(ctx, t.row.Key, conversation.Range{Before: t.row.First, Reverse: true}) {
		if err != nil {
			return err
		}
		for i := len(record.Events) - 1; i >= 0; i-- {
			switch b := record.Events[i].Body.(type) {
			case conversation.MessageEdited:
				if b.Message == t.row.Trigger && !edited && t.prompt == "" {
					t.prompt, edited = b.Text, true
				}
			case conversation.MessageAccepted:
				if b.Message == t.row.Trigger {
					if t.prompt == "" {
						t.prompt = b.Text
					}
					return nil
				}
			}
		}
	}
	return nil
}

// add takes the next event of the log; true when it is the acceptance of the trigger.
func (t *taskDetail) add(e *conversation.Event) bool {
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		if e.Task == t.row.Task && (b.Disposition == conversation.Answered || b.Kept) {
			t.replies = append(t.replies, taskReply{b.Text, e.At})
			t.unread = b.Text
		}
		if b.Message == t.row.Trigger {
			t.prompt = b.Text
			return true
		}
	case conversation.MessageEdited:
		if b.Message == t.row.Trigger {
			t.prompt = b.Text
		}
	}
	if e.Task != t.row.Task {
		return false
	}
	switch b := e.Body.(type) {
	case conversation.StepStarted:
		t.unread = ""
	case conversation.PartialResponse:
		t.parts = append(t.parts, taskPart{part: b.Part, seq: e.Seq, at: e.At})
	case conversation.Response:
		t.respond(b, e)
	case conversation.Asked:
		t.questions = append(t.questions, conversation.QuestionView{Task: e.Task, Asked: b, At: e.At})
	case conversation.QuestionAnswered:
		t.close(b.Question)
	case conversation.QuestionClosed:
		t.close(b.Question)
	case conversation.TaskStatusChanged:
		if b.New.Ended() {
			t.unread, t.questions = "", nil
		}
	}
	return false
}

func (t *taskDetail) respond(b conversation.Response, e *conversation.Event) {
	if b.Promoted {
		for i := range t.parts {
			if t.parts[i].part.Message == b.Message {
				t.parts[i].final, t.parts[i].kind = true, b.ResponseKind
			}
		}
		return
	}
	t.parts = append(t.parts, taskPart{part: b.Part, kind: b.ResponseKind, final: true, seq: e.Seq, at: e.At})
}

func (t *taskDetail) close(id conversation.QuestionID) {
	for i := range t.questions {
		if t.questions[i].Asked.Question == id {
			t.questions = append(t.questions[:i], t.questions[i+1:]...)
			return
		}
	}
}

// open is the question that a reply would answer: the newest, a blocking one first.
func (t *taskDetail) open() *conversation.QuestionView {
	var found *conversation.QuestionView
	for i := range t.questions {
		q := &t.questions[i]
		if found == nil || q.Asked.Blocking || !found.Asked.Blocking {
			found = q
		}
	}
	return found
}

// output is what the task has said: its parts, and the question that is open.
func (t *taskDetail) output() string {
	var texts []string
	for _, p := range t.parts {
		texts = append(texts, p.part.Text)
	}
	if q := t.open(); q != nil {
		texts = append(texts, q.Asked.Text)
	}
	return strings.Join(texts, "\n\n")
}

func (t *taskDetail) append(o *object, redact bool) {
	o.text("task_id", string(t.row.Task))
	o.text("session", string(t.row.Key.Session))
	o.text("status", t.row.Status.String())
	o.optional("agent", string(t.row.Agent))
	o.text("prompt", t.prompt)
	o.text("output", t.output())
	if q := t.open(); q != nil {
		o.key("question")
		in := open(o.b)
		appendOpenQuestion(&in, *q, redact)
		o.b = in.close()
	}
	o.optional("user_reply", t.unread)
	list(o, "reply_history", t.replies, func(o *object, r taskReply) {
		o.text("content", r.text)
		o.time("timestamp", r.at)
	})
	list(o, "parts", t.parts, func(o *object, p taskPart) {
		appendPart(o, &p.part, p.kind, p.final, p.seq, p.at)
	})
	o.time("created_at", t.row.CreatedAt)
	o.time("updated_at", t.row.UpdatedAt)
	failure(o, t.row.Error)
}
