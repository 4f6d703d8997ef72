package actors

import (
	"context"
	"slices"

	"parley/actors/internal/mail"
	"parley/actors/internal/modelcall"
	triagecall "parley/actors/internal/triage"
	"parley/conversation"
)

// triage asks a model for the order of the waiting messages. There is one call at
// a time; messages that arrive meanwhile are asked about when it has ended.
type triage struct {
	about  conversation.Triage
	next   *conversation.Triage // the waiting messages have changed since
	cancel context.CancelFunc
}

// triageEnd is a message: the call has ended. Without an answer the order stays.
type triageEnd struct {
	mail.DeadLetterOK
	t      *triage
	answer *conversation.ModelAnswer
	err    error
}

// triage asks an agent for the order of the waiting messages. The first line of its
// answer that has numbers names them, and each one named is moved to its place; what
// follows is its report, which the next step is shown.
func (s *session) triage(f conversation.Triage) {
	if s.triaging != nil {
		s.triaging.next = &f
		return
	}
	e, self := s.e, s.self
	model, ok := e.deps.Models[e.rules.Agents[f.Agent].Model]
	if !ok || len(f.Waiting) == 0 {
		return
	}
	request := triagecall.Request(s.key, f, e.rules.Agents[f.Agent].Prompt)
	t := &triage{about: f}
	t.cancel = modelcall.Once(e.models, s.key, "triage", e.cfg.ModelIdle, model, request, func(answer *conversation.ModelAnswer, err error) {
		e.send(self, &triageEnd{t: t, answer: answer, err: err})
	})
	s.triaging = t
}

// triaged moves the messages, in the name of the owner. A move of a message that
// does not wait any more is refused.
func (s *session) triaged(m *triageEnd) {
	if s.phase == phaseUnloaded || s.triaging != m.t {
		return
	}
	t := s.triaging
	s.triaging = nil
	owner := s.machine.Summary().Owner
	outcome := triagecall.Spent(s.e.observe.Model(t.about.Agent), s.key.Tenant, m.answer, m.err)
	if m.answer != nil {
		order, report := triagecall.Read(*m.answer, t.about.Waiting)
		if len(order) == 0 && report == "" {
			outcome = "empty"
		}
		// The last one first, each to the front: so they end in order.
		for _, i := range slices.Backward(order) {
			s.tellSelf(conversation.Move{By: owner, Message: t.about.Waiting[i].Message})
		}
		if report != "" && triagecall.AllWait(t.about.Waiting, s.machine.View().Inbox) {
			s.tellSelf(conversation.Triaged{Report: report})
		}
	}
	s.e.m.Triages.WithLabelValues(outcome).Inc()
	if t.next != nil && s.draining == drainNot {
		s.triage(*t.next)
	}
}

// stop cancels the call; its end is ignored. t may be nil.
func (t *triage) stop() {
	if t != nil {
		t.cancel()
	}
}
