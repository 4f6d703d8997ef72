package observe

import (
	"cmp"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/metrics"
	"parley/metrics/tracing"
)

// Env holds the metrics and the log that get the observations.
type Env struct {
	Metrics *metrics.Actors
	Log     *slog.Logger
	Tracer  *tracing.Tracer               // nil = no traces
	Models  map[string]conversation.Model // by their names in the configuration
	Rules   *policy.Rules                 // which model an agent has, and which tools there are
	Pulses  Pulses                        // of the sessions that have open work
}

// Model are the metrics of the model that answers for an agent: by its name in the
// configuration, and not by what its provider calls it.
func (e *Env) Model(agent conversation.AgentName) *metrics.Model {
	return e.Metrics.Models.Of(e.Rules.Agent(agent).Model)
}

// Label is what the model that answers for an agent calls itself; "" = there is none.
func (e *Env) Label(agent conversation.AgentName) string {
	if model := e.Models[e.Rules.Agent(agent).Model]; model != nil {
		return model.Label()
	}
	return ""
}

// tool is the label of a tool's metrics. A model may call what there is not: such names are
// its text, and no label.
func (e *Env) tool(name string) string {
	switch _, known := e.Rules.Tool(name); {
	case known, name == callersTool:
		return name
	case name == conversation.ToolRespond, name == conversation.ToolAsk, name == conversation.ToolDelegate, name == conversation.ToolDelegateParallel,
		name == conversation.ToolAmend, name == conversation.ToolCover:
		return name
	}
	return "unknown"
}

// callersTool is the one label of all tools that callers of sessions run: their names are
// what a client says.
const callersTool = "caller"

func toolOf(name string, caller bool) string {
	if caller {
		return callersTool
	}
	return name
}

// Session is the state of the session that matters to its metrics.
type Session struct {
	Key        conversation.SessionKey
	Recovering bool      // it was loaded, and decides what becomes of what was open
	Busy       bool      // open work is left
	Warm       bool      // its transcript is in memory: the next task comes soon, or both go
	At         time.Time // when the events have become durable
}

// Observer counts for one session, and remembers what is open in it and since when. What
// the session's view says of that is there again after a load (Loaded); of what it does not
// say, as of a message that was read, the numbers lack what happens then. The zero value
// remembers nothing.
type Observer struct {
	tally *tally
	trace *tracing.Session // nil = no traces
	lines lines
}

// Events counts and logs events that have become durable.
func (o *Observer) Events(env *Env, s Session, events []conversation.Event) {
	m := env.Metrics
	o.lines.events(env, o, s, events)
	defer o.trace.Events(events) // last: it forgets the tasks that have ended
	tenant := string(s.Key.Tenant)
	for i := range events {
		event := &events[i]
		switch b := event.Body.(type) {
		case conversation.MessageAccepted:
			m.Dispositions.WithLabelValues(b.Disposition.String()).Inc()
			mode := b.Mode.String()
			if b.Mode == conversation.ModeDefault {
				mode = "default"
			}
			m.Modes.WithLabelValues(mode).Inc()
			starts := b.Disposition == conversation.Started || b.Disposition == conversation.Queued
			t := o.remember(env)
			t.add(message{id: b.Message, accepted: event.At, durable: s.At, unread: b.Disposition != conversation.Answered || b.Deferred, trigger: starts})
			if starts { // its task is born with it
				t.begin(openTask{id: event.Task, trigger: b.Message, born: event.At})
			}
		case conversation.MessageWithdrawn:
			if msg := o.remember(env).message(b.Message); msg != nil {
				msg.trigger = false
			}
		case conversation.MessageResolved:
			m.Resolutions.WithLabelValues(b.How.String(), b.Evidence.String()).Inc()
			o.resolved(env, s, event.Task, b)
		case conversation.TaskStatusChanged:
			m.Tasks.WithLabelValues(b.New.String()).Inc()
			o.task(env, s, event, b)
		case conversation.StepStarted:
			model := env.Model(b.Agent)
			if b.Cause != 0 {
				model.Retried(b.Cause.String())
			}
			if b.Cause == conversation.CauseInterrupted || b.Cause == conversation.CauseDrain && s.Recovering {
				m.Recoveries.WithLabelValues("step").Inc()
			}
			if b.Usage != nil {
				Tokens(model, tenant, *b.Usage)
			}
			t := o.remember(env)
			t.read(b.Read)
			if open := t.task(event.Task); open != nil {
				open.agent = b.Agent
				if b.Attempt == 1 {
					open.steps++
				}
			}
		case conversation.TaskCancelling:
			m.Cancels.WithLabelValues(b.By.String()).Inc()
		case conversation.StepFinished:
			m.Steps.WithLabelValues(b.Outcome.String()).Inc()
			model := env.Model(o.remember(env).agentOf(event.Task))
			Tokens(model, tenant, b.Usage)
			if reason := stopped(b); reason != "" {
				model.Stopped(reason)
			}
			for _, d := range b.Decisions {
				m.Decisions.WithLabelValues(d.String()).Inc()
			}
		case conversation.PartialResponse:
			o.part(env, s, event.Task, b.Part, "partial")
		case conversation.Response:
			kind := "final"
			if b.Promoted {
				kind = "promoted"
			}
			o.part(env, s, event.Task, b.Part, kind)
			m.Responses.WithLabelValues(cmp.Or(b.ResponseKind.String(), "plain")).Inc()
		case conversation.Asked:
			m.Questions.WithLabelValues("opened").Inc()
			t := o.remember(env)
			t.asked[b.Question] = event.At
			about := b.About
			if about == "" {
				about = t.triggerOf(event.Task)
			}
			o.told(m, s, t.message(about), event.Task, "question")
			if a := b.Approval; a != nil && b.Delegation == "" { // the call has not started, and may end so
				t.calls[a.Call] = openCall{name: a.Tool, waits: true}
			}
		case conversation.QuestionAnswered:
			how := "answered"
			if b.By == "default" && b.Message == "" {
				how = "default"
			}
			m.Questions.WithLabelValues(how).Inc()
			o.questionEnded(env, b.Question, event.At)
		case conversation.QuestionClosed:
			m.Questions.WithLabelValues(b.Reason.String()).Inc()
			o.questionEnded(env, b.Question, event.At)
		case conversation.ToolStarted:
			o.remember(env).calls[b.Call] = openCall{name: toolOf(b.Tool, b.Caller), waits: b.Caller}
		case conversation.ToolFinished:
			m.Tools.Of(env.tool(o.remember(env).callEnded(b.Call))).Called(b.Status.String(), b.Took.Seconds(), o.TraceID(event.Task))
			for refusal, limit := range map[string]string{conversation.TooManyTools: "tools.max_parallel", conversation.TooManyDelegations: "delegation.max_parallel"} {
				if b.Status == conversation.CallError && strings.HasPrefix(b.Summary, "error: "+refusal) {
					m.CallsRefused.WithLabelValues(limit).Inc()
				}
			}
			if b.Status == conversation.CallUnknown && s.Recovering {
				m.Recoveries.WithLabelValues("call").Inc()
			}
		case conversation.DelegationStarted:
			m.Depth.WithLabelValues(strconv.Itoa(b.Session.Depth())).Inc()
			o.remember(env).calls[b.Delegation] = openCall{name: string(b.Agent.Kind()), delegation: true}
		case conversation.DelegationFinished:
			m.Agents.Of(o.remember(env).callEnded(b.Delegation)).Ended(b.Status.String(), b.Took.Seconds(), o.TraceID(event.Task))
		case conversation.CoverageNudge:
			m.Nudges.WithLabelValues(b.Form.String()).Inc()
		case conversation.RuntimeStatus:
			o.runtime(env, b)
		}
	}
	if o.tally != nil {
		o.tally.beat(s.At)
	}
}

// stopped says why an answer has ended; "" = there was none.
func stopped(b conversation.StepFinished) string {
	switch {
	case b.Stop != 0:
		return b.Stop.String()
	case b.Outcome == conversation.StepOK:
		return "end"
	case b.Error != nil && b.Error.Code == conversation.Forbidden:
		return conversation.StopFiltered.String()
	}
	return ""
}

// runtime counts what happened between an outside runtime and a message.
func (o *Observer) runtime(env *Env, b conversation.RuntimeStatus) {
	t := o.remember(env)
	if msg := t.message(b.Message); msg != nil {
		msg.unread = b.Status == conversation.RuntimeFailed && !b.Permanent // else a runtime has it
	}
	what := b.Status.String()
	switch {
	case b.Status == conversation.RuntimeFailed && b.Error == conversation.LeaseRanOut:
		what = "lease_expired"
	case b.Status != conversation.RuntimeHandedOut:
	case t.handed[b.Message] == b.Generation:
		what = "renewed"
	case b.Generation > 1:
		what = "handed_out_again"
	}
	if b.Status == conversation.RuntimeHandedOut {
		t.handed[b.Message] = b.Generation
	}
	env.Metrics.Runtimes.WithLabelValues(what).Inc()
}

// Refused counts a word of an outside runtime that was refused; other errors are
// counted elsewhere.
func Refused(m *metrics.Actors, c conversation.Command, e *conversation.Error) {
	switch c.(type) {
	case conversation.AddPart, conversation.RuntimeSays:
	default:
		return
	}
	switch {
	case e == nil || e.Code != conversation.Conflict:
	case e.NextPart != nil:
		m.RuntimeErrors.WithLabelValues("gap").Inc()
	case e.Generation > 0:
		m.RuntimeErrors.WithLabelValues("generation").Inc()
	case e.TaskStatus != 0:
		m.RuntimeErrors.WithLabelValues("ended").Inc()
	}
}

func (o *Observer) part(env *Env, s Session, task conversation.TaskID, p conversation.Part, kind string) {
	m := env.Metrics
	m.Parts.WithLabelValues(kind).Inc()
	if kind == "promoted" {
		return
	}
	if p.Source == "" {
		return
	}
	t := o.tally
	if t == nil {
		return
	}
	if p.InReplyTo != "" && p.InReplyTo != conversation.MessageID(p.Source) {
		o.told(m, s, t.message(p.InReplyTo), task, "part")
	}
	// Only triggers are counted, from their first part on: another source has no end,
	// so it would never be forgotten.
	source := t.message(conversation.MessageID(p.Source))
	o.told(m, s, source, task, "part")
	if source != nil && source.trigger && !source.parted {
		source.parted = true
		t.parts[p.Source] = 1
		if !source.durable.IsZero() {
			metrics.Observe(m.FirstPart, s.At.Sub(source.durable).Seconds(), o.TraceID(task))
		}
	} else if t.parts[p.Source] > 0 {
		t.parts[p.Source]++
	}
}

// soonEnough is how long the author of a message may see nothing of it: the promise that
// prometheus/rules.yml watches.
const soonEnough = 60.0

// told notes that the author of a message has seen something of it. msg may be nil. What
// an agent has asked another one in a delegation has no author who waits.
func (o *Observer) told(m *metrics.Actors, s Session, msg *message, task conversation.TaskID, by string) {
	if msg == nil || msg.told || s.Key.Session.Depth() > 0 {
		return
	}
	msg.told = true
	took := since(msg.accepted, s.At)
	metrics.Observe(m.Told(by), took, o.TraceID(task))
	if msg.late = took > soonEnough; msg.late {
		m.Promises.WithLabelValues("late").Inc()
	}
}

// promised counts a message at its end, unless it was late: then it has been.
func promised(m *metrics.Actors, s Session, msg *message, how conversation.Resolution) {
	switch failed := how == conversation.ResolvedFailed || how == conversation.ResolvedUnanswered; {
	case s.Key.Session.Depth() > 0 || msg != nil && msg.late:
	case failed:
		m.Promises.WithLabelValues("failed").Inc()
	case msg != nil: // else nobody knows
		m.Promises.WithLabelValues("kept").Inc()
	}
}

// since is the time between two moments in seconds, which are stamped in milliseconds.
func since(from, to time.Time) float64 { return max(to.Sub(from).Seconds(), 0) }

// resolved is the end of a message.
func (o *Observer) resolved(env *Env, s Session, task conversation.TaskID, b conversation.MessageResolved) {
	t := o.remember(env)
	msg := t.message(b.Message)
	o.told(env.Metrics, s, msg, task, "receipt")
	promised(env.Metrics, s, msg, b.How)
	if msg == nil {
		return
	}
	if s.Key.Session.Depth() == 0 {
		metrics.Observe(env.Metrics.Resolved(b.How.String()), since(msg.accepted, s.At), o.TraceID(task))
	}
	msg.resolved, msg.unread = true, false
	if !msg.trigger {
		t.forget(b.Message)
	}
}

// task notes a new status of a task.
func (o *Observer) task(env *Env, s Session, event *conversation.Event, b conversation.TaskStatusChanged) {
	t := o.remember(env)
	if b.Old == 0 {
		t.begin(openTask{id: event.Task, trigger: b.Trigger, born: event.At})
	}
	open := t.task(event.Task)
	if open != nil {
		open.running = b.New == conversation.TaskRunning
	}
	if b.New.Ended() {
		if open != nil {
			metrics.Observe(env.Metrics.TaskSeconds(b.New.String()), since(open.born, s.At), o.TraceID(event.Task))
		}
		o.taskEnded(env.Metrics, s, event.Task, b.Trigger)
	}
}

// remember makes the tally.
func (o *Observer) remember(env *Env) *tally {
	if o.tally == nil {
		o.tally = newTally(&env.Pulses)
	}
	return o.tally
}

// A Loadable is a session's machine that was loaded.
type Loadable interface {
	Exists() bool
	Summary() conversation.Summary
	View() conversation.View
}

// Loaded begins with a session that was loaded at a time, and notes what is open in it.
func (o *Observer) Loaded(env *Env, key conversation.SessionKey, of Loadable, at time.Time) {
	o.trace = env.Tracer.Session(key, env.Label)
	if !of.Exists() || of.Summary().Open == 0 {
		return
	}
	v := of.View()
	if o.trace != nil {
		o.trace.Resume(&v)
	}
	t := o.remember(env)
	for i := range v.Tasks {
		known := &v.Tasks[i]
		o.lines.loaded(known, v.Agent)
		t.begin(openTask{id: known.Task, trigger: known.Trigger, born: known.CreatedAt, agent: v.Agent, running: known.Status == conversation.TaskRunning})
	}
	for _, known := range v.Inbox {
		t.add(message{id: known.Message, accepted: known.AcceptedAt, unread: true, trigger: known.Message == t.triggerOf(known.Task)})
	}
	for _, known := range v.Questions {
		t.asked[known.Asked.Question] = known.At
		if a := known.Asked.Approval; a != nil && known.Asked.Delegation == "" {
			t.calls[a.Call] = openCall{name: a.Tool, waits: true}
		}
	}
	for _, known := range v.Calls {
		t.calls[known.Call] = openCall{name: toolOf(known.Tool, known.Caller), waits: known.Caller}
		if known.Tool == "" {
			t.calls[known.Call] = openCall{name: string(known.Agent.Kind()), delegation: true}
		}
	}
	t.beat(at)
}

func (o *Observer) taskEnded(m *metrics.Actors, s Session, task conversation.TaskID, trigger conversation.MessageID) {
	t := o.tally
	if open := t.task(task); open != nil && open.steps > 0 {
		m.TaskSteps.Observe(float64(open.steps))
	}
	if n := t.parts[conversation.SourceID(trigger)]; n > 0 {
		m.SourceParts.Observe(float64(n))
	}
	t.taskEnded(task, trigger)
	switch {
	case s.Busy || t.open():
	case s.Warm: // the maps stay as long as the transcript does
		t.clear()
	default:
		o.Leave()
	}
}

// Forget drops what is remembered, unless something is open.
func (o *Observer) Forget() {
	if o.tally != nil && !o.tally.open() {
		o.Leave()
	}
	if o.tally == nil {
		o.lines = lines{}
	}
}

// Leave is the end of the session's time in memory: nothing of it waits or runs here.
func (o *Observer) Leave() {
	if o.tally != nil {
		o.tally.leave()
		o.tally = nil
	}
}

func (o *Observer) questionEnded(env *Env, q conversation.QuestionID, at time.Time) {
	t := o.remember(env)
	if since, ok := t.asked[q]; ok {
		delete(t.asked, q)
		env.Metrics.QuestionAge.Observe(at.Sub(since).Seconds())
	}
}

// Tokens counts what a model call has cost a tenant.
func Tokens(model *metrics.Model, tenant string, u conversation.Usage) {
	model.Spent(tenant, u.InputTokens, u.OutputTokens, u.CachedTokens)
}

// Failed counts what a model call has cost that has failed, where its error says so.
func Failed(model *metrics.Model, tenant string, err error) {
	var known *conversation.ModelError
	if errors.As(err, &known) && known.Usage != nil {
		Tokens(model, tenant, *known.Usage)
	}
}

// Unused counts what a model call has cost whose end came too late to change anything,
// and a tool's question that is not asked; other commands cost nothing. model is the call's.
func Unused(m *metrics.Actors, model *metrics.Model, tenant string, unused conversation.Command) {
	switch c := unused.(type) {
	case conversation.ModelAnswered:
		Tokens(model, tenant, c.Answer.Usage)
	case conversation.ModelFailed:
		if c.Usage != nil {
			Tokens(model, tenant, *c.Usage)
		}
	case conversation.ModelStopped:
		if c.Usage != nil {
			Tokens(model, tenant, *c.Usage)
		}
	case conversation.ToolAsks:
		m.Questions.WithLabelValues("refused").Inc()
	}
}
