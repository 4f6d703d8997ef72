package observe

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/metrics"
	"parley/metrics/tracing"
)

// Env holds the metrics and the log that get the observations.
type Env struct {
	Metrics *metrics.Actors
	Log     *slog.Logger
	Tracer  *tracing.Tracer                     // nil = no traces
	Model   func(conversation.AgentName) string // the label of the model that an agent is configured with
}

// Session is the state of the session that matters to its metrics.
type Session struct {
	Key        conversation.SessionKey
	Recovering bool // it was loaded, and decides what becomes of what was open
	Busy       bool // open work is left
	Warm       bool // its transcript is in memory: the next task comes soon, or both go
}

// Observer counts for one session, and remembers when its running work has begun.
// That is lost when the session is unloaded: the numbers then lack that task. The
// zero value remembers nothing.
type Observer struct {
	tally *tally
	trace *tracing.Session // nil = no traces
	lines lines
}

// Events counts and logs events that have become durable.
func (o *Observer) Events(env *Env, s Session, events []conversation.Event) {
	m := env.Metrics
	o.lines.events(env, o, s, events)
	o.trace.Events(events) // it forgets the tasks that have ended
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
			if b.Disposition == conversation.Started || b.Disposition == conversation.Queued {
				o.remember().acked[b.Message] = time.Now()
			}
		case conversation.MessageResolved:
			m.Resolutions.WithLabelValues(b.How.String(), b.Evidence.String()).Inc()
		case conversation.TaskStatusChanged:
			m.Tasks.WithLabelValues(b.New.String()).Inc()
			if b.New.Ended() {
				o.taskEnded(m, s, event.Task, b.Trigger)
			}
		case conversation.StepStarted:
			if b.Cause != 0 {
				m.Retries.WithLabelValues(b.Cause.String()).Inc()
			}
			if b.Cause == conversation.CauseInterrupted || b.Cause == conversation.CauseDrain && s.Recovering {
				m.Recoveries.WithLabelValues("step").Inc()
			}
			if b.Usage != nil {
				Tokens(m, *b.Usage)
			}
			if b.Attempt == 1 {
				o.remember().steps[event.Task]++
			}
		case conversation.StepFinished:
			Tokens(m, b.Usage)
			if reason := stopped(b); reason != "" {
				m.ModelStops.WithLabelValues(reason).Inc()
			}
			for _, d := range b.Decisions {
				m.Decisions.WithLabelValues(d.String()).Inc()
			}
		case conversation.PartialResponse:
			o.part(env, b.Part, "partial")
		case conversation.Response:
			kind := "final"
			if b.Promoted {
				kind = "promoted"
			}
			o.part(env, b.Part, kind)
		case conversation.Asked:
			m.Questions.WithLabelValues("opened").Inc()
			o.remember().asked[b.Question] = event.At
		case conversation.QuestionAnswered:
			how := "answered"
			if b.By == "default" && b.Message == "" {
				how = "default"
			}
			m.Questions.WithLabelValues(how).Inc()
			o.questionEnded(m, b.Question, event.At)
		case conversation.QuestionClosed:
			m.Questions.WithLabelValues(b.Reason.String()).Inc()
			o.questionEnded(m, b.Question, event.At)
		case conversation.ToolFinished:
			m.ToolCalls.WithLabelValues(b.Status.String()).Inc()
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
		case conversation.DelegationFinished:
			m.Delegations.WithLabelValues(b.Status.String()).Inc()
		case conversation.CoverageNudge:
			m.Nudges.Inc()
		case conversation.RuntimeStatus:
			o.runtime(m, b)
		}
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
func (o *Observer) runtime(m *metrics.Actors, b conversation.RuntimeStatus) {
	what := b.Status.String()
	switch {
	case b.Status == conversation.RuntimeFailed && b.Error == conversation.LeaseRanOut:
		what = "lease_expired"
	case b.Status != conversation.RuntimeHandedOut:
	case o.remember().handed[b.Message] == b.Generation:
		what = "renewed"
	case b.Generation > 1:
		what = "handed_out_again"
	}
	if b.Status == conversation.RuntimeHandedOut {
		o.remember().handed[b.Message] = b.Generation
	}
	m.Runtimes.WithLabelValues(what).Inc()
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

// tally is made when there is something to remember.
type tally struct {
	acked map[conversation.MessageID]time.Time // triggers whose task has shown nothing yet
	parts map[conversation.SourceID]int
	steps map[conversation.TaskID]int
	asked map[conversation.QuestionID]time.Time
	// The last generation that was handed out of a message, for as long as its task runs.
	handed map[conversation.MessageID]uint32
}

func (o *Observer) part(env *Env, p conversation.Part, kind string) {
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
	// Only triggers are counted, from their first part on: another source has no end,
	// so it would never be forgotten.
	if at, ok := t.acked[conversation.MessageID(p.Source)]; ok {
		delete(t.acked, conversation.MessageID(p.Source))
		t.parts[p.Source] = 1
		m.FirstPart.Observe(time.Since(at).Seconds())
	} else if t.parts[p.Source] > 0 {
		t.parts[p.Source]++
	}
}

// remember makes the tally.
func (o *Observer) remember() *tally {
	if o.tally == nil {
		o.tally = &tally{
			acked: map[conversation.MessageID]time.Time{}, parts: map[conversation.SourceID]int{},
			steps: map[conversation.TaskID]int{}, asked: map[conversation.QuestionID]time.Time{},
			handed: map[conversation.MessageID]uint32{},
		}
	}
	return o.tally
}

func (o *Observer) taskEnded(m *metrics.Actors, s Session, task conversation.TaskID, trigger conversation.MessageID) {
	t := o.remember()
	if n := t.steps[task]; n > 0 {
		m.TaskSteps.Observe(float64(n))
	}
	if n := t.parts[conversation.SourceID(trigger)]; n > 0 {
		m.SourceParts.Observe(float64(n))
	}
	delete(t.steps, task)
	delete(t.parts, conversation.SourceID(trigger))
	delete(t.acked, trigger)
	delete(t.handed, trigger)
	switch {
	case s.Busy || len(t.asked) > 0:
	case s.Warm: // the maps stay as long as the transcript does
		clear(t.acked)
		clear(t.parts)
		clear(t.steps)
		clear(t.handed)
	default:
		o.tally = nil
	}
}

// Forget drops what is remembered, unless a question is open.
func (o *Observer) Forget() {
	o.lines = lines{}
	if o.tally != nil && len(o.tally.asked) == 0 {
		o.tally = nil
	}
}

func (o *Observer) questionEnded(m *metrics.Actors, q conversation.QuestionID, at time.Time) {
	t := o.remember()
	if since, ok := t.asked[q]; ok {
		delete(t.asked, q)
		m.QuestionAge.Observe(at.Sub(since).Seconds())
	}
}

// Tokens counts what a model call has cost.
func Tokens(m *metrics.Actors, u conversation.Usage) {
	m.ModelTokens.WithLabelValues("input").Add(float64(u.InputTokens))
	m.ModelTokens.WithLabelValues("output").Add(float64(u.OutputTokens))
	m.ModelTokens.WithLabelValues("cached").Add(float64(u.CachedTokens))
}

// Failed counts what a model call has cost that has failed, where its error says so.
func Failed(m *metrics.Actors, err error) {
	var known *conversation.ModelError
	if errors.As(err, &known) && known.Usage != nil {
		Tokens(m, *known.Usage)
	}
}

// Unused counts what a model call has cost whose end came too late to change anything,
// and a tool's question that is not asked; other commands cost nothing.
func Unused(m *metrics.Actors, unused conversation.Command) {
	switch c := unused.(type) {
	case conversation.ModelAnswered:
		Tokens(m, c.Answer.Usage)
	case conversation.ModelFailed:
		if c.Usage != nil {
			Tokens(m, *c.Usage)
		}
	case conversation.ModelStopped:
		if c.Usage != nil {
			Tokens(m, *c.Usage)
		}
	case conversation.ToolAsks:
		m.Questions.WithLabelValues("refused").Inc()
	}
}
