package rest

import (
	"context"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
)

// entry is one item of a conversation as people read it: what a user said, with
// what became of it, or what was answered.
type entry struct {
	seq       conversation.Seq
	at        time.Time
	task      conversation.TaskID
	said      *conversation.MessageAccepted // a user's message; nil for a part
	part      *conversation.Part
	final     bool
	kind      conversation.ResponseKind
	edited    bool
	ended     bool             // a part: its task has ended
	answer    conversation.Seq // it was taken as an answer there, and nothing has read it yet
	read      time.Time
	resolved  time.Time
	delivered time.Time
	how       conversation.Resolution
}

// settled is true when nothing about the entry will change any more.
func (e *entry) settled() bool {
	if e.said == nil {
		return e.final || e.ended || e.task == ""
	}
	if e.resolved.IsZero() {
		return false
	}
	return !e.delivered.IsZero() || e.undelivered()
}

// undelivered is true for a message whose answer is not delivered because there
// is none.
func (e *entry) undelivered() bool {
	switch e.how {
	case conversation.ResolvedWithdrawn, conversation.ResolvedCancelled, conversation.ResolvedFailed:
		return true
	default:
		return false
	}
}

// history reads a page of the conversation that follows the event after. What
// became of a message comes later in the log, so it reads on until everything on
// the page is settled, or to the end.
func (c *API) history(ctx context.Context, key conversation.SessionKey, after conversation.Seq, limit int) (page []*entry, more bool, err error) {
	byMessage := make(map[conversation.MessageID]*entry)
	for e, err := range c.Events(ctx, key, after, 0) {
		if err != nil {
			return nil, false, err
		}
		reads(e, page, byMessage)
		if item := begins(e, byMessage); item != nil {
			if len(page) < limit {
				page = append(page, item)
				byMessage[item.id()] = item
			} else {
				more = true
			}
		} else {
			happens(e, page, byMessage)
		}
		if more && !slices.ContainsFunc(page, func(i *entry) bool { return !i.settled() }) {
			break
		}
	}
	return page, more, nil
}

func (e *entry) id() conversation.MessageID {
	if e.said != nil {
		return e.said.Message
	}
	return e.part.Message
}

// begins is the new entry that an event starts, if it does.
func begins(e *conversation.Event, known map[conversation.MessageID]*entry) *entry {
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		return &entry{seq: e.Seq, at: e.At, task: e.Task, said: &b}
	case conversation.PartialResponse:
		return &entry{seq: e.Seq, at: e.At, task: e.Task, part: &b.Part}
	case conversation.Response:
		if b.Promoted { // shown before; it is final now
			if shown := known[b.Message]; shown != nil {
				shown.final, shown.kind = true, b.ResponseKind
			}
			return nil
		}
		return &entry{seq: e.Seq, at: e.At, task: e.Task, part: &b.Part, final: true, kind: b.ResponseKind}
	default:
		return nil
	}
}

// reads notes that a message of the page was read. Mostly a step says so. What
// answers a question is in no step's list: the task's next step is shown it as the
// question's result; an answer to a delegation is taken by it at once, and an
// approval by the call that it allows or refuses. An outside runtime has no steps:
// the first part that it has for a message is the sign.
func reads(e *conversation.Event, page []*entry, known map[conversation.MessageID]*entry) {
	read := func(id conversation.MessageID) {
		if i := known[id]; i != nil && i.said != nil && i.read.IsZero() {
			i.read, i.answer = e.At, 0
		}
	}
	switch b := e.Body.(type) {
	case conversation.StepStarted:
		for _, m := range b.Read {
			read(m)
		}
		for _, i := range page {
			if i.answer != 0 && i.task == e.Task && b.Attempt == 1 { // a later attempt is shown the same as the first
				read(i.id())
			}
		}
	case conversation.QuestionAnswered:
		if strings.Contains(string(b.Question), ".") { // a delegation's
			read(b.Message)
		} else if i := known[b.Message]; i != nil && i.said != nil && i.read.IsZero() {
			i.answer = e.Seq
		}
	case conversation.ToolStarted:
		approves(e, page, read)
	case conversation.ToolFinished:
		if b.Status == conversation.CallDenied {
			approves(e, page, read)
		}
	case conversation.PartialResponse:
		read(conversation.MessageID(b.Source))
	case conversation.Response:
		if b.ResponseKind == conversation.ResponsePlain {
			read(conversation.MessageID(b.Source))
		}
	}
}

// approves finds the answer that let a call go on, or refused it: it stands right
// before, with its resolution in between. Any other call starts behind the end of
// its step.
func approves(e *conversation.Event, page []*entry, read func(conversation.MessageID)) {
	for _, i := range page {
		if i.answer != 0 && i.answer+2 == e.Seq && i.task == e.Task && i.said.Disposition == conversation.Answered {
			read(i.id())
		}
	}
}

// happens notes what an event says about entries of the page.
func happens(e *conversation.Event, page []*entry, known map[conversation.MessageID]*entry) {
	switch b := e.Body.(type) {
	case conversation.MessageEdited:
		if i := known[b.Message]; i != nil && i.said != nil {
			i.said.Text, i.edited = b.Text, true
		}
	case conversation.MessageResolved:
		if i := known[b.Message]; i != nil {
			i.resolved, i.how = e.At, b.How
		}
	case conversation.TaskStatusChanged:
		for _, m := range b.Messages { // leftovers belong to their new task
			if i := known[m]; i != nil {
				i.task = e.Task
			}
		}
		if !b.New.Ended() {
			return
		}
		for _, i := range page {
			if i.task != e.Task {
				continue
			}
			if i.said == nil {
				i.ended = true // nothing will promote it any more
			} else if b.New == conversation.TaskComplete && !i.resolved.IsZero() && !i.undelivered() && i.delivered.IsZero() {
				i.delivered = e.At
			}
		}
	}
}

func (e *entry) append(dst []byte) []byte {
	o := protocol.NewObject(dst)
	if e.said != nil {
		e.appendMessage(&o)
	} else {
		o.Text("type", "part")
		appendPart(&o, e.part, e.kind, e.final, e.seq, e.at)
		o.Optional("task", string(e.task))
	}
	return o.Close()
}

func (e *entry) appendMessage(o *protocol.Object) {
	m := e.said
	o.Text("type", "message")
	o.Text("message", string(m.Message))
	o.Text("client_msg_id", string(m.ClientMsgID))
	o.Text("author", string(m.Author))
	o.Text("text", m.Text)
	o.Flag("edited", e.edited)
	o.Text("via", m.Via.String())
	o.Optional("in_reply_to", string(m.InReplyTo))
	o.Optional("question", string(m.Question))
	o.Optional("task", string(e.task))
	o.Uint("seq", uint64(e.seq))
	o.Time("accepted_at", e.at)
	o.OptionalTime("read_at", e.read)
	o.OptionalTime("resolved_at", e.resolved)
	o.OptionalTime("delivered_at", e.delivered)
	if e.how != 0 {
		o.Text("how", e.how.String())
	}
}

// appendPart writes a part as lists show it.
func appendPart(o *protocol.Object, p *conversation.Part, kind conversation.ResponseKind, final bool, seq conversation.Seq, at time.Time) {
	o.Text("message", string(p.Message))
	if p.Source != "" {
		o.Text("source", string(p.Source))
		o.Uint("part", uint64(p.Index))
	}
	o.Text("text", p.Text)
	o.Optional("in_reply_to", string(p.InReplyTo))
	o.Flag("final", final)
	o.Optional("kind", kind.String())
	o.Uint("seq", uint64(seq))
	o.Time("created_at", at)
}
