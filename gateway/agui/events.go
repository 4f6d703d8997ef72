package agui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
)

// The types of events of the protocol that are used here.
const (
	runStarted       = "RUN_STARTED"
	runFinished      = "RUN_FINISHED"
	runError         = "RUN_ERROR"
	textStart        = "TEXT_MESSAGE_START"
	textContent      = "TEXT_MESSAGE_CONTENT"
	textEnd          = "TEXT_MESSAGE_END"
	toolStart        = "TOOL_CALL_START"
	toolArgs         = "TOOL_CALL_ARGS"
	toolEnd          = "TOOL_CALL_END"
	toolResult       = "TOOL_CALL_RESULT"
	subagentStarted  = "SUBAGENT_STARTED"
	subagentFinished = "SUBAGENT_FINISHED"
	subagentError    = "SUBAGENT_ERROR"
	messagesSnapshot = "MESSAGES_SNAPSHOT"
	custom           = "CUSTOM"
)

// The names of our own events, which the protocol calls CUSTOM.
const (
	ownRun      = "parley.run"      // what the run follows, and where to go on
	ownReceipt  = "parley.receipt"  // what became of a message
	ownDropped  = "parley.dropped"  // a text counts no more
	ownQuestion = "parley.question" // something is asked; it is an interrupt when the run waits for it
	ownClosed   = "parley.closed"   // that is over
	ownProgress = "parley.progress" // how far a call is
	ownIgnored  = "parley.ignored"  // something of the input had no effect
)

// version is the version of the protocol that is spoken.
const version = "1.0"

// mark begins the client ids of what AG-UI clients say: behind it stands their id of the message.
const mark = "agui:"

// resultSuffix makes the id of the message that a call's result is, of the call's.
const resultSuffix = "-result"

// events makes the events of one run of the notes of its session. It belongs to one goroutine.
// Its state is a function of the notes: what a client was told before a number is told again to
// nobody, and what is open there is known all the same.
type events struct {
	identity
	user    conversation.UserID
	run     *exchange.Run
	buf     []byte          // whole server-sent events that are to be written
	last    exchange.Number // what the client goes on behind
	silent  bool            // of the note at hand nothing is told
	note    *exchange.Note
	told    int               // events of the note so far
	open    string            // the text that streams
	instead map[string]string // ids of texts that were dropped, and those of what came in their place
	asks    map[conversation.QuestionID]openQuestion
	names   map[conversation.MessageID]string // what the user's clients call messages
	shown   map[conversation.CallID]bool      // calls that were shown when they asked for their approval
	given   map[conversation.CallID]bool      // calls of the client's tools whose results came over AG-UI
	usage   []usage
	started bool
}

// openQuestion is a question of any task of the session.
type openQuestion struct {
	*conversation.QuestionView
	call *exchange.CallState // of the caller's own tool, whose result it waits for; nil = it is another question
}

// identity is what the ends of a run carry.
type identity struct {
	thread, run, parent string
}

type usage struct {
	model string
	conversation.Usage
}

func newEvents(id identity, user conversation.UserID, run *exchange.Run) *events {
	return &events{
		identity: id, user: user, run: run,
		instead: map[string]string{}, asks: map[conversation.QuestionID]openQuestion{},
		names: map[conversation.MessageID]string{}, shown: map[conversation.CallID]bool{}, given: map[conversation.CallID]bool{},
	}
}

// say writes an event of the note at hand, unless the client has it.
func (e *events) say(kind string, members func(o *protocol.Object)) {
	i := e.told
	e.told++
	if e.silent || i < e.note.Seen {
		return
	}
	if e.note.Own {
		e.last = e.note.Number(min(i, exchange.MaxNumbers-1))
	}
	e.write(kind, e.last, e.note.Time, members)
}

// write writes an event. Number 0 = it has no id.
func (e *events) write(kind string, at exchange.Number, when time.Time, members func(o *protocol.Object)) {
	if at != 0 {
		e.buf = append(e.buf, "id: "...)
		e.buf = strconv.AppendUint(e.buf, uint64(at), 10)
		e.buf = append(e.buf, '\n')
	}
	e.buf = append(e.buf, "data: "...)
	o := protocol.NewObject(e.buf)
	o.Text("type", kind)
	if !when.IsZero() {
		o.Int("timestamp", when.UnixMilli())
	}
	members(&o)
	e.buf = append(o.Close(), "\n\n"...)
}

// own begins the members of a CUSTOM event: its value is an object.
func own(o *protocol.Object, name string, value func(o *protocol.Object)) {
	o.Text("name", name)
	inside(o, "value", value)
}

// inside appends a member that is an object.
func inside(o *protocol.Object, name string, members func(o *protocol.Object)) {
	o.Key(name)
	in := protocol.NewObject(o.Bytes)
	members(&in)
	o.Bytes = in.Close()
}

// about appends what the protocol has no field for, where it leaves room for that.
func about(o *protocol.Object, members func(o *protocol.Object)) {
	inside(o, "metadata", func(o *protocol.Object) { inside(o, "parley", members) })
}

// add tells a note. silent = nothing of it, but what it says is known.
func (e *events) add(n *exchange.Note) {
	mine := e.run.Add(n)
	e.note, e.told, e.silent = n, 0, n.Seen >= exchange.MaxNumbers
	switch n.Kind {
	case exchange.Accepted:
		e.accepted(n.Event.Body.(conversation.MessageAccepted))
	case exchange.Resolved:
		e.receipt(n.Event.Body.(conversation.MessageResolved))
	case exchange.TextBegan, exchange.TextGrew, exchange.TextEnded, exchange.TextDropped:
		if mine {
			e.text(n)
		} else if n.Kind == exchange.TextEnded { // of another task: as a whole, so that none is left open
			e.whole(n.Item.ID, "assistant", "", n.Item.Text, nil)
		}
	case exchange.Asked:
		q := openQuestion{QuestionView: n.Question}
		if n.Call != nil && n.Call.Callers {
			q.call = n.Call
		}
		e.asks[n.Question.Asked.Question] = q
		if mine && q.call == nil { // else the call says it
			e.asked(n.Question)
		}
	case exchange.Closed:
		e.closed(n, mine)
	case exchange.CallBegan:
		if mine {
			e.began(n)
		}
	case exchange.CallProgress:
		if mine {
			e.progress(n.Call)
		}
	case exchange.CallEnded:
		if mine {
			e.ended(n)
		}
	case exchange.Status:
		if b := n.Event.Body.(conversation.TaskStatusChanged); mine && b.Old == conversation.TaskAwaiting {
			e.usage = e.usage[:0] // the run that was interrupted has told it
		}
	case exchange.Other:
		if b, is := n.Event.Body.(conversation.StepFinished); is && mine {
			e.used(b)
		}
	}
}

// accepted shows what somebody else says, and answers, in its place among the others.
func (e *events) accepted(b conversation.MessageAccepted) {
	if name, is := nameOf(&b, e.user); is {
		e.names[b.Message] = name
		return // the client has it
	}
	if q, asked := e.asks[b.Question]; asked && q.call != nil {
		if b.Via == conversation.ViaAGUI {
			e.given[q.call.ID] = true
		}
		return // a result, which is shown as such
	} else if asked && q.Asked.Approval != nil {
		return // no words
	}
	name := b.AuthorName
	if name == "" {
		name = string(b.Author)
	}
	e.whole(e.nameOf(b.Message), "user", name, b.Text, func(o *protocol.Object) { o.Text("via", b.Via.String()) })
}

// nameOf is what a user's client calls a message that it has said. Those of other users may call
// theirs the same.
func nameOf(b *conversation.MessageAccepted, user conversation.UserID) (name string, is bool) {
	if b.Via != conversation.ViaAGUI || b.Author != user {
		return "", false
	}
	return strings.CutPrefix(string(b.ClientMsgID), mark)
}

// nameOf is what the client calls a message, or else its id.
func (e *events) nameOf(m conversation.MessageID) string {
	if name := e.names[m]; name != "" {
		return name
	}
	return string(m)
}

// whole tells a message at once.
func (e *events) whole(id, role, name, text string, more func(o *protocol.Object)) {
	e.say(textStart, func(o *protocol.Object) {
		o.Text("messageId", id)
		o.Text("role", role)
		o.Optional("name", name)
	})
	if text != "" { // of files alone there is none
		e.content(id, text)
	}
	e.say(textEnd, func(o *protocol.Object) {
		o.Text("messageId", id)
		if more != nil {
			about(o, more)
		}
	})
}

func (e *events) closed(n *exchange.Note, mine bool) {
	if n.Question == nil {
		return
	}
	id := n.Question.Asked.Question
	q, asked := e.asks[id]
	delete(e.asks, id)
	if !mine || asked && q.call != nil {
		return
	}
	e.say(custom, func(o *protocol.Object) {
		own(o, ownClosed, func(o *protocol.Object) { o.Text("interruptId", string(id)) })
	})
}

func (e *events) content(id, delta string) {
	e.say(textContent, func(o *protocol.Object) {
		o.Text("messageId", id)
		o.Text("delta", delta)
	})
}

func (e *events) receipt(b conversation.MessageResolved) {
	e.say(custom, func(o *protocol.Object) {
		own(o, ownReceipt, func(o *protocol.Object) {
			o.Text("messageId", e.nameOf(b.Message))
			o.Text("message", string(b.Message))
			o.Text("how", b.How.String())
			o.Optional("evidence", b.Evidence.String())
		})
	})
}

func (e *events) text(n *exchange.Note) {
	id := n.Item.ID
	if other, dropped := e.instead[id]; dropped {
		if other == "" { // a message that is begun again goes on: what is told anew needs another id
			other = string(n.Item.Part.Message)
			e.instead[id] = other
		}
		id = other
	}
	switch n.Kind {
	case exchange.TextBegan:
		e.open = id
		e.say(textStart, func(o *protocol.Object) {
			o.Text("messageId", id)
			o.Text("role", "assistant")
		})
	case exchange.TextGrew:
		e.open = id
		e.content(id, n.Delta)
	case exchange.TextEnded:
		e.open = ""
		e.say(textEnd, func(o *protocol.Object) {
			o.Text("messageId", id)
			about(o, func(o *protocol.Object) {
				o.Text("message", string(n.Item.Part.Message))
				if n.Item.Part.InReplyTo != "" {
					o.Text("inReplyTo", e.nameOf(n.Item.Part.InReplyTo))
				}
				o.Bool("final", n.Item.Final)
			})
		})
	case exchange.TextDropped:
		e.open = ""
		e.instead[n.Item.ID] = ""
		e.say(textEnd, func(o *protocol.Object) {
			o.Text("messageId", id)
			about(o, func(o *protocol.Object) { o.Bool("dropped", true) })
		})
		e.say(custom, func(o *protocol.Object) {
			own(o, ownDropped, func(o *protocol.Object) { o.Text("messageId", id) })
		})
	}
}

func (e *events) asked(q *conversation.QuestionView) {
	if a := q.Asked.Approval; a != nil && !e.shown[a.Call] {
		e.shown[a.Call] = true
		e.call(a.Call, a.Tool, a.Args, q.Asked.Delegation)
	}
	e.say(custom, func(o *protocol.Object) {
		own(o, ownQuestion, func(o *protocol.Object) {
			interrupt(o, q)
			o.Bool("blocking", q.Asked.Blocking)
		})
	})
}

// call tells a call of a tool, whose arguments are known as a whole.
func (e *events) call(id conversation.CallID, name, args string, delegation conversation.CallID) {
	e.say(toolStart, func(o *protocol.Object) {
		o.Text("toolCallId", string(id))
		o.Text("toolCallName", name)
		o.Optional("subagentRunId", string(delegation))
	})
	e.say(toolArgs, func(o *protocol.Object) {
		o.Text("toolCallId", string(id))
		o.Text("delta", args)
	})
	e.say(toolEnd, func(o *protocol.Object) { o.Text("toolCallId", string(id)) })
}

func (e *events) began(n *exchange.Note) {
	if n.Call.Agent != "" {
		e.subagent(n.Call)
		return
	}
	if e.shown[n.Call.ID] {
		return // it was shown when it asked for its approval
	}
	delegation := conversation.CallID("")
	if b, is := n.Event.Body.(conversation.ToolStarted); is {
		delegation = b.Delegation
	}
	e.call(n.Call.ID, n.Call.Tool, n.Call.Args, delegation)
}

func (e *events) subagent(c *exchange.CallState) {
	e.say(subagentStarted, subagentMembers(c))
}

func subagentMembers(c *exchange.CallState) func(o *protocol.Object) {
	return func(o *protocol.Object) {
		o.Text("subagentRunId", string(c.ID))
		o.Text("name", string(c.Agent))
		o.Optional("description", c.Args)
	}
}

func (e *events) progress(c *exchange.CallState) {
	e.say(custom, func(o *protocol.Object) {
		own(o, ownProgress, func(o *protocol.Object) {
			o.Text("toolCallId", string(c.ID))
			o.Optional("note", c.Note)
			if c.Percent != nil {
				o.Int("percent", int64(*c.Percent))
			}
		})
	})
}

func (e *events) ended(n *exchange.Note) {
	c := n.Call
	if _, delegated := n.Event.Body.(conversation.DelegationFinished); delegated {
		if c.Status == conversation.CallOK {
			e.say(subagentFinished, func(o *protocol.Object) {
				o.Text("subagentRunId", string(c.ID))
				o.Text("result", c.Result)
			})
			return
		}
		e.say(subagentError, func(o *protocol.Object) {
			o.Text("subagentRunId", string(c.ID))
			o.Text("message", c.Result)
			o.Text("code", c.Status.String())
		})
		return
	}
	if c.Callers && e.given[c.ID] {
		return // the client has it
	}
	e.say(toolResult, func(o *protocol.Object) {
		o.Text("messageId", string(c.ID)+resultSuffix)
		o.Text("toolCallId", string(c.ID))
		o.Text("content", c.Result)
		o.Text("role", "tool")
		about(o, func(o *protocol.Object) { o.Text("status", c.Status.String()) })
	})
}

func (e *events) used(b conversation.StepFinished) {
	if b.Usage.InputTokens+b.Usage.OutputTokens == 0 {
		return // it is not known
	}
	i := slices.IndexFunc(e.usage, func(u usage) bool { return u.model == b.Model })
	if i < 0 {
		i, e.usage = len(e.usage), append(e.usage, usage{model: b.Model})
	}
	u := &e.usage[i]
	u.InputTokens += b.Usage.InputTokens
	u.OutputTokens += b.Usage.OutputTokens
	u.CachedTokens += b.Usage.CachedTokens
	u.Estimated = u.Estimated || b.Usage.Estimated
}

// begin tells how the stream begins: with the run, what the client's list lacks, and the
// delegations that run. at is where a client goes on that has seen nothing more.
func (e *events) begin(at exchange.Number, link string, snapshots [][]byte, ignored []ignored) {
	e.started = true
	e.write(runStarted, 0, time.Time{}, func(o *protocol.Object) {
		o.Text("threadId", e.thread)
		o.Text("runId", e.identity.run)
		o.Optional("parentRunId", e.parent)
		o.Text("protocolVersion", version)
	})
	for _, list := range snapshots {
		e.write(messagesSnapshot, 0, time.Time{}, func(o *protocol.Object) {
			o.Key("messages")
			o.Bytes = append(o.Bytes, list...)
		})
	}
	for _, c := range e.run.Calls {
		if c.Agent != "" {
			e.write(subagentStarted, 0, time.Time{}, subagentMembers(c))
		}
	}
	for _, i := range ignored {
		e.write(custom, 0, time.Time{}, func(o *protocol.Object) { own(o, ownIgnored, i.members) })
	}
	e.last = at
	e.write(custom, at, time.Time{}, func(o *protocol.Object) {
		own(o, ownRun, func(o *protocol.Object) {
			o.Optional("task", string(e.run.Task))
			if e.run.Message != "" {
				o.Text("messageId", e.nameOf(e.run.Message))
				o.Text("message", string(e.run.Message))
			}
			o.Optional("follow", link)
		})
	})
}

// ignored is something of an input that had no effect, and why.
type ignored struct {
	what, id string
	why      *conversation.Error
}

func (i ignored) members(o *protocol.Object) {
	o.Text("what", i.what)
	o.Optional("id", i.id)
	o.Text("code", string(i.why.Code))
	o.Text("message", i.why.Message)
}

// finish tells how the run ended, or what it waits for. All that is open is closed before it.
func (e *events) finish() {
	if e.open != "" {
		id := e.open
		e.open = ""
		e.write(textEnd, e.last, time.Time{}, func(o *protocol.Object) { o.Text("messageId", id) })
	}
	r := e.run
	if r.Status == conversation.TaskError {
		failure := conversation.Failure{Code: conversation.Internal, Message: "the task has failed"}
		if r.Failure != nil {
			failure = *r.Failure
		}
		e.fail(string(failure.Code), failure.Message)
		return
	}
	var questions []*conversation.QuestionView
	var pending []conversation.CallID
	for _, q := range r.Waits() {
		if c := r.CallOf(q); c != nil {
			pending = append(pending, c.ID)
		} else {
			questions = append(questions, q)
		}
	}
	stopped := r.Status == conversation.TaskCancelled || r.Status == 0 && (r.How == conversation.ResolvedWithdrawn || r.How == conversation.ResolvedCancelled)
	for _, c := range r.Calls {
		if c.Agent != "" {
			e.suspend(c, questions, stopped)
		}
	}
	e.write(runFinished, e.last, r.Last, func(o *protocol.Object) {
		o.Text("threadId", e.thread)
		o.Text("runId", e.identity.run)
		inside(o, "outcome", func(o *protocol.Object) {
			switch {
			case stopped:
				o.Text("type", "cancelled")
			case len(questions) > 0:
				o.Text("type", "interrupt")
				protocol.AppendList(o, "interrupts", questions, interrupt)
			default:
				o.Text("type", "success")
				e.ids(o, "pendingToolCallIds", pending)
			}
		})
		e.appendUsage(o)
		about(o, func(o *protocol.Object) {
			o.Optional("task", string(r.Task))
			if r.Status != 0 {
				o.Text("status", r.Status.String())
			}
			if r.How != 0 {
				o.Text("how", r.How.String())
				o.Optional("evidence", r.Evidence.String())
			}
			if len(e.usage) > 0 && slices.ContainsFunc(e.usage, func(u usage) bool { return u.Estimated }) {
				o.Bool("usageEstimated", true)
			}
		})
	})
}

// suspend closes a delegation that goes on while the run does not.
func (e *events) suspend(c *exchange.CallState, questions []*conversation.QuestionView, stopped bool) {
	if stopped {
		e.write(subagentError, e.last, time.Time{}, func(o *protocol.Object) {
			o.Text("subagentRunId", string(c.ID))
			o.Text("message", "the run was cancelled")
			o.Text("code", "cancelled")
		})
		return
	}
	var its []conversation.QuestionID
	for _, q := range questions {
		if q.Asked.Delegation == c.ID {
			its = append(its, q.Asked.Question)
		}
	}
	e.write(subagentFinished, e.last, time.Time{}, func(o *protocol.Object) {
		o.Text("subagentRunId", string(c.ID))
		inside(o, "outcome", func(o *protocol.Object) {
			o.Text("type", "suspended")
			protocol.AppendTexts(o, "interruptIds", its)
		})
	})
}

// ids appends a list of ids, unless it is empty.
func (e *events) ids(o *protocol.Object, name string, list []conversation.CallID) {
	if len(list) > 0 {
		protocol.AppendTexts(o, name, list)
	}
}

// fail ends the run as one that has failed.
func (e *events) fail(code, sentence string) {
	e.write(runError, e.last, e.run.Last, func(o *protocol.Object) {
		o.Text("message", sentence)
		o.Text("code", code)
		e.appendUsage(o)
	})
}

func (e *events) appendUsage(o *protocol.Object) {
	if len(e.usage) == 0 {
		return
	}
	protocol.AppendList(o, "usage", e.usage, func(o *protocol.Object, u usage) {
		o.Optional("model", u.model)
		o.Int("inputTokens", int64(u.InputTokens))
		o.Int("outputTokens", int64(u.OutputTokens))
		o.Int("totalTokens", int64(u.InputTokens+u.OutputTokens))
		if u.CachedTokens > 0 {
			o.Int("cachedInputTokens", int64(u.CachedTokens))
		}
	})
}

// interrupt appends a question as the protocol's Interrupt.
func interrupt(o *protocol.Object, q *conversation.QuestionView) {
	a := q.Asked
	o.Text("id", string(a.Question))
	o.Optional("subagentRunId", string(a.Delegation))
	switch {
	case a.Approval != nil:
		o.Text("reason", "tool_call")
		o.Text("toolCallId", string(a.Approval.Call))
		o.Raw("responseSchema", `{"type":"object","properties":{"approved":{"type":"boolean"},"editedArgs":{"type":"object"}},"required":["approved"]}`)
	case len(a.Choices) > 0:
		o.Text("reason", "input_required")
		inside(o, "responseSchema", func(o *protocol.Object) {
			o.Text("type", "string")
			protocol.AppendTexts(o, "enum", a.Choices)
		})
	default:
		o.Text("reason", "input_required")
		o.Raw("responseSchema", `{"type":"string"}`)
	}
	o.Text("message", a.Text)
	o.OptionalTime("expiresAt", a.ExpiresAt)
}
