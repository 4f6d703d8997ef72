package protocol

import (
	"strconv"
	"time"

	"parley/conversation"
	"parley/conversation/readmodel"
	"parley/conversation/search"
)

// AppendHistoryEntry is an item of GET /api/sessions/:id/messages.
func AppendHistoryEntry(dst []byte, e *readmodel.HistoryEntry) []byte {
	o := NewObject(dst)
	if e.Said != nil {
		appendSaid(&o, e)
	} else {
		o.Text("type", "part")
		appendPart(&o, e.Part, e.Kind, e.Final, e.Seq, e.At)
		o.Optional("task", string(e.Task))
	}
	return o.Close()
}

func appendSaid(o *Object, e *readmodel.HistoryEntry) {
	m := e.Said
	o.Text("type", "message")
	o.Text("message", string(m.Message))
	o.Text("client_msg_id", string(m.ClientMsgID))
	o.Text("author", string(m.Author))
	o.Optional("name", m.AuthorName)
	o.Text("text", m.Text)
	appendFiles(o, m.Files)
	o.Flag("edited", e.Edited)
	o.Text("via", m.Via.String())
	o.Optional("in_reply_to", string(m.InReplyTo))
	o.Optional("question", string(m.Question))
	o.Optional("task", string(e.Task))
	o.Uint("seq", uint64(e.Seq))
	o.Time("accepted_at", e.At)
	o.OptionalTime("read_at", e.Read)
	o.OptionalTime("resolved_at", e.Resolved)
	o.OptionalTime("delivered_at", e.Delivered)
	if e.How != 0 {
		o.Text("how", e.How.String())
	}
	if e.Evidence != 0 {
		o.Text("evidence", e.Evidence.String())
	}
}

// appendPart writes a part as lists show it.
func appendPart(o *Object, p *conversation.Part, kind conversation.ResponseKind, final bool, seq conversation.Seq, at time.Time) {
	o.Text("message", string(p.Message))
	if p.Source != "" {
		o.Text("source", string(p.Source))
		o.Uint("part", uint64(p.Index))
	}
	o.Text("text", p.Text)
	o.Optional("in_reply_to", string(p.InReplyTo))
	o.Flag("guessed", p.Guessed)
	o.Flag("cut", p.Cut)
	o.Flag("final", final)
	o.Optional("kind", kind.String())
	o.Uint("seq", uint64(seq))
	o.Time("created_at", at)
}

// AppendTask is a task as GET /api/tasks/:taskId shows it.
func AppendTask(o *Object, t *readmodel.Task, redact bool) {
	o.Text("task_id", string(t.Row.Task))
	o.Text("session", string(t.Row.Key.Session))
	o.Text("status", t.Row.Status.String())
	o.Optional("agent", string(t.Row.Agent))
	o.Text("prompt", t.Prompt)
	appendFiles(o, t.Trigger.Files)
	o.Text("output", t.Output())
	if q := t.Question(); q != nil {
		o.Key("question")
		in := NewObject(o.Bytes)
		AppendOpenQuestion(&in, *q, redact)
		o.Bytes = in.Close()
	}
	o.Optional("user_reply", t.Unread)
	AppendList(o, "reply_history", t.Replies, func(o *Object, r readmodel.ReplyEntry) {
		o.Text("content", r.Text)
		o.Time("timestamp", r.At)
	})
	AppendList(o, "parts", t.Parts, func(o *Object, p readmodel.ShownPart) {
		appendPart(o, &p.Part, p.Kind, p.Final, p.Seq, p.At)
	})
	o.Time("created_at", t.Row.CreatedAt)
	o.Time("updated_at", t.Row.UpdatedAt)
	AppendFailure(o, t.Row.Error)
}

// AppendCall is a call as GET /api/sessions/:id/calls/:call shows it: whole. It has
// started.
func AppendCall(o *Object, f *readmodel.Call, redact bool) {
	switch b := f.Started.Body.(type) {
	case conversation.ToolStarted:
		o.Text("call", string(b.Call))
		o.Text("tool", b.Tool)
		switch {
		case redact:
			o.Raw("args", RedactedJSON)
		case ValidJSON([]byte(b.Args)):
			o.Key("args")
			o.Bytes = AppendCompact(o.Bytes, []byte(b.Args))
		default:
			o.Text("args", b.Args)
		}
		o.OptionalTime("deadline", b.Deadline)
		o.Optional("delegation", string(b.Delegation))
		o.Flag("caller", b.Caller)
	case conversation.DelegationStarted:
		o.Text("call", string(b.Delegation))
		o.Text("agent", string(b.Agent))
		secret(o, "objective", b.Objective, redact)
		o.Text("session", string(b.Session))
		o.Time("deadline", b.Deadline)
	}
	o.Optional("task", string(f.Started.Task))
	o.Time("started_at", f.Started.At)
	if f.Finished == nil {
		return
	}
	var status conversation.CallStatus
	var result string
	var ms int64
	switch b := f.Finished.Body.(type) {
	case conversation.ToolFinished:
		status, result, ms = b.Status, b.Summary, b.Took.Milliseconds()
	case conversation.DelegationFinished:
		status, result, ms = b.Status, b.Summary, b.Took.Milliseconds()
	}
	o.Text("status", status.String())
	secret(o, "result", result, redact)
	o.Int("ms", ms)
	o.Time("finished_at", f.Finished.At)
}

// AppendOutcome is the answer to a message that was sent with ?wait.
func AppendOutcome(out *Object, o *readmodel.Outcome, redact bool) {
	out.Text("message", string(o.Message))
	out.Optional("task", string(o.Task))
	if o.How != 0 {
		out.Text("how", o.How.String())
	}
	if o.Evidence != 0 {
		out.Text("evidence", o.Evidence.String())
	}
	if o.Status != 0 {
		out.Text("status", o.Status.String())
	}
	AppendList(out, "parts", o.Answers(), func(o *Object, p readmodel.ShownPart) {
		appendPart(o, &p.Part, p.Kind, p.Final, p.Seq, p.At)
	})
	if q := o.Question(); q != nil && (o.How == 0 || o.How == conversation.ResolvedMerged && o.Status == conversation.TaskAwaiting) {
		out.Key("question")
		in := NewObject(out.Bytes)
		AppendOpenQuestion(&in, *q, redact)
		out.Bytes = in.Close()
	}
}

// AppendSummary is an item of GET /api/sessions.
func AppendSummary(dst []byte, row conversation.Summary) []byte {
	o := NewObject(dst)
	appendSummary(&o, row)
	return o.Close()
}

func appendSummary(o *Object, row conversation.Summary) {
	o.Text("session", string(row.Key.Session))
	o.Text("title", row.Title)
	o.Text("agent", string(row.Agent))
	o.Text("owner", string(row.Owner))
	o.Text("access", row.Access.String())
	o.Bool("closed", row.Closed)
	o.Time("created_at", row.CreatedAt)
	o.Time("activity_at", row.Activity)
	o.Uint("head", uint64(row.Last))
	o.Uint("seen", uint64(row.Seen))
	o.Int("open_tasks", int64(row.Open))
	o.Int("awaiting_tasks", int64(row.Awaiting))
	o.Text("status", listStatus(row))
	o.Int("awaiting", int64(row.Asking))
	o.Uint("last_seq", uint64(row.Last))
	o.Time("last_at", row.Activity)
	o.Int("unread", int64(row.Parts.Unread(uint64(row.Seen))))
	AppendMarks(o, row)
}

// AppendMarks says what the reader of the row has marked the session with.
func AppendMarks(o *Object, row conversation.Summary) {
	o.Bool("pinned", row.Marks.Pinned())
	o.Bool("archived", row.Marks.Archived())
}

// listStatus is what a session does, in the words of its tasks' states; "" = nothing.
func listStatus(row conversation.Summary) string {
	switch {
	case row.Running > 0:
		return conversation.TaskRunning.String()
	case row.Awaiting > 0:
		return conversation.TaskAwaiting.String()
	case row.Open > 0:
		return conversation.TaskQueued.String()
	}
	return ""
}

// AppendListed appends the frame that shows a row of the user's list as it is now: an item of
// GET /api/sessions.
func AppendListed(dst []byte, row conversation.Summary) []byte {
	return append(AppendSummary(append(dst, `{"type":"listed","data":`...), row), '}')
}

// AppendUnlisted appends the frame that takes a session out of the user's list.
func AppendUnlisted(dst []byte, session conversation.SessionID) []byte {
	o := NewObject(append(dst, `{"type":"listed","data":`...))
	o.Text("session", string(session))
	o.Bool("gone", true)
	return append(o.Close(), '}')
}

// AppendFound is an item of GET /api/sessions?in=messages.
func AppendFound(dst []byte, session conversation.Summary, said search.Said, snippet string, marks []search.Span) []byte {
	o := NewObject(dst)
	o.Text("session", string(session.Key.Session))
	o.Text("title", session.Title)
	o.Text("message", string(said.Message))
	o.Uint("seq", uint64(said.Seq))
	o.Time("created_at", said.At)
	o.Text("snippet", snippet)
	o.Key("marks")
	o.Bytes = append(o.Bytes, '[')
	for i, m := range marks {
		if i > 0 {
			o.Bytes = append(o.Bytes, ',')
		}
		o.Bytes = append(o.Bytes, '[')
		o.Bytes = strconv.AppendInt(o.Bytes, int64(m.From), 10)
		o.Bytes = append(o.Bytes, ',')
		o.Bytes = strconv.AppendInt(o.Bytes, int64(m.To), 10)
		o.Bytes = append(o.Bytes, ']')
	}
	o.Bytes = append(o.Bytes, ']')
	return o.Close()
}
