package gateway

import "parley/conversation"

// appendState writes what is open in a session: the answer to follow, and
// GET /api/sessions/:id.
func appendState(o *object, v conversation.View, redact bool) {
	o.key("state")
	s := open(o.b)
	s.text("title", v.Title)
	s.text("agent", string(v.Agent))
	s.text("owner", string(v.Owner))
	s.text("access", v.Access.String())
	policy(&s, v.Policy)
	s.flag("closed", v.Closed)
	list(&s, "tasks", v.Tasks, func(o *object, t conversation.TaskView) {
		o.text("task", string(t.Task))
		o.text("status", t.Status.String())
		o.text("trigger", string(t.Trigger))
		o.flag("cancelling", t.Cancelling)
		o.int("steps", int64(t.Steps))
		o.time("created_at", t.CreatedAt)
	})
	list(&s, "inbox", v.Inbox, func(o *object, m conversation.InboxView) {
		o.text("message", string(m.Message))
		o.optional("task", string(m.Task))
		o.text("author", string(m.Author))
		o.text("excerpt", m.Excerpt)
		o.time("accepted_at", m.AcceptedAt)
	})
	list(&s, "questions", v.Questions, func(o *object, q conversation.QuestionView) {
		appendOpenQuestion(o, q, redact)
	})
	list(&s, "calls", v.Calls, func(o *object, c conversation.CallView) {
		o.text("call", string(c.Call))
		o.optional("task", string(c.Task))
		o.optional("tool", c.Tool)
		o.optional("agent", string(c.Agent))
		o.optional("session", string(c.Session))
		o.optionalTime("deadline", c.Deadline)
	})
	o.b = s.close()
}

// appendOpenQuestion is a question as its event shows it, with its task and time.
func appendOpenQuestion(o *object, q conversation.QuestionView, redact bool) {
	question(o, q.Asked, redact)
	o.optional("task", string(q.Task))
	o.optionalTime("asked_at", q.At)
}

// list appends an array of objects; it is there also when it is empty.
func list[T any](o *object, name string, items []T, write func(o *object, v T)) {
	o.key(name)
	o.b = append(o.b, '[')
	for i, v := range items {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		in := open(o.b)
		write(&in, v)
		o.b = in.close()
	}
	o.b = append(o.b, ']')
}
