package openai

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
)

// stretch makes a response of the notes of its session: of all of them from the first event of
// its task on. With events it writes what a client that follows is sent.
type stretch struct {
	ref    reference
	model  string // that the client asked for, or the session's agent
	begun  bool
	status string
	run    *exchange.Run
	output []*output
	at     int64 // created
	ended  int64
	shown  []byte  // of the text that streams, as far as it was seen
	used   int     // events that the note which is being added has become
	events *events // nil = it is not followed

	whole   bool                     // no steer ends it: Chat Completions have no word for that
	steers  []conversation.MessageID // said to it by response.steer, and read by no step yet
	stepped bool                     // a step has begun that reads what began it
	steered bool                     // it has ended, for a later step has read one
	behind  reference                // then: the next response
}

// output is an item of the response.
type output struct {
	id   string
	item any // nil while a text is written
}

// The statuses of a response.
const (
	statusQueued     = "queued"
	statusProgress   = "in_progress"
	statusCompleted  = "completed"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
	statusIncomplete = "incomplete"
)

func newStretch(ref reference, trigger conversation.MessageID, model string) *stretch {
	return &stretch{ref: ref, model: model, run: exchange.NewRun(trigger, ref.task), status: statusProgress}
}

// rests is true when nothing more comes of the response.
func (s *stretch) rests() bool { return s.status != statusQueued && s.status != statusProgress }

// add takes the next note of the session.
func (s *stretch) add(n *exchange.Note) {
	if s.rests() || !s.run.Add(n) {
		return
	}
	s.used = 0
	switch {
	case s.begun:
		if s.steered = s.reads(n) && !s.whole; s.steered {
			s.behind = reference{s.ref.task, n.Event.Seq}
			s.rest(n)
			return
		}
	case n.Event == nil || n.Event.Seq < s.ref.from || n.Task != s.ref.task || n.Kind == exchange.TextDropped: // that is of the response before
		return
	default:
		s.begin(n)
	}
	switch n.Kind {
	case exchange.Status:
		s.changed(n)
	case exchange.TextBegan:
		s.shown = s.shown[:0]
		s.place(itemID(n.Item))
		s.events.begins(n, 0, s, itemID(n.Item))
	case exchange.TextGrew:
		s.shown = append(s.shown, n.Delta...)
		s.events.delta(n, 0, s, itemID(n.Item), n.Delta)
	case exchange.TextEnded:
		s.end(n)
	case exchange.TextDropped: // it is no part of the output: the log does not have it
		s.place(itemID(n.Item)) // who comes back after a restart may have seen it begin
		s.events.ends(n, 0, s, itemID(n.Item), statusIncomplete, string(s.shown))
	case exchange.Asked:
		s.asked(n)
	case exchange.Resolved, exchange.Closed:
		if s.run.Rests() {
			s.rest(n)
		}
	}
}

// steerMark begins the client ids of what response.steer says: the log tells by them what has ended
// a response. No client can send one.
const steerMark = "openai:steer:"

// isSteer is true for what response.steer has said.
func isSteer(b conversation.MessageAccepted) bool {
	return b.Via == conversation.ViaOpenAI && strings.HasPrefix(string(b.ClientMsgID), protocol.OwnMark+steerMark)
}

// reads is true of the note with which a step reads what response.steer has said to the response. Its
// first step does not count: what that reads is said with what began the response.
func (s *stretch) reads(n *exchange.Note) bool {
	if n.Event == nil {
		return false
	}
	switch b := n.Event.Body.(type) {
	case conversation.MessageAccepted:
		if isSteer(b) {
			s.steers = append(s.steers, b.Message)
		}
	case conversation.StepStarted:
		if n.Kind != exchange.Other || b.Attempt > 1 { // a text ends before it; and another attempt reads nothing new
			return false
		}
		later := s.stepped
		s.stepped = true
		return later && slices.ContainsFunc(s.steers, func(m conversation.MessageID) bool { return slices.Contains(b.Read, m) })
	}
	return false
}

// next is the response behind one that was steered: it begins with the note that has ended that.
func (s *stretch) next() *stretch {
	run := *s.run
	return &stretch{ref: s.behind, model: s.model, run: &run, status: statusProgress}
}

// begin is with the first note of the stretch.
func (s *stretch) begin(n *exchange.Note) {
	s.begun, s.at = true, n.Time.Unix()
	_, s.stepped = n.Event.Body.(conversation.StepStarted)
	s.run.Texts, s.run.Usage = nil, conversation.Usage{}
	if b, is := n.Event.Body.(conversation.MessageAccepted); is && b.Disposition == conversation.Queued || s.run.Status == conversation.TaskQueued && s.ref.from == 0 {
		s.status = statusQueued
	}
	s.events.created(n, s)
}

// changed is with a new status of the task.
func (s *stretch) changed(n *exchange.Note) {
	switch {
	case s.run.Rests():
		s.rest(n)
	case s.run.Status == conversation.TaskRunning && s.status == statusQueued:
		s.status = statusProgress
		s.events.state(n, s, "response.in_progress")
	}
}

// rest is the end of the stretch.
func (s *stretch) rest(n *exchange.Note) {
	s.ended = n.Time.Unix()
	last := "response.completed"
	switch s.run.Status {
	case conversation.TaskError:
		s.status, last = statusFailed, "response.failed"
	case conversation.TaskCancelled:
		s.status, last = statusCancelled, "response.incomplete" // the API has no event of its own for it
	default:
		if s.status = statusCompleted; s.short() != "" {
			s.status, last = statusIncomplete, "response.incomplete"
		}
		for _, q := range s.run.Waits() { // also what was asked before, and not answered with the others
			id, item := asked(q, s.run.CallOf(q))
			s.put(id, item)
		}
	}
	s.events.state(n, s, last)
}

// short says why the last text ended before its end, in the API's words; "" = it did not.
func (s *stretch) short() string {
	n := len(s.run.Texts)
	switch {
	case s.steered:
		return "steered"
	case s.run.Stop == conversation.StopFiltered:
		return "content_filter"
	case n > 0 && s.run.Texts[n-1].Part.Cut:
		return "max_output_tokens"
	}
	return ""
}

// place gives an item its place among the others, and says which it is.
func (s *stretch) place(id string) int {
	for i, o := range s.output {
		if o.id == id {
			return i
		}
	}
	s.output = append(s.output, &output{id: id})
	return len(s.output) - 1
}

func (s *stretch) put(id string, item any) int {
	i := s.place(id)
	s.output[i].item = item
	return i
}

func (s *stretch) end(n *exchange.Note) {
	id, status := itemID(n.Item), statusCompleted
	if n.Item.Part.Cut {
		status = statusIncomplete
	}
	s.put(id, assistant(id, status, n.Item.Text))
	s.events.ends(n, 0, s, id, status, n.Item.Text)
}

// asked is a call of the caller's own tool, a question whether a call may be made, or any other
// question, which the API has no word for: it is what the assistant says then.
func (s *stretch) asked(n *exchange.Note) {
	id, item := asked(n.Question, n.Call)
	s.put(id, item)
	switch item := item.(type) {
	case functionCall:
		s.events.function(n, s, item)
	case approvalRequest:
		s.events.item(n, s, id, item, item)
	default:
		s.events.whole(n, s, id, questionText(n.Question.Asked))
	}
}

// asked is a question as an item of a response.
func asked(view *conversation.QuestionView, call *exchange.CallState) (id string, item any) {
	switch q := view.Asked; {
	case call != nil && call.Callers:
		id = functionPrefix + string(call.ID) + "-" + string(view.Task)
		return id, functionCall{Type: "function_call", ID: id, CallID: callID(view.Task, call.ID), Name: call.Tool, Arguments: call.Args, Status: statusCompleted}
	case q.Approval != nil:
		id = approvalID(view.Task, q.Question)
		return id, approvalRequest{Type: "mcp_approval_request", ID: id, Arguments: q.Approval.Args, Name: q.Approval.Tool, Server: "parley"}
	default:
		id = messagePrefix + string(q.Question) + "-" + string(view.Task)
		return id, assistant(id, statusCompleted, questionText(q))
	}
}

// questionText is a question as an assistant says it.
func questionText(q conversation.Asked) string {
	text := q.Text
	for i, choice := range q.Choices {
		if i == 0 {
			text += "\n"
		}
		text += "\n" + strconv.Itoa(i+1) + ". " + choice
	}
	return text
}

// object is the response as it is now.
func (s *stretch) object() response {
	r := response{
		ID: s.ref.id(), Object: "response", CreatedAt: s.at, Status: s.status, Model: s.model, Output: []any{}, ParallelToolCalls: true,
		Reasoning: map[string]any{"effort": nil, "summary": nil}, ServiceTier: "default", Store: true, Temperature: 1, TopP: 1,
		Text: map[string]any{"format": map[string]any{"type": "text"}}, ToolChoice: "auto", Tools: []any{}, Truncation: "disabled",
		Metadata: s.metadata(),
	}
	if session, ok := s.ref.task.Session(); ok {
		r.Conversation = &conversationRef{conversationID(session)}
	}
	for _, o := range s.output {
		if o.item != nil {
			r.Output = append(r.Output, o.item)
		}
	}
	if !s.rests() {
		return r
	}
	if s.status == statusCompleted {
		r.CompletedAt = pointer(s.ended)
	}
	u := s.run.Usage
	r.Usage = &usage{
		Input: u.InputTokens, InputDetails: map[string]int{"cached_tokens": u.CachedTokens, "cache_write_tokens": 0},
		Output: u.OutputTokens, OutputDetail: map[string]int{"reasoning_tokens": 0}, Total: u.InputTokens + u.OutputTokens,
	}
	switch s.status {
	case statusFailed:
		r.Error = &responseError{"server_error", "The task has failed."}
		if f := s.run.Failure; f != nil {
			r.Error = &responseError{errorCode(f.Code), f.Message}
		}
	case statusIncomplete:
		r.IncompleteDetails = &incomplete{s.short()}
	}
	return r
}

// errorCode is the code of a failed response: the API has a closed list of them.
func errorCode(c conversation.Code) string {
	if c == conversation.RateLimited {
		return "rate_limit_exceeded"
	}
	return "server_error"
}

// metadata says what the API has no field for. The caller's own is not kept: what is said of a
// response comes from the log.
func (s *stretch) metadata() map[string]string {
	m := map[string]string{"parley.task": string(s.ref.task)}
	if session, ok := s.ref.task.Session(); ok {
		m["parley.session"] = string(session)
	}
	if s.run.How != 0 {
		m["parley.receipt"] = s.run.How.String()
	}
	if s.run.Evidence != 0 {
		m["parley.evidence"] = s.run.Evidence.String()
	}
	if s.steered {
		m["parley.next"] = s.behind.id()
	}
	for _, q := range s.run.Waits() {
		if s.run.CallOf(q) == nil && q.Asked.Approval == nil {
			m["parley.question"] = string(q.Asked.Question)
		}
	}
	return m
}

// events writes the events of a stretch. nil writes nothing.
type events struct {
	send   func(event []byte) // a data of the stream, as JSON
	buffer []byte
	echo   func(*response) // what the client has asked for and the log does not say
}

// emit sends the i-th event of a note, unless the client has been told it before.
func (e *events) emit(n *exchange.Note, i int, kind string, write func(o *protocol.Object)) {
	if e == nil || i < n.Seen {
		return
	}
	o := protocol.NewObject(e.buffer[:0])
	o.Text("type", kind)
	o.Uint("sequence_number", uint64(n.Number(i)))
	write(&o)
	e.buffer = o.Close()
	e.send(e.buffer)
}

func raw(o *protocol.Object, name string, v any) { o.Raw(name, string(encode(v))) }

// encode is an object of this package as JSON.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // there is nothing in these objects that could not be said
		panic(err)
	}
	return b
}

func (e *events) state(n *exchange.Note, s *stretch, kind string) {
	if e == nil {
		return
	}
	e.emit(n, s.used, kind, func(o *protocol.Object) {
		r := s.object()
		if e.echo != nil {
			e.echo(&r)
		}
		raw(o, "response", r)
	})
	s.used++
}

func (e *events) created(n *exchange.Note, s *stretch) {
	e.state(n, s, "response.created")
	second := "response.in_progress"
	if s.status == statusQueued {
		second = "response.queued"
	}
	e.state(n, s, second)
}

func (e *events) item(n *exchange.Note, s *stretch, id string, added, done any) {
	index := s.place(id)
	for i, v := range []any{added, done} {
		e.emit(n, i, []string{"response.output_item.added", "response.output_item.done"}[i], func(o *protocol.Object) {
			o.Uint("output_index", uint64(index))
			raw(o, "item", v)
		})
	}
}

func (e *events) begins(n *exchange.Note, i int, s *stretch, id string) {
	index := s.place(id)
	e.emit(n, i, "response.output_item.added", func(o *protocol.Object) {
		o.Uint("output_index", uint64(index))
		raw(o, "item", message{Type: "message", ID: id, Status: statusProgress, Role: "assistant", Content: []any{}})
	})
	e.emit(n, i+1, "response.content_part.added", func(o *protocol.Object) {
		part(o, id, index)
		raw(o, "part", texts("")[0])
	})
}

// part says which piece of which item an event is about: there is one of each.
func part(o *protocol.Object, id string, index int) {
	o.Text("item_id", id)
	o.Uint("output_index", uint64(index))
	o.Uint("content_index", 0)
}

func (e *events) delta(n *exchange.Note, i int, s *stretch, id, text string) {
	e.emit(n, i, "response.output_text.delta", func(o *protocol.Object) {
		part(o, id, s.place(id))
		o.Text("delta", text)
		o.Raw("logprobs", "[]")
	})
}

func (e *events) ends(n *exchange.Note, i int, s *stretch, id, status, text string) {
	index := s.place(id)
	e.emit(n, i, "response.output_text.done", func(o *protocol.Object) {
		part(o, id, index)
		o.Text("text", text)
		o.Raw("logprobs", "[]")
	})
	e.emit(n, i+1, "response.content_part.done", func(o *protocol.Object) {
		part(o, id, index)
		raw(o, "part", texts(text)[0])
	})
	e.emit(n, i+2, "response.output_item.done", func(o *protocol.Object) {
		o.Uint("output_index", uint64(index))
		raw(o, "item", assistant(id, status, text))
	})
}

// whole is a text that does not stream.
func (e *events) whole(n *exchange.Note, s *stretch, id, text string) {
	e.begins(n, 0, s, id)
	e.delta(n, 2, s, id, text)
	e.ends(n, 3, s, id, "completed", text)
}

func (e *events) function(n *exchange.Note, s *stretch, call functionCall) {
	index := s.place(call.ID)
	begun := call
	begun.Arguments, begun.Status = "", statusProgress
	e.emit(n, 0, "response.output_item.added", func(o *protocol.Object) {
		o.Uint("output_index", uint64(index))
		raw(o, "item", begun)
	})
	e.emit(n, 1, "response.function_call_arguments.delta", func(o *protocol.Object) {
		o.Text("item_id", call.ID)
		o.Uint("output_index", uint64(index))
		o.Text("delta", call.Arguments)
	})
	e.emit(n, 2, "response.function_call_arguments.done", func(o *protocol.Object) {
		o.Text("item_id", call.ID)
		o.Text("name", call.Name)
		o.Uint("output_index", uint64(index))
		o.Text("arguments", call.Arguments)
	})
	e.emit(n, 3, "response.output_item.done", func(o *protocol.Object) {
		o.Uint("output_index", uint64(index))
		raw(o, "item", call)
	})
}
