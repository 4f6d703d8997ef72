package actors

import (
	"math/rand/v2"
	"slices"

	"parley/actors/internal/mail"
	"parley/conversation"
	"parley/conversation/transcript"
)

// transcriptCache is the window of the log that models are shown. It is dropped
// when the session idles, and read again from the log when a model is asked.
type transcriptCache struct {
	transcript *transcript.Transcript  // nil while it is being read
	tail       []conversation.Event    // became durable meanwhile
	waiting    []conversation.AskModel // model calls that start when it was read
}

// transcriptRead is a message: a window was read from the log, or could not be.
type transcriptRead struct {
	mail.DeadLetterOK
	cache      *transcriptCache
	transcript *transcript.Transcript
	err        error
}

// add takes events that have become durable.
func (c *transcriptCache) add(events []conversation.Event) {
	if c.transcript == nil {
		c.tail = append(c.tail, events...)
		return
	}
	for _, e := range events {
		c.transcript.Add(e)
	}
}

// wait has a model call wait for the transcript.
func (c *transcriptCache) wait(ask conversation.AskModel) { c.waiting = append(c.waiting, ask) }

// forget drops the model call of a step that waits: it is stopped.
func (c *transcriptCache) forget(step conversation.StepNumber) {
	if c != nil {
		c.waiting = slices.DeleteFunc(c.waiting, func(ask conversation.AskModel) bool { return ask.Step == step })
	}
}

// fill takes the transcript that was read, and gives back what waits for it.
func (c *transcriptCache) fill(shown *transcript.Transcript) []conversation.AskModel {
	waiting, tail := c.waiting, c.tail
	c.transcript, c.waiting, c.tail = shown, nil, nil
	c.add(tail)
	return waiting
}

// ask starts a model call as soon as the transcript is there.
func (s *session) ask(effect conversation.AskModel) {
	switch {
	case s.cache == nil:
		s.cache = &transcriptCache{}
		s.cache.wait(effect)
		s.readTranscript(s.cache)
	case s.cache.transcript == nil:
		s.cache.wait(effect)
	default:
		s.startModel(effect)
	}
}

// readTranscript fills the cache from the log.
func (s *session) readTranscript(c *transcriptCache) {
	e, key, self := s.e, s.key, s.self
	ranges := s.machine.TranscriptRanges()
	e.workers.Go("reading a transcript", func() {
		shown, err := e.sessions.Transcript(e.workCtx, key, ranges)
		e.send(self, &transcriptRead{cache: c, transcript: shown, err: err})
	}, func(err error) { e.send(self, &transcriptRead{cache: c, err: err}) })
}

// transcriptRead takes the window into use. When the log cannot be read, the model
// cannot be asked: the attempt has failed, and the machine decides what follows.
func (s *session) transcriptRead(m *transcriptRead) {
	if s.phase == phaseUnloaded || s.cache != m.cache {
		return
	}
	if m.err != nil {
		s.e.log.Error("a transcript cannot be read", "session", s.key.Session, "tenant", s.key.Tenant, "err", m.err)
		s.cache = nil
		for _, ask := range m.cache.waiting {
			s.tellSelf(conversation.ModelFailed{
				Step: ask.Step, Attempt: ask.Attempt, Jitter: rand.Float64(),
				Failure: conversation.Failure{Code: conversation.Unavailable, Message: "the conversation could not be read"},
			})
		}
		return
	}
	for _, ask := range m.cache.fill(m.transcript) {
		if s.draining == drainNot {
			s.startModel(ask)
		}
	}
}
