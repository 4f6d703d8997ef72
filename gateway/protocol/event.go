package protocol

import (
	"bytes"
	"maps"
	"slices"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/access"
)

// shownBytes bounds the part of a call's arguments or result in a frame; the
// whole is at GET /api/sessions/:id/calls/:call.
const shownBytes = 4 << 10

// cutMark ends a text that was cut.
const cutMark = "…"

// RedactedJSON stands for what a reader without the scope read:tools may not see.
const RedactedJSON = `{"redacted":true}`

// Sensitive is true for events that look different without read:tools.
func Sensitive(e conversation.EventBody) bool {
	switch e := e.(type) {
	case conversation.ToolStarted, conversation.ToolFinished, conversation.DelegationStarted, conversation.DelegationFinished:
		return true
	case conversation.Asked:
		return e.Approval != nil
	default:
		return false
	}
}

// AppendEvent appends the payload of a durable event's frame. It is a pure
// function of what is stored, so live and replayed bytes are equal.
func AppendEvent(dst []byte, session conversation.SessionID, e *conversation.Event, redact bool) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, e.Body.Kind().String()...)
	dst = append(dst, `","session":`...)
	dst = AppendString(dst, session)
	dst = append(dst, `,"seq":`...)
	dst = appendUint(dst, e.Seq)
	dst = append(dst, `,"ts":`...)
	dst = appendTime(dst, e.At)
	if e.Task != "" {
		dst = append(dst, `,"task":`...)
		dst = AppendString(dst, e.Task)
	}
	dst = append(dst, `,"data":`...)
	o := NewObject(dst)
	appendBody(&o, e, redact)
	return append(o.Close(), '}')
}

// appendBody writes an event's data. The set of bodies is closed: a new one must
// be added here (a test compares with conversation.EventKinds).
func appendBody(o *Object, e *conversation.Event, redact bool) {
	switch b := e.Body.(type) {
	case conversation.SessionCreated:
		sessionCreated(o, b)
	case conversation.SessionUpdated:
		sessionUpdated(o, b)
	case conversation.SessionClosed:
		o.Text("reason", b.Reason)
	case conversation.MessageAccepted:
		messageAccepted(o, b)
	case conversation.MessageEdited:
		o.Text("message", string(b.Message))
		o.Text("text", b.Text)
	case conversation.MessageWithdrawn:
		o.Text("message", string(b.Message))
		o.Optional("heir", string(b.NewTrigger))
	case conversation.MessageMoved:
		o.Text("message", string(b.Message))
		o.Optional("before", string(b.Before))
	case conversation.MessageResolved:
		messageResolved(o, b)
	case conversation.TaskStatusChanged:
		taskStatus(o, e.Task, b)
	case conversation.TaskCancelling:
		o.Text("task", string(e.Task))
		o.Text("by", b.By.String())
		o.Time("until", b.Until)
		o.Optional("reason", b.Reason)
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
		o.Text("question", string(b.Question))
		o.Optional("message", string(b.Message))
		o.Text("text", b.Text)
		o.Text("by", b.By)
	case conversation.QuestionClosed:
		o.Text("question", string(b.Question))
		o.Text("reason", b.Reason.String())
	case conversation.ToolStarted:
		o.Text("call", string(b.Call))
		o.Text("tool", b.Tool)
		arguments(o, b.Args, redact)
		o.OptionalTime("deadline", b.Deadline)
		o.Optional("delegation", string(b.Delegation))
		o.Flag("caller", b.Caller)
	case conversation.ToolFinished:
		callFinished(o, "call", b.Call, b.Status, b.Summary, b.Took.Milliseconds(), redact)
	case conversation.DelegationStarted:
		o.Text("delegation", string(b.Delegation))
		o.Text("agent", string(b.Agent))
		secret(o, "objective", b.Objective, redact)
		o.Text("session", string(b.Session))
		o.Time("deadline", b.Deadline)
	case conversation.DelegationFinished:
		callFinished(o, "delegation", b.Delegation, b.Status, b.Summary, b.Took.Milliseconds(), redact)
	case conversation.CoverageNudge:
		o.Key("messages")
		o.Bytes = appendStrings(o.Bytes, b.Messages)
		if len(b.Questions) > 0 {
			o.Key("questions")
			o.Bytes = appendStrings(o.Bytes, b.Questions)
		}
		o.Int("nudge", int64(b.Nudge))
		o.Optional("form", b.Form.String())
	case conversation.ContextCompacted:
		o.Uint("upto", uint64(b.Upto))
		o.Int("tokens_before", int64(b.TokensBefore))
		o.Int("tokens_after", int64(b.TokensAfter))
	case conversation.RuntimeStatus:
		o.Text("message", string(b.Message))
		o.Text("status", b.Status.String())
		o.Uint("generation", uint64(b.Generation))
		o.Optional("runtime", string(b.Runtime))
		o.OptionalTime("until", b.Until)
		o.Optional("error", b.Error)
	case conversation.ContextCleared:
		o.Text("by", string(b.By))
	}
}

func sessionCreated(o *Object, b conversation.SessionCreated) {
	o.Text("title", b.Title)
	o.Text("agent", string(b.Agent))
	o.Text("owner", string(b.Owner))
	o.Text("access", b.Access.String())
	AppendPolicy(o, b.Policy)
}

func sessionUpdated(o *Object, b conversation.SessionUpdated) {
	if b.Title != nil {
		o.Text("title", *b.Title)
	}
	o.Optional("agent", string(b.Agent))
	if b.Access != nil {
		o.Text("access", b.Access.String())
	}
	if b.Policy != nil {
		AppendPolicy(o, b.Policy)
	}
	appendMembers(o, b.Members)
}

// appendMembers writes the roles of users, those without one any more as null. Without any
// it writes nothing.
func appendMembers(o *Object, members map[conversation.UserID]access.Role) {
	if len(members) == 0 {
		return
	}
	o.Key("members")
	separator := byte('{')
	for _, user := range slices.Sorted(maps.Keys(members)) {
		o.Bytes = append(o.Bytes, separator)
		o.Bytes = append(AppendString(o.Bytes, user), ':')
		if role := members[user]; role == access.None {
			o.Bytes = append(o.Bytes, "null"...)
		} else {
			o.Bytes = AppendString(o.Bytes, role.String())
		}
		separator = ','
	}
	o.Bytes = append(o.Bytes, '}')
}

func messageAccepted(o *Object, b conversation.MessageAccepted) {
	o.Text("message", string(b.Message))
	o.Text("client_msg_id", string(b.ClientMsgID))
	o.Text("author", string(b.Author))
	o.Optional("name", b.AuthorName)
	o.Text("text", b.Text)
	o.Text("disposition", b.Disposition.String())
	o.Text("via", b.Via.String())
	if b.Mode != conversation.ModeDefault {
		o.Text("mode", b.Mode.String())
	}
	o.Optional("in_reply_to", string(b.InReplyTo))
	o.Optional("question", string(b.Question))
	appendFiles(o, b.Files)
}

func messageResolved(o *Object, b conversation.MessageResolved) {
	o.Text("message", string(b.Message))
	o.Text("how", b.How.String())
	if b.Evidence != 0 {
		o.Text("evidence", b.Evidence.String())
	}
	if b.Part != nil {
		o.Uint("part", uint64(*b.Part))
	}
	o.Optional("question", string(b.Question))
}

func taskStatus(o *Object, task conversation.TaskID, b conversation.TaskStatusChanged) {
	o.Text("task", string(task))
	o.Text("trigger", string(b.Trigger))
	if b.Old != 0 {
		o.Text("old_status", b.Old.String())
	}
	o.Text("new_status", b.New.String())
	if len(b.Messages) > 0 {
		o.Key("messages")
		o.Bytes = appendStrings(o.Bytes, b.Messages)
	}
	o.Optional("reason", b.Reason)
	AppendFailure(o, b.Error)
}

func stepStarted(o *Object, b conversation.StepStarted) {
	o.Uint("step", uint64(b.Step))
	o.Int("attempt", int64(b.Attempt))
	o.Text("agent", string(b.Agent))
	o.Key("read")
	o.Bytes = appendStrings(o.Bytes, b.Read)
	if b.Cause != 0 {
		o.Text("cause", b.Cause.String())
	}
	AppendFailure(o, b.Error)
	if b.Usage != nil {
		usage(o, *b.Usage)
	}
	o.OptionalTime("not_before", b.NotBefore)
}

func stepFinished(o *Object, b conversation.StepFinished) {
	o.Uint("step", uint64(b.Step))
	o.Int("attempt", int64(b.Attempt))
	o.Text("outcome", b.Outcome.String())
	o.Key("decisions")
	o.Bytes = append(o.Bytes, '[')
	for i, d := range b.Decisions {
		if i > 0 {
			o.Bytes = append(o.Bytes, ',')
		}
		o.Bytes = AppendString(o.Bytes, d.String())
	}
	o.Bytes = append(o.Bytes, ']')
	o.Text("model", b.Model)
	usage(o, b.Usage)
	o.Int("ms", b.Took.Milliseconds())
	o.Optional("stop", stopName(b.Stop))
	AppendFailure(o, b.Error)
}

func part(o *Object, p conversation.Part) {
	o.Text("message", string(p.Message))
	if p.Source != "" { // a plain message of an outside runtime has no key
		o.Text("source", string(p.Source))
		o.Uint("part", uint64(p.Index))
	}
	o.Text("text", p.Text)
	o.Optional("in_reply_to", string(p.InReplyTo))
	o.Flag("guessed", p.Guessed)
	o.Flag("cut", p.Cut)
	o.Optional("draft", string(p.Draft))
}

func response(o *Object, b conversation.Response) {
	part(o, b.Part)
	o.Bool("final", true)
	o.Optional("kind", b.ResponseKind.String())
	o.Flag("promoted", b.Promoted)
}

func question(o *Object, b conversation.Asked, redact bool) {
	o.Text("question", string(b.Question))
	o.Text("text", b.Text)
	o.Bool("blocking", b.Blocking)
	o.Optional("about", string(b.About))
	if len(b.Choices) > 0 {
		o.Key("choices")
		o.Bytes = appendStrings(o.Bytes, b.Choices)
	}
	o.OptionalTime("expires_at", b.ExpiresAt)
	if b.Default != nil {
		o.Text("default", *b.Default)
	}
	o.Optional("delegation", string(b.Delegation))
	o.Optional("call", string(b.Call))
	if a := b.Approval; a != nil {
		o.Key("approval")
		inner := NewObject(o.Bytes)
		inner.Text("call", string(a.Call))
		inner.Text("tool", a.Tool)
		arguments(&inner, a.Args, redact)
		o.Bytes = inner.Close()
	}
}

func callFinished(o *Object, name string, call conversation.CallID, status conversation.CallStatus, summary string, ms int64, redact bool) {
	o.Text(name, string(call))
	o.Text("status", status.String())
	secret(o, "summary", cut(summary), redact)
	o.Int("ms", ms)
}

// secret is a text that is not shown without read:tools.
func secret(o *Object, name, text string, redact bool) {
	if redact {
		o.Raw(name, RedactedJSON)
		return
	}
	o.Text(name, text)
}

// arguments shows JSON as JSON. Text that is not JSON, or had to be cut, is a string.
func arguments(o *Object, args string, redact bool) {
	switch {
	case redact:
		o.Raw("args", RedactedJSON)
	case len(args) > shownBytes || !ValidJSON([]byte(args)):
		o.Text("args", cut(args))
	default:
		o.Key("args")
		o.Bytes = AppendCompact(o.Bytes, []byte(args))
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

// stopName is the word for clients: to them a refusal is an answer that was filtered, by
// the model itself.
func stopName(r conversation.StopReason) string {
	if r == conversation.StopRefused {
		r = conversation.StopFiltered
	}
	return r.String()
}

func usage(o *Object, u conversation.Usage) {
	o.Key("usage")
	inner := NewObject(o.Bytes)
	inner.Int("input_tokens", int64(u.InputTokens))
	inner.Int("output_tokens", int64(u.OutputTokens))
	if u.CachedTokens > 0 {
		inner.Int("cached_tokens", int64(u.CachedTokens))
	}
	inner.Flag("estimated", u.Estimated)
	o.Bytes = inner.Close()
}

// AppendFailure adds the member "error" to an object; none if f is nil.
func AppendFailure(o *Object, f *conversation.Failure) {
	if f == nil {
		return
	}
	o.Key("error")
	inner := NewObject(o.Bytes)
	inner.Text("code", string(f.Code))
	inner.Text("message", f.Message)
	o.Bytes = inner.Close()
}

// AppendPolicy appends overrides in the order of their keys; a removed one is null.
func AppendPolicy(o *Object, p conversation.Overrides) {
	o.Key("policy")
	inner := NewObject(o.Bytes)
	for _, key := range sortedKeys(p) {
		if inner.comma {
			inner.Bytes = append(inner.Bytes, ',')
		}
		inner.comma = true
		inner.Bytes = AppendString(inner.Bytes, key)
		inner.Bytes = append(inner.Bytes, ':')
		if value := p[key]; ValidJSON(value) {
			inner.Bytes = AppendCompact(inner.Bytes, value)
		} else {
			inner.Bytes = append(inner.Bytes, "null"...)
		}
	}
	o.Bytes = inner.Close()
}

// Peek reads the type of a frame and its seq, if it has one, from where the
// encoder puts them: {"type":"…","session":"…","seq":…
func Peek(payload []byte) (kind, seq []byte) {
	const head = `{"type":"`
	rest := payload[len(head):]
	end := bytes.IndexByte(rest, '"')
	kind, rest = rest[:end], rest[end+1:]
	const session = `,"session":"`
	if !bytes.HasPrefix(rest, []byte(session)) {
		return kind, nil
	}
	rest = rest[len(session):]
	rest = rest[bytes.IndexByte(rest, '"')+1:] // a session's id holds no quotes
	const mark = `,"seq":`
	if !bytes.HasPrefix(rest, []byte(mark)) {
		return kind, nil
	}
	rest = rest[len(mark):]
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	return kind, rest[:n]
}
