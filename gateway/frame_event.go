package gateway

import (
	"unicode/utf8"

	"parley/conversation"
)

// shownBytes is how much of a call's arguments or result a frame shows; the
// whole is at GET /api/sessions/:id/calls/:call.
const shownBytes = 4 << 10

// cutMark ends a text that was cut.
const cutMark = "…"

// redactedJSON stands for what a reader without the scope read:tools may not see.
const redactedJSON = `{"redacted":true}`

// sensitive is true for events that look different without read:tools.
func sensitive(e conversation.EventBody) bool {
	switch e := e.(type) {
	case conversation.ToolStarted, conversation.ToolFinished, conversation.DelegationFinished:
		return true
	case conversation.Asked:
		return e.Approval != nil
	default:
		return false
	}
}

// appendEvent appends the payload of a durable event's frame. It is a pure
// function of what is stored, so live and replayed bytes are equal.
func appendEvent(dst []byte, session conversation.SessionID, e *conversation.Event, redact bool) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, e.Body.Kind().String()...)
	dst = append(dst, `","session":`...)
	dst = appendString(dst, session)
	dst = append(dst, `,"seq":`...)
	dst = appendUint(dst, e.Seq)
	dst = append(dst, `,"ts":`...)
	dst = appendTime(dst, e.At)
	if e.Task != "" {
		dst = append(dst, `,"task":`...)
		dst = appendString(dst, e.Task)
	}
	dst = append(dst, `,"data":`...)
	o := open(dst)
	appendBody(&o, e, redact)
	return append(o.close(), '}')
}

// appendBody writes an event's data. The set of bodies is closed: a new one must
// be added here (a test compares with conversation.EventKinds).
func appendBody(o *object, e *conversation.Event, redact bool) {
	switch b := e.Body.(type) {
	case conversation.SessionCreated:
		sessionCreated(o, b)
	case conversation.SessionUpdated:
		sessionUpdated(o, b)
	case conversation.SessionClosed:
		o.text("reason", b.Reason)
	case conversation.MessageAccepted:
		messageAccepted(o, b)
	case conversation.MessageEdited:
		o.text("message", string(b.Message))
		o.text("text", b.Text)
	case conversation.MessageWithdrawn:
		o.text("message", string(b.Message))
		o.optional("heir", string(b.Heir))
	case conversation.MessageMoved:
		o.text("message", string(b.Message))
		o.optional("before", string(b.Before))
	case conversation.MessageResolved:
		messageResolved(o, b)
	case conversation.TaskStatusChanged:
		taskStatus(o, e.Task, b)
	case conversation.TaskCancelling:
		o.text("task", string(e.Task))
		o.text("by", b.By.String())
		o.time("until", b.Until)
		o.optional("reason", b.Reason)
	case conversation.StepStarted:
		stepStarted(o, b)
	case conversation.StepFinished:
		stepFinished(o, b)
	case conversation.PartialResponse:
		part(o, b.Part)
	case conversation.Response:
		response(o, b)
	case conversation.Asked:
		question(o, b, redact)
	case conversation.QuestionAnswered:
		o.text("question", string(b.Question))
		o.optional("message", string(b.Message))
		o.text("text", b.Text)
		o.text("by", b.By)
	case conversation.QuestionClosed:
		o.text("question", string(b.Question))
		o.text("reason", b.Reason.String())
	case conversation.ToolStarted:
		o.text("call", string(b.Call))
		o.text("tool", b.Tool)
		arguments(o, b.Args, redact)
		o.time("deadline", b.Deadline)
		o.optional("delegation", string(b.Delegation))
	case conversation.ToolFinished:
		callFinished(o, "call", b.Call, b.Status, b.Summary, b.Took.Milliseconds(), redact)
	case conversation.DelegationStarted:
		o.text("delegation", string(b.Delegation))
		o.text("agent", string(b.Agent))
		o.text("objective", b.Objective)
		o.text("session", string(b.Session))
		o.time("deadline", b.Deadline)
	case conversation.DelegationFinished:
		callFinished(o, "delegation", b.Delegation, b.Status, b.Summary, b.Took.Milliseconds(), redact)
	case conversation.CoverageNudge:
		o.key("messages")
		o.b = appendStrings(o.b, b.Messages)
		o.int("nudge", int64(b.Nudge))
	case conversation.ContextCompacted:
		o.uint("upto", uint64(b.Upto))
		o.int("tokens_before", int64(b.TokensBefore))
		o.int("tokens_after", int64(b.TokensAfter))
	}
}

func sessionCreated(o *object, b conversation.SessionCreated) {
	o.text("title", b.Title)
	o.text("agent", string(b.Agent))
	o.text("owner", string(b.Owner))
	o.text("access", b.Access.String())
	policy(o, b.Policy)
}

func sessionUpdated(o *object, b conversation.SessionUpdated) {
	if b.Title != nil {
		o.text("title", *b.Title)
	}
	if b.Access != nil {
		o.text("access", b.Access.String())
	}
	if b.Policy != nil {
		policy(o, b.Policy)
	}
}

func messageAccepted(o *object, b conversation.MessageAccepted) {
	o.text("message", string(b.Message))
	o.text("client_msg_id", string(b.ClientMsgID))
	o.text("author", string(b.Author))
	o.text("text", b.Text)
	o.text("disposition", b.Disposition.String())
	o.text("via", b.Via.String())
	if b.Mode != conversation.ModeDefault {
		o.text("mode", b.Mode.String())
	}
	o.optional("in_reply_to", string(b.InReplyTo))
	o.optional("question", string(b.Question))
}

func messageResolved(o *object, b conversation.MessageResolved) {
	o.text("message", string(b.Message))
	o.text("how", b.How.String())
	if b.Part != nil {
		o.uint("part", uint64(*b.Part))
	}
	o.optional("question", string(b.Question))
}

func taskStatus(o *object, task conversation.TaskID, b conversation.TaskStatusChanged) {
	o.text("task", string(task))
	o.text("trigger", string(b.Trigger))
	if b.Old != 0 {
		o.text("old_status", b.Old.String())
	}
	o.text("new_status", b.New.String())
	if len(b.Messages) > 0 {
		o.key("messages")
		o.b = appendStrings(o.b, b.Messages)
	}
	o.optional("reason", b.Reason)
	failure(o, b.Error)
}

func stepStarted(o *object, b conversation.StepStarted) {
	o.uint("step", uint64(b.Step))
	o.int("attempt", int64(b.Attempt))
	o.text("agent", string(b.Agent))
	o.key("read")
	o.b = appendStrings(o.b, b.Read)
	if b.Cause != 0 {
		o.text("cause", b.Cause.String())
	}
	failure(o, b.Error)
	if b.Usage != nil {
		usage(o, *b.Usage)
	}
	o.optionalTime("not_before", b.NotBefore)
}

func stepFinished(o *object, b conversation.StepFinished) {
	o.uint("step", uint64(b.Step))
	o.int("attempt", int64(b.Attempt))
	o.text("outcome", b.Outcome.String())
	o.key("decisions")
	o.b = append(o.b, '[')
	for i, d := range b.Decisions {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendString(o.b, d.String())
	}
	o.b = append(o.b, ']')
	o.text("model", b.Model)
	usage(o, b.Usage)
	o.int("ms", b.Took.Milliseconds())
	failure(o, b.Error)
}

func part(o *object, p conversation.Part) {
	o.text("message", string(p.Message))
	if p.Source != "" { // a plain message of an outside runtime has no key
		o.text("source", string(p.Source))
		o.uint("part", uint64(p.Index))
	}
	o.text("text", p.Text)
	o.optional("in_reply_to", string(p.InReplyTo))
	o.optional("draft", string(p.Draft))
}

func response(o *object, b conversation.Response) {
	part(o, b.Part)
	o.bool("final", true)
	o.optional("kind", b.ResponseKind.String())
	o.flag("promoted", b.Promoted)
}

func question(o *object, b conversation.Asked, redact bool) {
	o.text("question", string(b.Question))
	o.text("text", b.Text)
	o.bool("blocking", b.Blocking)
	if len(b.Choices) > 0 {
		o.key("choices")
		o.b = appendStrings(o.b, b.Choices)
	}
	o.optionalTime("expires_at", b.ExpiresAt)
	if b.Default != nil {
		o.text("default", *b.Default)
	}
	o.optional("delegation", string(b.Delegation))
	if a := b.Approval; a != nil {
		o.key("approval")
		inner := open(o.b)
		inner.text("call", string(a.Call))
		inner.text("tool", a.Tool)
		arguments(&inner, a.Args, redact)
		o.b = inner.close()
	}
}

func callFinished(o *object, name string, call conversation.CallID, status conversation.CallStatus, summary string, ms int64, redact bool) {
	o.text(name, string(call))
	o.text("status", status.String())
	if redact {
		o.raw("summary", redactedJSON)
	} else {
		o.text("summary", cut(summary))
	}
	o.int("ms", ms)
}

// arguments shows JSON as JSON. What is no JSON, or had to be cut, is a string.
func arguments(o *object, args string, redact bool) {
	switch {
	case redact:
		o.raw("args", redactedJSON)
	case len(args) > shownBytes || !validJSON([]byte(args)):
		o.text("args", cut(args))
	default:
		o.key("args")
		o.b = appendCompact(o.b, []byte(args))
	}
}

// cut shortens s to shownBytes, at a character, with a mark.
func cut(s string) string {
	if len(s) <= shownBytes {
		return s
	}
	n := shownBytes - len(cutMark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + cutMark
}

func usage(o *object, u conversation.Usage) {
	o.key("usage")
	inner := open(o.b)
	inner.int("input_tokens", int64(u.InputTokens))
	inner.int("output_tokens", int64(u.OutputTokens))
	inner.flag("estimated", u.Estimated)
	o.b = inner.close()
}

func failure(o *object, f *conversation.Failure) {
	if f == nil {
		return
	}
	o.key("error")
	inner := open(o.b)
	inner.text("code", string(f.Code))
	inner.text("message", f.Message)
	o.b = inner.close()
}

// policy appends overrides in the order of their keys; a removed one is null.
func policy(o *object, p conversation.Overrides) {
	o.key("policy")
	inner := open(o.b)
	for _, key := range sortedKeys(p) {
		if inner.comma {
			inner.b = append(inner.b, ',')
		}
		inner.comma = true
		inner.b = appendString(inner.b, key)
		inner.b = append(inner.b, ':')
		if value := p[key]; validJSON(value) {
			inner.b = appendCompact(inner.b, value)
		} else {
			inner.b = append(inner.b, "null"...)
		}
	}
	o.b = inner.close()
}
