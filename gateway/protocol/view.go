package protocol

import "parley/conversation"

// AppendState writes what is open in a session: the answer to follow, and
// GET /api/sessions/:id.
func AppendState(o *Object, v conversation.View, redact bool) {
	o.Key("state")
	s := NewObject(o.Bytes)
	s.Text("title", v.Title)
	s.Text("agent", string(v.Agent))
	s.Text("owner", string(v.Owner))
	s.Text("access", v.Access.String())
	AppendPolicy(&s, v.Policy)
	appendMembers(&s, v.Members)
	s.Flag("closed", v.Closed)
	AppendList(&s, "tasks", v.Tasks, func(o *Object, t conversation.TaskView) {
		o.Text("task", string(t.Task))
		o.Text("status", t.Status.String())
		o.Text("trigger", string(t.Trigger))
		o.Flag("cancelling", t.Cancelling)
		o.Int("steps", int64(t.Steps))
		o.Time("created_at", t.CreatedAt)
	})
	AppendList(&s, "inbox", v.Inbox, func(o *Object, m conversation.InboxView) {
		o.Text("message", string(m.Message))
		o.Optional("task", string(m.Task))
		o.Text("author", string(m.Author))
		o.Text("excerpt", m.Excerpt)
		o.Time("accepted_at", m.AcceptedAt)
		appendFiles(o, m.Files)
	})
	AppendList(&s, "questions", v.Questions, func(o *Object, q conversation.QuestionView) {
		AppendOpenQuestion(o, q, redact)
	})
	AppendList(&s, "calls", v.Calls, func(o *Object, c conversation.CallView) {
		o.Text("call", string(c.Call))
		o.Optional("task", string(c.Task))
		o.Optional("tool", c.Tool)
		o.Optional("agent", string(c.Agent))
		o.Optional("session", string(c.Session))
		o.OptionalTime("deadline", c.Deadline)
		o.Flag("caller", c.Caller)
	})
	o.Bytes = s.Close()
}

// AppendOpenQuestion is a question as its event shows it, with its task and time.
func AppendOpenQuestion(o *Object, q conversation.QuestionView, redact bool) {
	question(o, q.Asked, redact)
	o.Optional("task", string(q.Task))
	o.OptionalTime("asked_at", q.At)
}

// AppendList appends an array of objects; it is there also when it is empty.
func AppendList[T any](o *Object, name string, items []T, write func(o *Object, v T)) {
	o.Key(name)
	o.Bytes = append(o.Bytes, '[')
	for i, v := range items {
		if i > 0 {
			o.Bytes = append(o.Bytes, ',')
		}
		in := NewObject(o.Bytes)
		write(&in, v)
		o.Bytes = in.Close()
	}
	o.Bytes = append(o.Bytes, ']')
}

// AppendFollowed is the answer to follow: where the replay begins, why not where
// the client wanted (reason; "" = it does), and what is open in the session.
func AppendFollowed(o *Object, v conversation.View, since conversation.Seq, resumed bool, reason string, redact bool) {
	o.Text("session", string(v.Key.Session))
	o.Text("log", string(v.Log))
	o.Uint("head", uint64(v.Head))
	o.Uint("first", uint64(since)+1)
	o.Bool("resumed", resumed)
	o.Optional("reason", reason)
	AppendState(o, v, redact)
}
