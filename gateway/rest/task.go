package rest

import (
	"context"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
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
func (c *API) taskDetail(ctx context.Context, row conversation.TaskRow) (*taskDetail, error) {
	t := &taskDetail{row: row}
	before := conversation.Seq(0)
	if row.Status.Ended() && row.Last > 0 {
		before = row.Last + 1
	}
	found := false
	for e, err := range c.Events(ctx, row.Key, max(row.First, 1)-1, before) {
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
func (c *API) findPrompt(ctx context.Context, t *taskDetail) error {
	edited := false
	for record, err := range c.Sessions.Records(ctx, t.row.Key, conversation.Range{Before: t.row.First, Reverse: true}) {
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

func (t *taskDetail) append(o *protocol.Object, redact bool) {
	o.Text("task_id", string(t.row.Task))
	o.Text("session", string(t.row.Key.Session))
	o.Text("status", t.row.Status.String())
	o.Optional("agent", string(t.row.Agent))
	o.Text("prompt", t.prompt)
	o.Text("output", t.output())
	if q := t.open(); q != nil {
		o.Key("question")
		in := protocol.NewObject(o.Bytes)
		protocol.AppendOpenQuestion(&in, *q, redact)
		o.Bytes = in.Close()
	}
	o.Optional("user_reply", t.unread)
	protocol.AppendList(o, "reply_history", t.replies, func(o *protocol.Object, r taskReply) {
		o.Text("content", r.text)
		o.Time("timestamp", r.at)
	})
	protocol.AppendList(o, "parts", t.parts, func(o *protocol.Object, p taskPart) {
		appendPart(o, &p.part, p.kind, p.final, p.seq, p.at)
	})
	o.Time("created_at", t.row.CreatedAt)
	o.Time("updated_at", t.row.UpdatedAt)
	protocol.AppendFailure(o, t.row.Error)
}
