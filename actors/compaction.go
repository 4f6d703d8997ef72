package actors

import (
	"context"
	"errors"

	"parley/actors/internal/mail"
	"parley/actors/internal/modelcall"
	"parley/actors/internal/observe"
	"parley/conversation"
	"parley/conversation/transcript"
)

// compaction is a summary in the making, until it is stored: one model call in a goroutine of its
// own, owned by the session. No step waits for it. It may be stopped at any time:
// nothing is lost but the call.
type compaction struct {
	plan   transcript.Compaction
	cancel context.CancelFunc
}

// compactEnd is how it ended.
type compactEnd struct {
	mail.DeadLetterOK
	c      *compaction
	answer *conversation.ModelAnswer
	err    error
}

// compact starts a summary if the context calls for one. There is at most one at
// a time; after a failure the next one waits for the end of a task.
func (s *session) compact() {
	e := s.e
	if s.compaction != nil || s.compactionFailed || s.draining != drainNot || s.phase != phaseReady || s.cache == nil || s.cache.transcript == nil {
		return
	}
	agent := s.machine.Summary().Agent
	model, ok := e.deps.Models[e.rules.Agents[agent].Model]
	if !ok || agent == conversation.Outside {
		return
	}
	plan, due := s.cache.transcript.Compaction(s.key, e.rules, agent)
	if !due {
		return
	}
	self := s.self
	c := &compaction{plan: plan}
	c.cancel = modelcall.Once(e.models, "a summary", e.cfg.ModelLimit, model, plan.Request, func(answer *conversation.ModelAnswer, err error) {
		e.send(self, &compactEnd{c: c, answer: answer, err: err})
	})
	s.compaction = c
}

// compacted takes the end of a summary. A failure harms nothing: requests are
// cut to the budget until another one is made.
func (s *session) compacted(m *compactEnd) {
	if s.phase == phaseUnloaded || s.compaction != m.c {
		return
	}
	e := s.e
	log := e.log.With("session", s.key.Session, "tenant", s.key.Tenant, "upto", m.c.plan.Upto)
	if m.err != nil {
		s.compaction, s.compactionFailed = nil, true
		e.m.Compactions.WithLabelValues("failed").Inc()
		var known *conversation.ModelError
		if errors.As(m.err, &known) && known.Usage != nil {
			observe.Tokens(e.m, *known.Usage)
		}
		log.Warn("the conversation could not be summarised; it is tried again after the next task", "err", m.err)
		return
	}
	observe.Tokens(e.m, m.answer.Usage)
	cmd, ok := m.c.plan.Compacted(*m.answer)
	if !ok {
		s.compaction, s.compactionFailed = nil, true
		e.m.Compactions.WithLabelValues("empty").Inc()
		log.Warn("the model summarised the conversation with nothing; it is tried again after the next task")
		return
	}
	e.m.Compactions.WithLabelValues("ok").Inc()
	log.Info("the conversation was summarised", "tokens_before", cmd.TokensBefore, "tokens_after", cmd.TokensAfter)
	// It is in the making until it is stored: what a task that ends meanwhile looks
	// at is still as long as before.
	s.accept(&envelope{cmd: cmd, done: func(_ conversation.Receipt, err error) { s.compaction, s.compactionFailed = nil, err != nil }})
}

// tasksEnded looks at the context when a task has ended: nobody waits then.
func (s *session) tasksEnded(events []conversation.Event) {
	for i := range events {
		if b, ok := events[i].Body.(conversation.TaskStatusChanged); ok && b.New.Ended() {
			s.compactionFailed = false
			s.compact()
			return
		}
	}
}

// stop ends the making without a word.
func (c *compaction) stop(s *session) {
	if c != nil {
		c.cancel()
		s.e.m.Compactions.WithLabelValues("stopped").Inc()
	}
}
