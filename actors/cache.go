package actors

import (
	"math/rand/v2"

	"parley/actors/internal/mail"
	"parley/conversation"
	"parley/conversation/transcript"
)

// cache is the window of the log that models are shown. It is dropped when the
// session idles and read again from the log when a model is asked.
type cache struct {
	transcript *transcript.Transcript  // nil while it is being read
	tail       []conversation.Event    // became durable meanwhile
	asks       []conversation.AskModel // wait for it
}

// cached is a window that was read again.
type cached struct {
	mail.DeadLetterOK
	c          *cache
	transcript *transcript.Transcript
	err        error
}

func (c *cache) add(events []conversation.Event) {
	if c.transcript == nil {
		c.tail = append(c.tail, events...)
		return
	}
	for _, e := range events {
		c.transcript.Add(e)
	}
}

// ask starts a model call as soon as the transcript is there.
func (s *session) ask(effect conversation.AskModel) {
	if s.model != nil && s.model.For().Step == effect.Step && s.model.For().Attempt == effect.Attempt {
		return
	}
	if s.cache == nil {
		s.readCache()
	}
	if s.cache.transcript == nil {
		for _, other := range s.cache.asks {
			if other.Step == effect.Step && other.Attempt == effect.Attempt {
				return
			}
		}
		s.cache.asks = append(s.cache.asks, effect)
		return
	}
	s.startModel(effect)
}

func (s *session) readCache() {
	c := &cache{}
	s.cache = c
	e, key, self := s.e, s.key, s.self
	after := s.machine.TranscriptFrom()
	origin, pinned := s.machine.TranscriptOrigin()
	e.workers.Go("reading a transcript", func() {
		shown := transcript.Of(key, e.rules)
		if pinned {
			for record, err := range e.deps.Store.Records(e.workCtx, key, origin) {
				if err != nil {
					e.system.Root.Send(self, &cached{c: c, err: err})
					return
				}
				for _, event := range record.Events {
					shown.Pin(event)
				}
			}
		}
		for record, err := range e.deps.Store.Records(e.workCtx, key, conversation.Range{After: after}) {
			if err != nil {
				e.system.Root.Send(self, &cached{c: c, err: err})
				return
			}
			for _, event := range record.Events {
				if event.Seq > after { // a record may begin before
					shown.Add(event)
				}
			}
		}
		e.system.Root.Send(self, &cached{c: c, transcript: shown})
	}, func(err error) { e.system.Root.Send(self, &cached{c: c, err: err}) })
}

// cached takes the window into use. When the log cannot be read, the model
// cannot be asked: the attempt has failed, and the machine decides what follows.
func (s *session) cached(m *cached) {
	if s.phase == phaseUnloaded || s.cache != m.c {
		return
	}
	asks := m.c.asks
	if m.err != nil {
		s.e.log.Error("a transcript cannot be read", "session", s.key.Session, "tenant", s.key.Tenant, "err", m.err)
		s.cache = nil
		for _, ask := range asks {
			s.tellSelf(conversation.ModelFailed{
				Step: ask.Step, Attempt: ask.Attempt, Jitter: rand.Float64(),
				Failure: conversation.Failure{Code: conversation.Unavailable, Message: "the conversation could not be read"},
			})
		}
		return
	}
	m.c.transcript = m.transcript
	tail := m.c.tail
	m.c.tail, m.c.asks = nil, nil
	m.c.add(tail)
	for _, ask := range asks {
		if s.draining == drainNot && s.machine.Wants(ask) {
			s.startModel(ask)
		}
	}
}
