package actors

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"parley/conversation"
)

// observe counts and logs what has become durable.
func (s *session) observe(events []conversation.Event) {
	m := s.e.m
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
				s.tallyOf().acked[b.Message] = time.Now()
			}
		case conversation.MessageResolved:
			m.Resolutions.WithLabelValues(b.How.String()).Inc()
		case conversation.TaskStatusChanged:
			m.Tasks.WithLabelValues(b.New.String()).Inc()
			if b.New.Ended() {
				s.taskEnded(event.Task, b.Trigger)
			}
		case conversation.StepStarted:
			if b.Cause != 0 {
				m.Retries.WithLabelValues(b.Cause.String()).Inc()
			}
			if b.Cause == conversation.CauseInterrupted || b.Cause == conversation.CauseDrain && s.phase == phaseRecovering {
				m.Recoveries.WithLabelValues("step").Inc()
			}
			if b.Usage != nil {
				s.tokens(*b.Usage)
			}
			if b.Attempt == 1 {
				s.tallyOf().steps[event.Task]++
			}
		case conversation.StepFinished:
			s.tokens(b.Usage)
			for _, d := range b.Decisions {
				m.Decisions.WithLabelValues(d.String()).Inc()
			}
		case conversation.PartialResponse:
			s.observePart(b.Part, "partial")
		case conversation.Response:
			kind := "final"
			if b.Promoted {
				kind = "promoted"
			}
			s.observePart(b.Part, kind)
		case conversation.Asked:
			m.Questions.WithLabelValues("opened").Inc()
			s.tallyOf().asked[b.Question] = event.At
		case conversation.QuestionAnswered:
			how := "answered"
			if b.By == "default" && b.Message == "" {
				how = "default"
			}
			m.Questions.WithLabelValues(how).Inc()
			s.questionEnded(b.Question, event.At)
		case conversation.QuestionClosed:
			m.Questions.WithLabelValues(b.Reason.String()).Inc()
			s.questionEnded(b.Question, event.At)
		case conversation.ToolFinished:
			m.ToolCalls.WithLabelValues(b.Status.String()).Inc()
			if b.Status == conversation.CallUnknown && s.phase == phaseRecovering {
				m.Recoveries.WithLabelValues("call").Inc()
			}
		case conversation.DelegationStarted:
			m.Depth.WithLabelValues(strconv.Itoa(b.Session.Depth())).Inc()
		case conversation.DelegationFinished:
			m.Delegations.WithLabelValues(b.Status.String()).Inc()
		case conversation.CoverageNudge:
			m.Nudges.Inc()
		}
	}
}

// tally is what the metrics of running work need to remember. It is lost when
// the session leaves memory: the numbers then lack that task, nothing else does.
type tally struct {
	acked map[conversation.MessageID]time.Time // triggers whose task has shown nothing yet
	parts map[conversation.SourceID]int
	steps map[conversation.TaskID]int
	asked map[conversation.QuestionID]time.Time
}

func (s *session) observePart(p conversation.Part, kind string) {
	s.e.m.Parts.WithLabelValues(kind).Inc()
	if kind == "promoted" {
		return
	}
	if s.e.log.Enabled(context.Background(), slog.LevelInfo) { // its values cost memory also when nobody wants them
		s.e.log.Info("part persisted", "tenant", s.key.Tenant, "session", s.key.Session,
			"source_id", p.Source, "part_index", p.Index, "message_id", p.Message)
	}
	if p.Source == "" {
		return
	}
	t := s.tally
	if t == nil {
		return
	}
	// Only triggers are counted, from their first part on: nobody says when another
	// source ends, so it would be remembered for ever.
	if at, ok := t.acked[conversation.MessageID(p.Source)]; ok {
		delete(t.acked, conversation.MessageID(p.Source))
		t.parts[p.Source] = 1
		s.e.m.FirstPart.Observe(time.Since(at).Seconds())
	} else if t.parts[p.Source] > 0 {
		t.parts[p.Source]++
	}
}

// tallyOf makes the tally when something is to be remembered.
func (s *session) tallyOf() *tally {
	if s.tally == nil {
		s.tally = &tally{
			acked: map[conversation.MessageID]time.Time{}, parts: map[conversation.SourceID]int{},
			steps: map[conversation.TaskID]int{}, asked: map[conversation.QuestionID]time.Time{},
		}
	}
	return s.tally
}

func (s *session) taskEnded(task conversation.TaskID, trigger conversation.MessageID) {
	t := s.tallyOf()
	if n := t.steps[task]; n > 0 {
		s.e.m.TaskSteps.Observe(float64(n))
	}
	if n := t.parts[conversation.SourceID(trigger)]; n > 0 {
		s.e.m.SourceParts.Observe(float64(n))
	}
	delete(t.steps, task)
	delete(t.parts, conversation.SourceID(trigger))
	delete(t.acked, trigger)
	if !s.machine.Busy() && len(t.asked) == 0 {
		s.clearTally()
	}
}

// clearTally forgets what was remembered. The maps stay as long as the transcript
// does: the next task comes soon, or both go.
func (s *session) clearTally() {
	if s.cache == nil {
		s.tally = nil
		return
	}
	clear(s.tally.acked)
	clear(s.tally.parts)
	clear(s.tally.steps)
}

func (s *session) questionEnded(q conversation.QuestionID, at time.Time) {
	t := s.tallyOf()
	if since, ok := t.asked[q]; ok {
		delete(t.asked, q)
		s.e.m.QuestionAge.Observe(at.Sub(since).Seconds())
	}
}

func (s *session) tokens(u conversation.Usage) { s.e.tokens(u) }

func (e *Engine) tokens(u conversation.Usage) {
	e.m.ModelTokens.WithLabelValues("input").Add(float64(u.InputTokens))
	e.m.ModelTokens.WithLabelValues("output").Add(float64(u.OutputTokens))
}

// countUnused counts what the end of a model call has cost that nobody waits for.
func (e *Engine) countUnused(end conversation.Command) {
	switch c := end.(type) {
	case conversation.ModelAnswered:
		e.tokens(c.Answer.Usage)
	case conversation.ModelFailed:
		if c.Usage != nil {
			e.tokens(*c.Usage)
		}
	}
}
