package actors

import (
	"math/rand/v2"

	"parley/actors/internal/mail"
	"parley/actors/internal/window"
	"parley/conversation"
	"parley/conversation/transcript"
)

// transcriptRead is a message: a window was read from the log, or could not be.
type transcriptRead struct {
	mail.DeadLetterOK
	cache      *window.Cache
	transcript *transcript.Transcript
	err        error
}

// ask starts a model call as soon as the transcript is there.
func (s *session) ask(effect conversation.AskModel) {
	switch {
	case s.cache == nil:
		s.cache = &window.Cache{}
		s.cache.Wait(effect)
		s.readTranscript(s.cache)
	case s.cache.Transcript == nil:
		s.cache.Wait(effect)
	default:
		s.startModel(effect)
	}
}

// readTranscript fills the cache from the log.
func (s *session) readTranscript(c *window.Cache) {
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
		s.e.log.Error("a transcript cannot be read", "session", s.key.Session, "tenant", s.key.Tenant, "error", m.err)
		s.cache = nil
		for _, ask := range m.cache.Waiting() {
			s.tellSelf(conversation.ModelFailed{
				Step: ask.Step, Attempt: ask.Attempt, Jitter: rand.Float64(),
				Failure: conversation.Failure{Code: conversation.Unavailable, Message: "the conversation could not be read"},
			})
		}
		return
	}
	startModels(s, m.cache.Fill(m.transcript))
}

// startModels starts model calls that have waited. While the engine is suspended they wait on.
func startModels(s *session, asks []conversation.AskModel) {
	for _, ask := range asks {
		switch {
		case s.e.phase.Load() == phaseSuspended:
			s.cache.Wait(ask)
		case s.draining == drainNot:
			s.startModel(ask)
		}
	}
}
