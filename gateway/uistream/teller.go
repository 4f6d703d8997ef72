package uistream

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
)

// Ids of what clients have said begin with ours, so that those of two protocols never meet.
const (
	ours       = "ui:"        // a message, by its own id
	answerOf   = "ui-answer:" // an answer that no message of the client's list has said
	againOf    = "ui-again:"  // a message that was said before, and is said again
	messageOf  = "a-"         // the assistant's message of a task
	noteOf     = "parley"     // under this name texts say what they are, in providerMetadata
	theirTools = "delegate"   // what a delegation is called, as a tool
)

// said is a message of a user, as it is known in the client's list.
type said struct {
	id    string
	text  string
	files []attached.File
}

// names knows the messages of a session, by their notes.
type names map[conversation.MessageID]*said

// add takes the next note.
func (m names) add(n *exchange.Note) {
	if n.Event == nil {
		return
	}
	switch b := n.Event.Body.(type) {
	case conversation.MessageAccepted:
		m[b.Message] = &said{id: nameOf(b), text: b.Text, files: b.Files}
	case conversation.MessageEdited:
		if s := m[b.Message]; s != nil {
			s.text = b.Text
		}
	}
}

// of is what a message is called in the client's list.
func (m names) of(id conversation.MessageID) string {
	if s := m[id]; s != nil {
		return s.id
	}
	return string(id)
}

// nameOf is the id that a client has given its message, or that of the server.
func nameOf(b conversation.MessageAccepted) string {
	if id, its := strings.CutPrefix(string(b.ClientMsgID), ours); its && b.Via == conversation.ViaUIStream && !strings.HasPrefix(id, hashed) {
		return id
	}
	return string(b.Message)
}

// messageID is the id of the assistant's message that a task says. It is the same live, when it is
// told again, and of the log.
func messageID(task conversation.TaskID) string { return messageOf + string(task) }

// teller makes the chunks of one task out of the notes of its session, all of them from the
// task's first event on.
type teller struct {
	session conversation.SessionID
	run     *exchange.Run
	names   names
	begun   bool
	synced  bool    // what comes happens now
	step    bool    // one is open, for the client
	works   bool    // a model is being asked
	reason  string  // why it is cancelled
	open    string  // the text that is open; "" = none
	filled  bool    // the step has parts, beside a text that is open
	added   []chunk // what was told of the step, without the text that is open
	calls   map[string]*call
	waiting []string // calls of the client's tools that it was not told to run
	out     []chunk
}

// call is what was told of a call.
type call struct {
	tool     string
	ours     bool // not the client's: it has not declared the tool, and does not run it
	args     string
	note     string // the arguments that it was made with, if others than it was shown with
	approval string // the question that must allow it, while it is open
	ended    bool
}

func newTeller(session conversation.SessionID, task conversation.TaskID, m names) *teller {
	return &teller{session: session, run: exchange.NewRun("", task), names: m, calls: map[string]*call{}}
}

// begin is the first chunk of every stream.
func (t *teller) begin() chunk {
	return chunk{kind: start, id: messageID(t.run.Task), json: object(func(o *protocol.Object) {
		o.Text("session", string(t.session))
		o.Text("task", string(t.run.Task))
	})}
}

// add takes the next note. The chunks are valid until the next call.
func (t *teller) add(n *exchange.Note) []chunk {
	clear(t.out)
	t.out = t.out[:0]
	if n.Kind == exchange.Synced {
		t.now()
		return t.out
	}
	if !t.run.Add(n) {
		return nil
	}
	switch n.Kind {
	case exchange.Accepted:
		if b := n.Event.Body.(conversation.MessageAccepted); b.Disposition == conversation.Started || b.Disposition == conversation.Queued {
			t.first(n, b.Message)
		}
	case exchange.Status:
		b := n.Event.Body.(conversation.TaskStatusChanged)
		t.first(n, b.Trigger)
		if !b.New.Ended() {
			t.put(chunk{kind: metadata, json: `{"status":"` + b.New.String() + `"}`})
		}
	case exchange.Resolved:
		t.resolved(n.Event.Body.(conversation.MessageResolved))
	case exchange.TextBegan:
		t.open = n.Item.ID
		t.put(chunk{kind: textStart, id: n.Item.ID})
	case exchange.TextGrew:
		t.open = n.Item.ID
		t.put(chunk{kind: textDelta, id: n.Item.ID, text: n.Delta})
	case exchange.TextEnded:
		t.ended(n.Item)
	case exchange.TextDropped:
		t.open = ""
		t.again()
	case exchange.Asked:
		t.asked(n)
	case exchange.Closed:
		t.closed(n)
	case exchange.CallBegan:
		t.began(n.Call)
	case exchange.CallProgress:
		t.progress(n.Call)
	case exchange.CallEnded:
		t.callEnded(n.Call)
	case exchange.Other:
		t.other(n)
	}
	return t.out
}

func (t *teller) put(c chunk) { t.out = append(t.out, c) }

// change tells what changes a part, which may be one of an earlier step.
func (t *teller) change(c chunk) {
	t.put(c)
	t.added = append(t.added, c)
}

// part tells what adds a part.
func (t *teller) part(c chunk) {
	t.change(c)
	t.filled = true
}

// first says what the message is, once.
func (t *teller) first(n *exchange.Note, trigger conversation.MessageID) {
	if t.begun {
		return
	}
	t.begun = true
	t.put(chunk{kind: metadata, json: object(func(o *protocol.Object) {
		if trigger != "" {
			o.Text("inReplyTo", t.names.of(trigger))
		}
		o.Time("createdAt", n.Time)
	})})
}

// resolved is the receipt of a message, in the metadata of the message that the task says.
func (t *teller) resolved(b conversation.MessageResolved) {
	t.put(chunk{kind: metadata, json: object(func(o *protocol.Object) {
		o.Key("receipts")
		all := protocol.NewObject(o.Bytes)
		all.Bytes = append(protocol.AppendString(all.Bytes, t.names.of(b.Message)), ':')
		one := protocol.NewObject(all.Bytes)
		one.Text("how", b.How.String())
		one.Optional("evidence", b.Evidence.String())
		all.Bytes = one.Close()
		o.Bytes = all.Close()
	})})
}

// ended ends a text.
func (t *teller) ended(item *exchange.Item) {
	t.open = ""
	end := chunk{kind: textEnd, id: item.ID, json: noted(func(o *protocol.Object) {
		o.Text("message", string(item.Part.Message))
		if item.Part.InReplyTo != "" {
			o.Text("inReplyTo", t.names.of(item.Part.InReplyTo))
		}
		o.Optional("kind", item.Kind.String())
		o.Flag("cut", item.Part.Cut)
	})}
	t.put(end)
	t.added = append(t.added, chunk{kind: textStart, id: item.ID}, chunk{kind: textDelta, id: item.ID, text: item.Text}, end)
	t.filled = true
}

// noted is what a text has to say of itself.
func noted(write func(o *protocol.Object)) string {
	return object(func(o *protocol.Object) { o.Raw(noteOf, object(write)) })
}

// restart is what a client has to be told that goes on in the middle of a step.
func (t *teller) restart() []chunk {
	t.out = t.out[:0]
	t.again()
	return t.out
}

// again tells the parts of the step again without the text that was open, in the place of all
// that the client has of the step: nothing else takes a text away.
func (t *teller) again() {
	t.put(chunk{kind: resetStep})
	t.out = append(t.out, t.added...)
	for i := range t.out[:len(t.out)-1] {
		t.out[i].more = true
	}
}

// next begins another step of the message, unless this one has no parts yet. While a text is open
// the step goes on: it may have to be told again.
func (t *teller) next() {
	if t.open != "" || t.step && !t.filled {
		return
	}
	if t.step {
		t.put(chunk{kind: finishStep})
	}
	t.step, t.filled, t.added = true, false, nil
	t.put(chunk{kind: startStep})
}

func (t *teller) other(n *exchange.Note) {
	switch b := n.Event.Body.(type) {
	case conversation.StepStarted:
		t.works = true
		t.next()
		for _, id := range b.Read {
			if s := t.names[id]; s != nil && id != t.run.Trigger {
				t.part(chunk{kind: steering, id: s.id, json: string(appendSaid(nil, t.session, s))})
			}
		}
	case conversation.StepFinished:
		t.works = false
	case conversation.TaskCancelling:
		t.reason = b.Reason
	}
}

// asked shows a question: an approval as the SDK has it, the result of the client's own tool not
// at all, for its call says it; others as a text, which every client shows, and as data.
func (t *teller) asked(n *exchange.Note) {
	q := &n.Question.Asked
	id := string(q.Question)
	switch {
	case q.Approval != nil:
		name := string(q.Approval.Call)
		if q.Delegation != "" {
			name = id // the call is one of another session
		}
		t.input(name, q.Approval.Tool, q.Approval.Args)
		t.calls[name].approval = id
		t.change(chunk{kind: approvalAsked, id: id, call: name})
	case n.Call != nil && n.Call.Callers:
	default:
		text := chunk{kind: textStart, id: id, json: noted(func(o *protocol.Object) { o.Text("question", id) })}
		t.part(text)
		t.part(chunk{kind: textDelta, id: id, text: q.Text})
		text.kind = textEnd
		t.part(text)
		t.part(chunk{kind: data, tool: "question", id: id, json: asData(q, nil)})
	}
}

// asData is a question as data. how says what became of it; nil = it is open.
func asData(q *conversation.Asked, how func(o *protocol.Object)) string {
	return object(func(o *protocol.Object) {
		o.Text("question", string(q.Question))
		o.Text("text", q.Text)
		o.Bool("blocking", q.Blocking)
		if len(q.Choices) > 0 {
			o.Key("choices")
			o.Bytes = append(o.Bytes, '[')
			for i, c := range q.Choices {
				if i > 0 {
					o.Bytes = append(o.Bytes, ',')
				}
				o.Bytes = protocol.AppendString(o.Bytes, c)
			}
			o.Bytes = append(o.Bytes, ']')
		}
		o.OptionalTime("expiresAt", q.ExpiresAt)
		if q.Default != nil {
			o.Text("default", *q.Default)
		}
		o.Optional("delegation", string(q.Delegation))
		if how == nil {
			o.Text("status", "open")
		} else {
			how(o)
		}
	})
}

func (t *teller) closed(n *exchange.Note) {
	if n.Question == nil {
		return
	}
	q := &n.Question.Asked
	answered, is := n.Event.Body.(conversation.QuestionAnswered)
	reason := "answered"
	if b, is := n.Event.Body.(conversation.QuestionClosed); is {
		reason = b.Reason.String()
	}
	if is {
		t.next() // the answer is behind the parts that asked for it: nothing of them is still to be answered
	}
	switch {
	case q.Approval != nil && q.Delegation != "":
		t.decided(string(q.Question), is && yes(answered.Text), answered.Text)
	case q.Approval != nil && !is:
		t.decided(string(q.Approval.Call), false, "")
	case q.Approval != nil, n.Call != nil && n.Call.Callers: // the call goes on, or ends
	default:
		t.change(chunk{kind: data, tool: "question", id: string(q.Question), json: asData(q, func(o *protocol.Object) {
			if !is {
				o.Text("status", "closed")
				o.Text("reason", reason)
				return
			}
			o.Text("status", "answered")
			o.Text("answer", answered.Text)
			o.Text("by", answered.By)
		})})
	}
}

// decided ends a call of which nothing more is told: one of another session, or one that nobody
// has allowed in time.
func (t *teller) decided(id string, allowed bool, text string) {
	told := t.calls[id]
	if told == nil || told.ended {
		return
	}
	told.ended = true
	t.allowed(told, allowed)
	end := chunk{kind: toolDenied, call: id}
	if allowed {
		end = chunk{kind: toolOutput, call: id, ours: true, dynamic: true, json: object(func(o *protocol.Object) { o.Text("answer", text) })}
	}
	t.change(end)
}

// yes is what an answer to an approval says. The engine has taken it for a yes or a no, so its
// beginning is enough.
func yes(text string) bool {
	var card struct{ Approve *bool }
	if strings.HasPrefix(strings.TrimSpace(text), "{") && json.Unmarshal([]byte(text), &card) == nil {
		return card.Approve == nil || *card.Approve
	}
	text = strings.ToLower(strings.TrimSpace(text))
	return slices.ContainsFunc([]string{"y", "ok", "sure", "appr", "allow", "go", "do it"}, func(word string) bool { return strings.HasPrefix(text, word) })
}

// input shows a call of ours, once.
func (t *teller) input(id, tool, args string) {
	if t.calls[id] != nil {
		return
	}
	t.calls[id] = &call{tool: tool, args: args, ours: true}
	t.part(chunk{kind: toolInput, call: id, tool: tool, json: value(args, true), ours: true, dynamic: true})
}

// theirs shows a call of the client's own tool. The client runs it when its input is said to be
// there: so that is not said of a call that has ended, when it is told again.
func (t *teller) theirs(id, tool, args string) {
	told := &call{tool: tool, args: args}
	t.calls[id] = told
	t.part(chunk{kind: toolBegins, call: id, tool: tool})
	t.change(chunk{kind: toolGrows, call: id, text: value(args, true)})
	if t.synced {
		t.change(chunk{kind: toolInput, call: id, tool: tool, json: value(args, true)})
		return
	}
	t.waiting = append(t.waiting, id)
}

// now is where what was stored before has been told: the client may run what is left to it.
func (t *teller) now() {
	t.synced = true
	for _, id := range t.waiting {
		if told := t.calls[id]; !told.ended {
			t.change(chunk{kind: toolInput, call: id, tool: told.tool, json: value(told.args, true)})
		}
	}
	t.waiting = nil
}

func (t *teller) began(c *exchange.CallState) {
	id := string(c.ID)
	if told := t.calls[id]; told != nil {
		t.allowed(told, true)
		if c.Args != told.args && c.Tool != "" {
			told.note = object(func(o *protocol.Object) { o.Raw("input", value(c.Args, true)) })
		}
		return
	}
	if c.Agent != "" {
		t.input(id, theirTools, object(func(o *protocol.Object) {
			o.Text("agent", string(c.Agent))
			o.Text("objective", c.Args)
			o.Text("session", string(c.Session))
		}))
		return
	}
	if c.Callers {
		t.theirs(id, c.Tool, c.Args)
		return
	}
	t.input(id, c.Tool, c.Args)
}

// allowed tells what was said to a call that had to be allowed.
func (t *teller) allowed(told *call, yes bool) {
	if told.approval != "" {
		t.change(chunk{kind: approvalGiven, id: told.approval, approved: yes})
		told.approval = ""
	}
}

func (t *teller) progress(c *exchange.CallState) {
	told := t.calls[string(c.ID)]
	if told == nil || told.ended {
		return
	}
	t.put(chunk{kind: toolOutput, call: string(c.ID), ours: told.ours, dynamic: told.ours, preliminary: true, json: object(func(o *protocol.Object) {
		o.Text("progress", c.Note)
		if c.Percent != nil {
			o.Int("percent", int64(*c.Percent))
		}
	})})
}

func (t *teller) callEnded(c *exchange.CallState) {
	id := string(c.ID)
	told := t.calls[id]
	if told == nil || told.ended {
		return
	}
	if told.approval != "" && c.Status != conversation.CallOK {
		t.decided(id, false, "")
		return
	}
	told.ended = true
	t.allowed(told, true)
	end := chunk{kind: toolOutput, call: id, note: told.note, ours: told.ours, dynamic: told.ours}
	switch {
	case c.Status == conversation.CallOK:
		end.json = value(c.Result, !told.ours)
	case strings.TrimSpace(c.Result) == "":
		end.kind, end.text = toolError, c.Status.String()
	default:
		end.kind, end.text = toolError, c.Result
	}
	t.change(end)
}

// end tells that nothing more comes for now: the task has ended, or it waits for an answer.
func (t *teller) end() []chunk {
	clear(t.out)
	t.out = t.out[:0]
	t.now()
	if t.step {
		t.put(chunk{kind: finishStep})
	}
	last := chunk{kind: finish, json: t.summary()}
	switch t.run.Status {
	case conversation.TaskCancelled:
		t.put(chunk{kind: abort, text: cmp.Or(t.run.Reason, t.reason)})
		last.text = "interrupted" // also: what the client would send by itself is not sent
	case conversation.TaskError:
		t.put(chunk{kind: metadata, json: last.json}) // a client reads nothing behind an error
		t.put(chunk{kind: failure, text: t.sentence()})
		last.text = "error"
	case conversation.TaskAwaiting:
		last.text = "other"
		for _, q := range t.run.Waits() {
			if q.Asked.Approval != nil || t.run.CallOf(q) != nil {
				last.text = "tool-calls"
			}
		}
	default:
		last.text = "stop"
		switch t.run.Stop {
		case conversation.StopLength:
			last.text = "length"
		case conversation.StopFiltered:
			last.text = "content-filter"
		}
	}
	t.put(last)
	return t.out
}

// sentence is why the task has failed, for people.
func (t *teller) sentence() string {
	if t.run.Failure != nil && t.run.Failure.Message != "" {
		return t.run.Failure.Message
	}
	return "the task has failed"
}

// summary is what is known of the task in the end.
func (t *teller) summary() string {
	return object(func(o *protocol.Object) {
		if t.run.Status != 0 {
			o.Text("status", t.run.Status.String())
		}
		o.Optional("reason", cmp.Or(t.run.Reason, t.reason))
		if t.run.Failure != nil {
			o.Text("code", string(t.run.Failure.Code))
		}
		o.Optional("model", t.run.Model)
		if u := t.run.Usage; u.InputTokens > 0 || u.OutputTokens > 0 {
			o.Key("usage")
			in := protocol.NewObject(o.Bytes)
			in.Int("inputTokens", int64(u.InputTokens))
			in.Int("outputTokens", int64(u.OutputTokens))
			in.Int("totalTokens", int64(u.InputTokens+u.OutputTokens))
			o.Bytes = in.Close()
		}
	})
}

// appendSaid appends the parts of a message that was said.
func appendSaid(dst []byte, session conversation.SessionID, s *said) []byte {
	dst = append(dst, '[')
	for i, f := range s.files {
		if i > 0 {
			dst = append(dst, ',')
		}
		o := protocol.NewObject(dst)
		o.Text("type", "file")
		o.Text("mediaType", f.Type)
		o.Text("filename", f.Name)
		o.Text("url", blobs+string(f.Hash)+"?session="+string(session))
		dst = o.Close()
	}
	if s.text != "" || len(s.files) == 0 {
		if len(s.files) > 0 {
			dst = append(dst, ',')
		}
		o := protocol.NewObject(dst)
		o.Text("type", "text")
		o.Text("text", s.text)
		dst = o.Close()
	}
	return append(dst, ']')
}

// blobs is where files are.
const blobs = "/api/blobs/"
