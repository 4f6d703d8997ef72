package actors

import (
	"context"
	"errors"
	"time"

	"parley/actors/internal/mail"
	"parley/actors/internal/sessionlog"
	"parley/conversation"
	"parley/conversation/machine"
)

// loaded is a message: a session was read from the store, or could not be.
type loaded struct {
	mail.DeadLetterOK
	sessionlog.Loaded
	create bool
	err    error
}

// load takes the session from the store. Commands wait meanwhile.
func (s *session) load(create bool) {
	s.phase = phaseLoading
	e, key, self := s.e, s.key, s.self
	e.workers.Go("loading a session", func() {
		began := time.Now()
		m := &loaded{create: create}
		m.Loaded, m.err = e.sessions.Load(e.workCtx, key, create)
		e.m.Load.Observe(time.Since(began).Seconds())
		e.send(self, m)
	}, func(err error) { e.send(self, &loaded{err: err}) })
}

// loaded takes the session into use. First the machine decides what becomes of
// the work that was open; when that is durable, the held commands follow.
func (s *session) loaded(m *loaded) {
	if s.phase != phaseLoading {
		return
	}
	if m.err != nil {
		s.loadFailed(m)
		return
	}
	s.e.m.Activations.WithLabelValues("ok").Inc()
	s.machine, s.epoch = m.Machine, m.Head.Epoch
	s.standing = m.Machine.Standing()
	s.durable, s.snapshotAt = s.standing.Head, m.Head.SnapshotAt
	s.e.deps.Publisher.Stored(s.key, s.durable)
	s.published.Store(uint64(s.durable))
	if m.Transcript != nil {
		s.cache = &transcriptCache{transcript: m.Transcript}
	}
	s.phase = phaseRecovering
	if s.machine.Exists() && s.draining == drainNot {
		s.decide(&envelope{cmd: conversation.Recovered{}})
	}
	if s.phase == phaseRecovering && s.inFlight == nil {
		s.recovered()
	}
}

// recovered starts the outstanding effects and processes the held commands.
func (s *session) recovered() {
	s.phase = phaseReady
	s.acquireDurable()
	s.processQueue()
}

func (s *session) loadFailed(m *loaded) {
	if errors.Is(m.err, conversation.ErrNotFound) {
		s.absent(m.create)
		return
	}
	s.e.m.Activations.WithLabelValues("failed").Inc()
	answer := errUnreachable()
	answer.Err = m.err
	log := s.e.log.With("session", s.key.Session, "tenant", s.key.Tenant, "err", m.err)
	switch {
	case errors.Is(m.err, conversation.ErrTooNew):
		answer.Message = "this session was written by a newer version of the server, which must serve it"
		log.Error("the session was written by a newer version; this one leaves it alone")
	case errors.Is(m.err, conversation.ErrFull):
		answer = errFull()
		log.Error("the storage is full: a session cannot be loaded")
	case errors.Is(m.err, context.Canceled), errors.Is(m.err, conversation.ErrClosed):
		answer = errStopping()
	default:
		log.Error("a session cannot be loaded")
	}
	s.unload("unloadable", answer)
}

// absent answers the held commands of a session that does not exist, unless one of
// them opens it. A command that would be refused there makes no session.
func (s *session) absent(create bool) {
	for !create && len(s.queue) > 0 {
		t := s.queue[0]
		if t.class().Creates {
			trial := machine.New(s.key, s.e.rules).Decide(conversation.Inputs{At: time.Now()}, t.cmd)
			if trial.Err == nil {
				s.load(true)
				return
			}
			t.answer(s.e, trial.Err)
		} else {
			t.answer(s.e, errNotFound())
		}
		s.queue = s.queue[1:]
	}
	s.e.m.Activations.WithLabelValues("absent").Inc()
	s.unload("absent", errNotFound())
}
