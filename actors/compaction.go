package actors

import (
	"context"

	"parley/actors/internal/calls"
	"parley/actors/internal/mail"
	"parley/actors/internal/modelcall"
	"parley/actors/internal/observe"
	"parley/actors/internal/titling"
	"parley/conversation"
	"parley/conversation/transcript"
	"parley/metrics"
)

// compaction is a summary that is being made, until it is stored: one model call
// beside the steps. No step waits for it. It may be stopped at any time, and only
// the call is lost.
type compaction struct {
	plan   transcript.Compaction
	cancel context.CancelFunc
}

// compactEnd is a message: the model call of a compaction has ended.
type compactEnd struct {
	mail.DeadLetterOK
	c      *compaction
	answer *conversation.ModelAnswer
	err    error
}

// compact starts a summary if the context is long enough for one. There is at most one at
// a time; after a failure the next one waits for the end of a task.
func (s *session) compact() {
	e := s.e
	if s.compaction != nil || s.compactionFailed || stopping(s) || s.phase != phaseReady || s.cache == nil || s.cache.Transcript == nil {
		return
	}
	agent := s.machine.Summary().Agent
	model, ok := e.deps.Models[e.rules.Agent(agent).Model]
	if !ok || agent.Outside() {
		return
	}
	plan, due := s.cache.Transcript.Compaction(s.key, e.rules, agent)
	if !due {
		return
	}
	self := s.self
	c := &compaction{plan: plan}
	c.cancel = modelcall.Once(e.models, s.key, "a summary", e.cfg.ModelLimit, model, plan.Request, func(answer *conversation.ModelAnswer, err error) {
		e.send(self, &compactEnd{c: c, answer: answer, err: err})
	})
	s.compaction = c
}

// compacted takes the end of a summary. After a failure requests are cut to the
// budget until another summary is made.
func (s *session) compacted(m *compactEnd) {
	if s.phase == phaseUnloaded || s.compaction != m.c {
		return
	}
	e := s.e
	log := e.log.With("session", s.key.Session, "tenant", s.key.Tenant, "upto", m.c.plan.Upto)
	if m.err != nil {
		s.compaction, s.compactionFailed = nil, true
		e.m.Compactions.WithLabelValues("failed").Inc()
		observe.Failed(meterOf(s), string(s.key.Tenant), m.err)
		log.Warn("the conversation could not be summarised; it is tried again after the next task", "error", m.err)
		return
	}
	observe.Tokens(meterOf(s), string(s.key.Tenant), m.answer.Usage)
	cmd, ok := m.c.plan.Compacted(*m.answer)
	if !ok {
		s.compaction, s.compactionFailed = nil, true
		e.m.Compactions.WithLabelValues("empty").Inc()
		log.Warn("the model summarised the conversation with nothing; it is tried again after the next task")
		return
	}
	e.m.Compactions.WithLabelValues("ok").Inc()
	log.Info("the conversation was summarised", "tokens_before", cmd.TokensBefore, "tokens_after", cmd.TokensAfter)
	// The compaction goes on until it is stored: a task that ends before would find
	// the context as long as it was.
	s.accept(&envelope{cmd: cmd, done: func(_ conversation.Receipt, err error) {
		if s.compaction == m.c {
			s.compaction, s.compactionFailed = nil, err != nil
		}
	}})
}

// contextChanged stops a summary that is being made of what was cleared, which the
// machine would not take, and starts one when a task has ended: no user waits then.
func (s *session) contextChanged(events []conversation.Event) {
	ended := false
	for i := range events {
		switch b := events[i].Body.(type) {
		case conversation.ContextCleared:
			s.compaction.stop(s)
			s.compaction, s.compactionFailed = nil, false
		case conversation.TaskStatusChanged:
			ended = ended || b.New.Ended()
			if b.New == conversation.TaskComplete && titling.Early(events[i].Task) {
				askTitle(s)
			}
		}
	}
	if ended {
		s.compactionFailed = false
		s.compact()
	}
}

// meterOf counts what the model of the session's agent costs beside the steps.
func meterOf(s *session) *metrics.Model { return s.e.observe.Model(s.machine.Summary().Agent) }

// stop cancels the call; its end is ignored. c may be nil.
func (c *compaction) stop(s *session) {
	if c != nil {
		c.cancel()
		s.e.m.Compactions.WithLabelValues("stopped").Inc()
	}
}

// askTitle asks the model of titles what the session is to be called, if nobody has said it.
// Rule 9.2c.
func askTitle(s *session) {
	if e, self := s.e, s.self; e.cfg.TitleModel != "" && !s.machine.Titled() && s.cache != nil && s.cache.Transcript != nil {
		titling.Ask(e.models, e.m.Models.Of(e.cfg.TitleModel), s.key, s.machine.Summary().Owner, e.cfg.ModelIdle, e.deps.Models[e.cfg.TitleModel], s.cache.Transcript,
			func(c conversation.Command) { e.send(self, &calls.End{Command: c}) })
	}
}
