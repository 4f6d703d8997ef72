package acp

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
)

// show tells the client what a note tells, once.
func (s *session) show(n *exchange.Note) {
	switch n.Kind {
	case exchange.Accepted:
		s.showMessage(n, n.Event.Body.(conversation.MessageAccepted))
	case exchange.TextGrew:
		s.update(n, 0, "agent_message_chunk", func(o *protocol.Object) { appendText(o, n.Item.ID, n.Delta) }, nil)
	case exchange.TextDropped:
		s.update(n, 0, "agent_message_chunk", func(o *protocol.Object) { appendText(o, n.Item.ID, "") },
			func(own *protocol.Object) { own.Bool("dropped", true) })
	case exchange.Asked:
		s.showQuestion(n, n.Question)
	case exchange.Closed:
		s.showClosed(n)
	case exchange.CallBegan:
		kind := "tool_call"
		if s.known[n.Call.ID] {
			kind = "tool_call_update"
			delete(s.known, n.Call.ID)
		}
		s.update(n, 0, kind, func(o *protocol.Object) {
			appendCallHead(o, n.Call.ID, titleOf(n.Call), "in_progress")
			o.Optional("name", n.Call.Tool)
			if n.Call.Tool != "" {
				appendRaw(o, "rawInput", n.Call.Args)
			}
		}, nil)
	case exchange.CallProgress:
		s.update(n, 0, "tool_call_update", func(o *protocol.Object) {
			o.Text("toolCallId", string(n.Call.ID))
			o.Text("status", "in_progress")
			appendContent(o, n.Call.Note)
		}, func(own *protocol.Object) {
			if n.Call.Percent != nil {
				own.Int("percent", int64(*n.Call.Percent))
			}
		})
	case exchange.CallEnded:
		delete(s.known, n.Call.ID)
		s.update(n, 0, "tool_call_update", func(o *protocol.Object) {
			o.Text("toolCallId", string(n.Call.ID))
			o.Text("status", statusOf(n.Call.Status))
			appendContent(o, n.Call.Result)
			appendRaw(o, "rawOutput", n.Call.Result)
		}, func(own *protocol.Object) { own.Text("status", n.Call.Status.String()) })
	case exchange.Resolved:
		b := n.Event.Body.(conversation.MessageResolved)
		s.update(n, 0, "session_info_update", nil, func(own *protocol.Object) {
			own.Key("receipt")
			r := protocol.NewObject(own.Bytes)
			r.Text("message", string(b.Message))
			r.Text("how", b.How.String())
			r.Optional("evidence", b.Evidence.String())
			r.Optional("question", string(b.Question))
			own.Bytes = r.Close()
		})
	case exchange.Status:
		b := n.Event.Body.(conversation.TaskStatusChanged)
		s.update(n, 0, "session_info_update", nil, func(own *protocol.Object) {
			own.Text("status", b.New.String())
			own.Optional("reason", b.Reason)
			if b.Error != nil {
				own.Text("error", string(b.Error.Code))
			}
		})
	case exchange.Other:
		if title, is := titled(n.Event.Body); is {
			s.update(n, 0, "session_info_update", func(o *protocol.Object) { o.Text("title", title) }, nil)
		}
	case exchange.TextBegan, exchange.TextEnded, exchange.TextFinal, exchange.Thinking, exchange.Synced:
	}
}

// update sends the i-th update that a note becomes, unless the client has had it. members and
// own append what the kind has, and what we say of it beside the protocol.
func (s *session) update(n *exchange.Note, i int, kind string, members, own func(o *protocol.Object)) {
	if i < n.Seen {
		return
	}
	s.at = n.Number(i)
	p := appendCall(s.buf[:0], "", "session/update")
	p.Text("sessionId", s.name)
	p.Key("update")
	o := protocol.NewObject(p.Bytes)
	o.Text("sessionUpdate", kind)
	if members != nil {
		members(&o)
	}
	m := beginOwn(&o)
	m.Key("cursor")
	m.Bytes = append(s.cursor(append(m.Bytes, '"')), '"')
	m.Optional("task", string(n.Task))
	if own != nil {
		own(&m)
	}
	endOwn(&o, m)
	p.Bytes = o.Close()
	s.flush(append(p.Close(), '}'))
}

func appendText(o *protocol.Object, id, text string) {
	o.Key("content")
	c := protocol.NewObject(o.Bytes)
	c.Text("type", "text")
	c.Text("text", text)
	o.Bytes = c.Close()
	o.Text("messageId", id)
}

// showMessage shows what somebody has said: others, or the client itself when it reads what was.
// Answers to approvals are no words: the call shows them.
func (s *session) showMessage(n *exchange.Note, b conversation.MessageAccepted) {
	ours := s.ours(b)
	if ours && b.Question == "" && !s.replay || b.Question != "" && s.approves(b) {
		return
	}
	own := func(m *protocol.Object) {
		m.Text("author", string(b.Author))
		m.Optional("name", b.AuthorName)
		m.Text("via", b.Via.String())
		m.Time("at", n.Time)
		m.Flag("own", ours)
		m.Optional("question", string(b.Question))
	}
	i := 0
	if b.Text != "" {
		s.update(n, i, "user_message_chunk", func(o *protocol.Object) { appendText(o, string(b.Message), b.Text) }, own)
		i++
	}
	for _, f := range b.Files {
		if i == exchange.MaxNumbers {
			break
		}
		s.update(n, i, "user_message_chunk", func(o *protocol.Object) {
			o.Key("content")
			c := protocol.NewObject(o.Bytes)
			c.Text("type", "resource_link")
			c.Text("name", f.Name)
			c.Text("uri", "/api/blobs/"+string(f.Hash)+"?session="+string(s.key.Session))
			c.Text("mimeType", f.Type)
			c.Int("size", int64(f.Size))
			o.Bytes = c.Close()
			o.Text("messageId", string(b.Message))
		}, own)
		i++
	}
}

// approves is true for the answer to an approval. The fold is ahead of the notes, and does not
// say what was open then.
func (s *session) approves(b conversation.MessageAccepted) bool {
	return s.seen[b.Question].approval || strings.HasPrefix(b.Text, `{"approve":`) ||
		slices.ContainsFunc(s.open, func(q *question) bool { return q.Asked.Question == b.Question && q.Asked.Approval != nil })
}

// showQuestion shows what is asked: an approval as a call that waits, and another question as
// words, so that what one reads later is what one sees now.
func (s *session) showQuestion(n *exchange.Note, q *conversation.QuestionView) {
	if n.Call != nil && n.Call.Callers {
		return
	}
	if a := q.Asked.Approval; a != nil {
		s.known[a.Call] = true
		s.update(n, 0, "tool_call", func(o *protocol.Object) { appendWaiting(o, a) }, func(own *protocol.Object) { own.Text("question", string(q.Asked.Question)) })
		return
	}
	text := q.Asked.Text
	for _, choice := range q.Asked.Choices {
		text += "\n- " + choice
	}
	s.update(n, 0, "agent_message_chunk", func(o *protocol.Object) { appendText(o, string(q.Asked.Question), text) }, func(own *protocol.Object) {
		own.Text("question", string(q.Asked.Question))
		own.Bool("blocking", q.Asked.Blocking)
	})
}

// showClosed shows that a question is not open any more. A call that nobody has allowed ends with it.
func (s *session) showClosed(n *exchange.Note) {
	own := func(own *protocol.Object) { appendClosed(own, n.Event.Body) }
	_, unanswered := n.Event.Body.(conversation.QuestionClosed)
	if n.Question == nil || n.Question.Asked.Approval == nil || !unanswered {
		s.update(n, 0, "session_info_update", nil, own)
		return
	}
	call := n.Question.Asked.Approval.Call
	delete(s.known, call)
	s.update(n, 0, "tool_call_update", func(o *protocol.Object) {
		o.Text("toolCallId", string(call))
		o.Text("status", "failed")
	}, own)
}

// appendWaiting appends a call that waits for an approval.
func appendWaiting(o *protocol.Object, a *conversation.Approval) {
	appendCallHead(o, a.Call, a.Tool, "pending")
	o.Text("name", a.Tool)
	appendRaw(o, "rawInput", a.Args)
}

func appendCallHead(o *protocol.Object, id conversation.CallID, title, status string) {
	o.Text("toolCallId", string(id))
	o.Text("title", title)
	o.Text("kind", "other")
	o.Text("status", status)
}

// maxTitle bounds the title of a call, in code points.
const maxTitle = 120

// titleOf is what a call does, in one line.
func titleOf(c *exchange.CallState) string {
	switch {
	case c.Agent == "":
		return c.Tool
	case c.Args == protocol.RedactedJSON:
		return string(c.Agent)
	}
	title := string(c.Agent) + ": " + strings.Join(strings.Fields(c.Args), " ")
	if r := []rune(title); len(r) > maxTitle {
		title = string(r[:maxTitle-1]) + "…"
	}
	return title
}

func statusOf(s conversation.CallStatus) string {
	if s == conversation.CallOK {
		return "completed"
	}
	return "failed"
}

// appendRaw appends JSON as it is, and another text as a string.
func appendRaw(o *protocol.Object, name, text string) {
	switch {
	case text == "":
	case json.Valid([]byte(text)):
		o.Raw(name, text)
	default:
		o.Text(name, text)
	}
}

func appendContent(o *protocol.Object, text string) {
	if text == "" {
		return
	}
	o.Raw("content", `[{"type":"content","content":{"type":"text","text":`)
	o.Bytes = append(protocol.AppendString(o.Bytes, text), "}}]"...)
}

func appendClosed(own *protocol.Object, body conversation.EventBody) {
	own.Key("closed")
	c := protocol.NewObject(own.Bytes)
	switch b := body.(type) {
	case conversation.QuestionAnswered:
		c.Text("question", string(b.Question))
		c.Text("reason", "answered")
	case conversation.QuestionClosed:
		c.Text("question", string(b.Question))
		c.Text("reason", b.Reason.String())
	}
	own.Bytes = c.Close()
}

// titled is the title that an event has given to the session.
func titled(body conversation.EventBody) (string, bool) {
	switch b := body.(type) {
	case conversation.SessionCreated:
		return b.Title, b.Title != ""
	case conversation.SessionUpdated:
		if b.Title != nil {
			return *b.Title, true
		}
	}
	return "", false
}

// The options of a request for a permission.
const (
	allow  = "allow_once"
	reject = "reject_once"
)

// appendPermission appends the request to allow a call.
func appendPermission(dst []byte, session string, q *question) []byte {
	o := appendCall(dst, askID(session, q.Asked.Question), "session/request_permission")
	o.Text("sessionId", session)
	o.Key("toolCall")
	c := protocol.NewObject(o.Bytes)
	appendWaiting(&c, q.Asked.Approval)
	o.Bytes = c.Close()
	o.Raw("options", `[{"optionId":"`+allow+`","name":"Allow","kind":"`+allow+`"},{"optionId":"`+reject+`","name":"Decline","kind":"`+reject+`"}]`)
	appendAbout(&o, q)
	return append(o.Close(), '}')
}

// appendElicitation appends the request to fill in a form of one field.
func appendElicitation(dst []byte, session string, q *question) []byte {
	o := appendCall(dst, askID(session, q.Asked.Question), "elicitation/create")
	o.Text("sessionId", session)
	if q.Asked.Call != "" {
		o.Text("toolCallId", string(q.Asked.Call))
	}
	o.Text("mode", "form")
	o.Text("message", q.Asked.Text)
	o.Raw("requestedSchema", `{"type":"object","required":["answer"],"properties":{"answer":`)
	a := protocol.NewObject(o.Bytes)
	a.Text("type", "string")
	a.Text("title", "Answer")
	if len(q.Asked.Choices) > 0 {
		a.Key("enum")
		a.Bytes = appendList(a.Bytes, q.Asked.Choices)
	}
	if q.Asked.Default != nil {
		a.Text("default", *q.Asked.Default)
	}
	o.Bytes = append(a.Close(), "}}"...)
	appendAbout(&o, q)
	return append(o.Close(), '}')
}

// appendAbout says of which task a question is, and until when it is open.
func appendAbout(o *protocol.Object, q *question) {
	own := beginOwn(o)
	own.Text("question", string(q.Asked.Question))
	own.Optional("task", string(q.Task))
	own.OptionalTime("expiresAt", q.Asked.ExpiresAt)
	endOwn(o, own)
}

// result answers a prompt.
func (s *session) result(p *pending) {
	r := p.run
	if s.rested = ""; len(r.Waits()) > 0 {
		s.rested = r.Task
	}
	if f := failed(r); f != nil {
		if p.id != nil {
			s.c.refuse(p.id, f)
		}
		return
	}
	s.c.reply(p.id, func(o *protocol.Object) {
		o.Text("stopReason", stopOf(r))
		own := beginOwn(o)
		own.Key("cursor")
		own.Bytes = append(s.cursor(append(own.Bytes, '"')), '"')
		own.Optional("message", string(r.Message))
		own.Text("task", string(r.Task))
		own.Optional("status", r.Status.String())
		own.Optional("how", r.How.String())
		own.Optional("evidence", r.Evidence.String())
		if waits := r.Waits(); len(waits) > 0 {
			own.Text("question", string(waits[0].Asked.Question))
		}
		own.Optional("model", r.Model)
		own.Optional("stop", r.Stop.String())
		own.Optional("reason", r.Reason)
		own.Raw("usage", `{"inputTokens":`+strconv.Itoa(int(r.Usage.InputTokens))+`,"outputTokens":`+strconv.Itoa(int(r.Usage.OutputTokens))+`}`)
		endOwn(o, own)
	})
}

// failed is the error of a run that has ended in one.
func failed(r *exchange.Run) *fault {
	switch {
	case r.Status == conversation.TaskError && r.Failure != nil:
		return faultOf(&conversation.Error{Code: r.Failure.Code, Message: r.Failure.Message})
	case r.Status == conversation.TaskError, r.Status == 0 && r.How == conversation.ResolvedFailed:
		return faultOf(&conversation.Error{Code: conversation.Unavailable, Message: "the work on the prompt has failed"})
	}
	return nil
}

// stopOf says why a run rests.
func stopOf(r *exchange.Run) string {
	limited := slices.ContainsFunc(r.Texts, func(i *exchange.Item) bool { return i.Kind == conversation.ResponseLimit })
	switch {
	case r.Status == conversation.TaskCancelled, r.Status == 0 && (r.How == conversation.ResolvedCancelled || r.How == conversation.ResolvedWithdrawn):
		return "cancelled"
	case len(r.Waits()) > 0:
		return "end_turn"
	case limited:
		return "max_turn_requests"
	case r.Stop == conversation.StopLength:
		return "max_tokens"
	case r.Stop == conversation.StopFiltered, r.Stop == conversation.StopRefused:
		return "refusal"
	}
	return "end_turn"
}
