package tracing

import (
	"cmp"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"parley/conversation"
)

// The bounds of what a session remembers. What is beyond is sent with what its end
// tells, as after a restart.
const (
	maxMessages = 1024 // accepted and not read yet
	maxName     = 64   // bytes of a tool's name
	maxLinks    = 128  // of a task, to the messages that it has read: the library's own bound
)

// Session makes the spans of one session. nil is tracing that is off; so is a
// sub-session whose root task is not known.
type Session struct {
	t        *Tracer
	key      conversation.SessionKey
	label    func(conversation.AgentName) string // of the model that an agent is configured with
	above    trace.TraceID                       // of a sub-session: the trace of its root task
	tasks    map[conversation.TaskID]*task
	messages map[conversation.MessageID]*message
	calls    map[conversation.CallID]call
}

// task is one that has not ended.
type task struct {
	trace   trace.TraceID
	span    trace.SpanID
	text    string // the trace's id
	on      bool   // it is sampled
	begun   bool   // it was RUNNING already
	resumed bool
	start   time.Time
	agent   conversation.AgentName
	trigger conversation.MessageID
	links   []trace.Link
	steps   int
	parts   int
	answer  string // with tracing.content

	step                    conversation.StepNumber
	attempt                 int
	stepBegan, attemptBegan time.Time // zero = not seen
}

type message struct {
	at     time.Time
	task   conversation.TaskID
	mode   string
	caller trace.SpanContext
	text   string // with tracing.content
}

type call struct {
	task  conversation.TaskID
	began time.Time
	tool  string
	args  string // with tracing.content
}

// Session begins the tracing of a session that was loaded; nil when tracing is off.
// label says which model an agent is configured with.
func (t *Tracer) Session(key conversation.SessionKey, label func(conversation.AgentName) string) *Session {
	if t == nil {
		return nil
	}
	s := &Session{t: t, key: key, label: label}
	if key.Session.Depth() > 0 {
		root, call := first(key)
		from := t.origin(root, call)
		if from == "" {
			return nil
		}
		s.above = traceOf(root, from)
	}
	return s
}

// Resume takes what was open when the session was loaded.
func (s *Session) Resume(v *conversation.View) {
	if s == nil {
		return
	}
	for _, open := range v.Tasks {
		t := s.task(open.Task)
		t.start, t.trigger, t.steps = open.CreatedAt, open.Trigger, open.Steps
		t.begun = open.Steps > 0 || open.Status != conversation.TaskQueued
		t.resumed = t.begun
	}
	for _, c := range v.Calls {
		s.began(c.Call, call{task: c.Task, tool: cmp.Or(c.Tool, string(c.Agent))})
	}
	for _, q := range v.Questions {
		if a := q.Asked.Approval; a != nil {
			s.began(a.Call, call{task: q.Task, began: q.At, tool: a.Tool})
		}
	}
	for _, m := range v.Inbox {
		s.accepted(m.Message, &message{at: m.AcceptedAt, task: m.Task})
	}
}

// task finds what is known of a task, and begins it.
func (s *Session) task(id conversation.TaskID) *task {
	if t := s.tasks[id]; t != nil {
		return t
	}
	if s.tasks == nil {
		s.tasks = map[conversation.TaskID]*task{}
	}
	t := s.named(id)
	s.tasks[id] = t
	return t
}

// known finds a task for the span of something else: one that has ended is not remembered
// again.
func (s *Session) known(id conversation.TaskID) *task {
	if t := s.tasks[id]; t != nil {
		return t
	}
	return s.named(id)
}

// named is what follows from a task's id.
func (s *Session) named(id conversation.TaskID) *task {
	t := &task{trace: s.above}
	if !t.trace.IsValid() {
		t.trace = traceOf(s.key, id)
	}
	t.span = spanOf(t.trace, kindTask, s.key.Session, string(id))
	if t.on = sampled(t.trace, s.t.share); t.on {
		t.text = t.trace.String()
	}
	return t
}

// Said notes the traceparent that a client has sent with a message which was accepted.
// It is not stored: after a restart the message's span has no parent there.
func (s *Session) Said(id conversation.MessageID, parent string) {
	if s == nil || parent == "" {
		return
	}
	if caller, ok := parseParent(parent); ok {
		s.accepted(id, &message{caller: caller})
	}
}

func (s *Session) accepted(id conversation.MessageID, m *message) {
	if s.messages == nil {
		s.messages = map[conversation.MessageID]*message{}
	}
	if known := s.messages[id]; known != nil {
		m.caller = known.caller
	} else if len(s.messages) >= maxMessages {
		return
	}
	s.messages[id] = m
}

// TraceID is the trace of a task, for logs and exemplars: "" when tracing is off, or the
// task is not sampled, or there is none.
func (s *Session) TraceID(id conversation.TaskID) string {
	if s == nil || id == "" {
		return ""
	}
	return s.known(id).text
}

// ModelParent is the traceparent for the model call of an attempt, "" as in TraceID.
func (s *Session) ModelParent(id conversation.TaskID, a conversation.Attempt) string {
	if s == nil {
		return ""
	}
	t := s.tasks[id]
	if t == nil || !t.on {
		return ""
	}
	return header(t.trace, s.chatID(t, a.Step, a.N))
}

// ToolParent is the traceparent for a tool call, "" as in TraceID.
func (s *Session) ToolParent(id conversation.TaskID, c conversation.CallID) string {
	if s == nil {
		return ""
	}
	t := s.tasks[id]
	if t == nil || !t.on {
		return ""
	}
	return header(t.trace, spanOf(t.trace, kindCall, s.key.Session, string(c)))
}

func (s *Session) chatID(t *task, step conversation.StepNumber, attempt int) trace.SpanID {
	return spanOf(t.trace, kindChat, s.key.Session, strconv.Itoa(int(step))+"."+strconv.Itoa(attempt))
}

// Commit takes a commit that is durable now: began is when it went on its way, answers
// how many commands it has answered. The events' own spans follow from Events.
func (s *Session) Commit(began time.Time, events []conversation.Event, answers int) {
	if s == nil || len(events) == 0 {
		return
	}
	for i := range events {
		if events[i].Task == "" {
			continue
		}
		if t := s.known(events[i].Task); t.on {
			end := time.Now()
			s.emit(t, &span{
				name: spanCommit, id: spanOf(t.trace, kindCommit, s.key.Session, strconv.FormatUint(uint64(events[0].Seq), 10)), parent: t.span, start: began, end: end,
				attrs: []attribute.KeyValue{attrEvents.Int(len(events)), attrWaiters.Int(answers)},
			})
		}
		return
	}
}

func (s *Session) emit(t *task, p *span) {
	p.trace = t.trace
	p.attrs = append(p.attrs, attrSession.String(string(s.key.Session)))
	s.t.emit(p)
}

// Events takes events that have become durable.
func (s *Session) Events(events []conversation.Event) {
	if s == nil {
		return
	}
	for i := range events {
		s.event(&events[i])
	}
}

func (s *Session) event(e *conversation.Event) {
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		mode := "default"
		if b.Mode != conversation.ModeDefault {
			mode = b.Mode.String()
		}
		m := &message{at: e.At, task: e.Task, mode: mode, text: s.text(b.Text)}
		s.accepted(b.Message, m)
		if b.Disposition == conversation.Answered {
			s.read(e, b.Message, e.Task, "") // the question's answer is read when its task goes on
		}
	case conversation.MessageResolved:
		if s.messages[b.Message] != nil {
			s.read(e, b.Message, cmp.Or(e.Task, s.messages[b.Message].task), b.How.String())
		}
	case conversation.TaskStatusChanged:
		s.status(e, b)
	case conversation.StepStarted:
		s.stepStarted(e, b)
	case conversation.StepFinished:
		s.stepFinished(e, b)
	case conversation.PartialResponse:
		s.part(e.Task, b.Text)
	case conversation.Response:
		if !b.Promoted {
			s.part(e.Task, b.Text)
		} else if t := s.tasks[e.Task]; t != nil {
			t.answer = s.text(b.Text)
		}
	case conversation.ToolStarted:
		s.began(b.Call, call{task: e.Task, began: e.At, tool: b.Tool, args: s.text(b.Args)})
	case conversation.Asked:
		if a := b.Approval; a != nil { // one that is refused never starts
			s.began(a.Call, call{task: e.Task, began: e.At, tool: a.Tool, args: s.text(a.Args)})
		}
	case conversation.ToolFinished:
		s.toolFinished(e, b)
	case conversation.DelegationStarted:
		s.began(b.Delegation, call{task: e.Task, began: e.At, tool: string(b.Agent), args: s.text(b.Objective)})
		if s.key.Session.Depth() == 0 {
			s.t.remember(s.key, b.Delegation, e.Task)
		}
	case conversation.DelegationFinished:
		s.delegationFinished(e, b)
	}
}

// text is an excerpt of a text, if tracing.content lets any out.
func (s *Session) text(text string) string {
	if !s.t.content {
		return ""
	}
	return cut(text, excerpt)
}

// cut is the beginning of a text, at most n bytes and no part of a character. It is a
// copy: what remembers it does not keep the text.
func cut(text string, n int) string {
	if len(text) > n {
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return strings.Clone(text)
}

func (s *Session) part(id conversation.TaskID, text string) {
	if t := s.tasks[id]; t != nil {
		t.parts++
		t.answer = s.text(text)
	}
}

func (s *Session) began(id conversation.CallID, c call) {
	if s.calls == nil {
		s.calls = map[conversation.CallID]call{}
	}
	c.tool = cut(c.tool, maxName) // a model may have made it up
	s.calls[id] = c
}

// read sends the span of a message that a task has read, or that ends.
func (s *Session) read(e *conversation.Event, id conversation.MessageID, by conversation.TaskID, resolved string) {
	m := s.messages[id]
	delete(s.messages, id)
	if m == nil || by == "" {
		return
	}
	t := s.known(by)
	if !t.on {
		return
	}
	p := &span{
		name: spanMessage, trace: t.trace, id: spanOf(t.trace, kindMessage, s.key.Session, string(id)), parent: t.span, start: e.At, end: e.At, kind: trace.SpanKindServer,
		attrs: []attribute.KeyValue{attrMessage.String(string(id)), attrTask.String(string(by)), attrSession.String(string(s.key.Session)), attrTenant.String(string(s.key.Tenant))},
		links: []trace.Link{{SpanContext: reference(t.trace, t.span)}},
	}
	if !m.at.IsZero() {
		p.start = m.at
	}
	if m.mode != "" {
		p.attrs = append(p.attrs, attrMode.String(m.mode))
	} else {
		p.attrs = append(p.attrs, attrResumed.Bool(true))
	}
	if m.text != "" {
		p.attrs = append(p.attrs, attrText.String(m.text))
	}
	if resolved != "" {
		p.attrs = append(p.attrs, attrResolved.String(resolved))
	}
	if m.caller.IsSampled() {
		p.caller, p.trace = m.caller, m.caller.TraceID()
	} else if m.caller.IsValid() { // nobody keeps the caller's own span
		p.links = append(p.links, trace.Link{SpanContext: m.caller})
	}
	if resolved == "" && len(t.links) < maxLinks {
		t.links = append(t.links, trace.Link{SpanContext: reference(p.trace, p.id)})
	}
	s.t.emit(p)
}

func (s *Session) status(e *conversation.Event, b conversation.TaskStatusChanged) {
	if known := s.tasks[e.Task]; b.New.Ended() && b.Old == conversation.TaskQueued && (known == nil || !known.begun) {
		delete(s.tasks, e.Task) // it has never begun
		return
	}
	t := s.task(e.Task)
	t.trigger = cmp.Or(b.Trigger, t.trigger)
	if b.New == conversation.TaskRunning && !t.begun {
		t.begun, t.start = true, e.At
	}
	if !b.New.Ended() {
		return
	}
	delete(s.tasks, e.Task)
	maps.DeleteFunc(s.calls, func(_ conversation.CallID, c call) bool { return c.task == e.Task }) // of questions that were closed
	if !t.on {
		return
	}
	start := t.start
	if start.IsZero() {
		start = e.At
		t.resumed = t.begun
	}
	p := &span{
		name: spanTask, id: t.span, start: start, end: e.At, links: t.links,
		attrs: []attribute.KeyValue{
			attrTenant.String(string(s.key.Tenant)), attrTask.String(string(e.Task)), attrStatus.String(b.New.String()), attrMessage.String(string(t.trigger)),
			attrSteps.Int(t.steps), attrParts.Int(t.parts),
		},
	}
	if parent, call, ok := s.key.Session.Parent(); ok {
		p.parent = spanOf(t.trace, kindCall, parent, string(call))
	}
	if t.agent != "" {
		p.name += " " + string(t.agent)
		p.attrs = append(p.attrs, attrAgent.String(string(t.agent)))
	}
	if b.Error != nil {
		p.failed = string(b.Error.Code)
	} else if b.New == conversation.TaskError {
		p.failed = "error"
	}
	if t.resumed {
		p.attrs = append(p.attrs, attrResumed.Bool(true))
	}
	if t.answer != "" {
		p.attrs = append(p.attrs, attrText.String(t.answer))
	}
	s.emit(t, p)
}

func (s *Session) stepStarted(e *conversation.Event, b conversation.StepStarted) {
	t := s.task(e.Task)
	t.agent = b.Agent
	if b.Attempt == 1 {
		for _, id := range b.Read {
			s.read(e, id, e.Task, "")
		}
		t.steps++
	} else if t.on {
		s.retried(t, e, b)
	}
	if t.step != b.Step {
		t.step = b.Step
		t.stepBegan = time.Time{}
		if b.Attempt == 1 {
			t.stepBegan = e.At
		}
	}
	t.attempt, t.attemptBegan = b.Attempt, e.At
	if b.NotBefore.After(e.At) {
		t.attemptBegan = b.NotBefore
	}
}

// retried sends the span of an attempt after which another one follows.
func (s *Session) retried(t *task, e *conversation.Event, b conversation.StepStarted) {
	p := s.chat(t, e, b.Step, b.Attempt-1, s.label(b.Agent))
	if b.Usage != nil {
		p.attrs = append(p.attrs, usage(*b.Usage)...)
	}
	switch {
	case b.Error != nil:
		p.failed = string(b.Error.Code)
	case b.Cause == conversation.CauseError, b.Cause == conversation.CauseInterrupted:
		p.failed = b.Cause.String()
	default:
		p.attrs = append(p.attrs, attrOutcome.String(b.Cause.String()))
	}
	s.emit(t, p)
}

// chat begins the span of an attempt that ends with e.
func (s *Session) chat(t *task, e *conversation.Event, step conversation.StepNumber, attempt int, model string) *span {
	provider, name, found := strings.Cut(model, "/")
	if !found {
		name = model
	}
	p := &span{
		name: strings.TrimSpace(spanChat + " " + name), id: s.chatID(t, step, attempt), parent: spanOf(t.trace, kindStep, s.key.Session, strconv.Itoa(int(step))), start: e.At, end: e.At, kind: trace.SpanKindClient,
		attrs: []attribute.KeyValue{
			attrOperation.String("chat"), attrProvider.String(provider), attrRequestModel.String(name), attrStep.Int(int(step)), attrAttempt.Int(attempt),
		},
	}
	if t.step == step && t.attempt == attempt && !t.attemptBegan.IsZero() {
		p.start = t.attemptBegan
	} else {
		p.attrs = append(p.attrs, attrResumed.Bool(true))
	}
	return p
}

func usage(u conversation.Usage) []attribute.KeyValue {
	list := []attribute.KeyValue{attrInput.Int(u.InputTokens), attrOutput.Int(u.OutputTokens)}
	if u.CachedTokens > 0 {
		list = append(list, attrCached.Int(u.CachedTokens))
	}
	return list
}

func (s *Session) stepFinished(e *conversation.Event, b conversation.StepFinished) {
	t := s.known(e.Task)
	if !t.on {
		return
	}
	asked := cmp.Or(s.label(t.agent), b.Model)
	p := s.chat(t, e, b.Step, b.Attempt, asked)
	if b.Took > 0 {
		p.start = e.At.Add(-b.Took)
	}
	p.attrs = append(p.attrs, usage(b.Usage)...)
	if b.Model != "" {
		_, name, found := strings.Cut(b.Model, "/")
		if !found {
			name = b.Model
		}
		p.attrs = append(p.attrs, attrModel.String(name))
	}
	decisions := make([]string, 0, len(b.Decisions))
	acts := false
	for _, d := range b.Decisions {
		decisions = append(decisions, d.String())
		acts = acts || d != conversation.DecisionAnswer
	}
	if reason := finish(b, acts); reason != "" {
		p.attrs = append(p.attrs, attrFinish.StringSlice([]string{reason}))
	}
	failed := ""
	switch {
	case b.Outcome == conversation.StepError && b.Error != nil:
		failed = string(b.Error.Code)
	case b.Outcome == conversation.StepError, b.Outcome == conversation.StepUnknown:
		failed = b.Outcome.String()
	}
	p.failed = failed
	p.attrs = append(p.attrs, attrOutcome.String(b.Outcome.String()))
	chat := p.start
	s.emit(t, p)

	step := &span{
		name: spanStep, id: p.parent, parent: t.span, start: t.stepBegan, end: e.At, failed: failed,
		attrs: []attribute.KeyValue{
			attrStep.Int(int(b.Step)), attrAttempts.Int(b.Attempt), attrOutcome.String(b.Outcome.String()), attrDecisions.StringSlice(decisions), attrTask.String(string(e.Task)),
		},
	}
	if t.step != b.Step || t.stepBegan.IsZero() {
		step.start = chat
		step.attrs = append(step.attrs, attrResumed.Bool(true))
	}
	s.emit(t, step)
}

// finish is why an answer has ended, in the conventions' words; "" = there was none.
func finish(b conversation.StepFinished, acts bool) string {
	switch {
	case b.Stop == conversation.StopLength:
		return "length"
	case b.Stop == conversation.StopFiltered:
		return "content_filter"
	case b.Stop == conversation.StopRefused:
		return "refusal"
	case b.Outcome != conversation.StepOK:
		return ""
	case acts:
		return "tool_calls"
	}
	return "stop"
}

// ended begins the span of a call that ends with e; nil when it is not sent.
func (s *Session) ended(e *conversation.Event, id conversation.CallID, took time.Duration, status conversation.CallStatus, result string) (*task, *span, call) {
	c, seen := s.calls[id]
	delete(s.calls, id)
	t := s.known(e.Task)
	if !t.on {
		return t, nil, c
	}
	p := &span{id: spanOf(t.trace, kindCall, s.key.Session, string(id)), parent: t.span, start: e.At.Add(-took), end: e.At, attrs: make([]attribute.KeyValue, 0, 12)}
	if seen && !c.began.IsZero() {
		p.start = c.began
	} else {
		p.attrs = append(p.attrs, attrResumed.Bool(true))
	}
	p.attrs = append(p.attrs, attrCall.String(string(id)), attrOutcome.String(status.String()))
	switch status {
	case conversation.CallOK, conversation.CallCancelled, conversation.CallDenied:
	default:
		p.failed = status.String()
	}
	if c.args != "" {
		p.attrs = append(p.attrs, attrArgs.String(c.args))
	}
	if result = s.text(result); result != "" {
		p.attrs = append(p.attrs, attrResult.String(result))
	}
	return t, p, c
}

func (s *Session) toolFinished(e *conversation.Event, b conversation.ToolFinished) {
	t, p, c := s.ended(e, b.Call, b.Took, b.Status, b.Summary)
	if p == nil {
		return
	}
	p.name = strings.TrimSpace(spanTool + " " + c.tool)
	p.attrs = append(p.attrs, attrOperation.String(spanTool))
	if c.tool != "" {
		p.attrs = append(p.attrs, attrTool.String(c.tool))
	}
	s.emit(t, p)
}

func (s *Session) delegationFinished(e *conversation.Event, b conversation.DelegationFinished) {
	if s.key.Session.Depth() == 0 {
		s.t.forget(s.key, b.Delegation)
	}
	t, p, c := s.ended(e, b.Delegation, b.Took, b.Status, b.Summary)
	if p == nil {
		return
	}
	p.name = strings.TrimSpace(spanInvoke + " " + c.tool)
	p.attrs = append(p.attrs, attrOperation.String(spanInvoke), attrSub.String(string(s.key.Session)+"/"+string(b.Delegation)))
	if c.tool != "" {
		p.attrs = append(p.attrs, attrAgent.String(c.tool))
	}
	s.emit(t, p)
}
