package actors

import (
	"parley/actors/internal/modelcall"
	"parley/actors/internal/observe"
	"parley/conversation"
)

// startModel begins an attempt. Its step_started is durable, and the transcript is
// in memory.
func (s *session) startModel(ask conversation.AskModel) {
	if s.model != nil {
		s.dropDrafts(s.model.Stop())
	}
	e, self := s.e, s.self
	o := modelcall.Options{
		Key: s.key, Ask: ask, Published: s.published, HeldBack: s.machine.Policy().SentinelPrefix,
		Model: e.deps.Models[e.rules.Agent(ask.Agent).Model], Meter: e.observe.Model(ask.Agent),
		Report: func(end *modelcall.End) { e.send(self, end) },
	}
	if o.Model != nil {
		o.TraceID = s.observer.TraceID(ask.Task)
		o.Request = s.cache.Transcript.RequestWith(s.key, e.rules, s.machine.Own(), ask)
		o.Request.TraceParent = s.observer.ModelParent(ask.Task, conversation.Attempt{Step: ask.Step, N: ask.Attempt})
		tokens, left := s.cache.Transcript.Shown()
		e.m.RequestTokens.Observe(float64(tokens))
		if left > 0 {
			e.m.CutRequests.Inc()
		}
		s.compact()
		e.deps.Publisher.Show(s.key, s.epoch, s.durable, conversation.Thinking{Task: ask.Task, Agent: ask.Agent, Step: ask.Step})
	}
	s.model = modelcall.Start(e.models, o)
}

// modelEnded takes the outcome of the session's model call, or the end of one that
// was stopped. The outcome of a call that was stopped meanwhile is dropped: what it has
// cost comes with its end.
func (s *session) modelEnded(m *modelcall.End) {
	_, stopped := m.Command.(conversation.ModelStopped)
	switch {
	case s.phase == phaseUnloaded:
		observe.Unused(s.e.m, m.Call.Meter(), string(s.key.Tenant), m.Command)
		return
	case m.Call == s.model:
		s.model = nil
	case m.Call != s.stopping:
		observe.Unused(s.e.m, m.Call.Meter(), string(s.key.Tenant), m.Command)
		return
	case !stopped:
		return
	default:
		s.stopping = nil
	}
	s.accept(&envelope{cmd: m.Command, drafts: m.Drafts, meter: m.Call.Meter()})
}

// dropDrafts tells followers that drafts have ended without a part in their place.
func (s *session) dropDrafts(ids []conversation.DraftDropped) {
	for _, dropped := range ids {
		s.e.deps.Publisher.Show(s.key, s.epoch, s.durable, dropped)
	}
}
