package actors

import (
	"context"
	"errors"
	"time"

	"parley/actors/internal/mail"
	"parley/conversation"
	"parley/conversation/machine"
	"parley/conversation/transcript"
)

// loaded is a session as it was read from the store.
type loaded struct {
	mail.DeadLetterOK
	head       conversation.Head
	machine    *machine.Session
	transcript *transcript.Transcript // nil when only the end of the log was read
	create     bool
	err        error
}

// load takes the session from the store. Commands wait meanwhile.
func (s *session) load(create bool) {
	s.phase = phaseLoading
	e, key, self := s.e, s.key, s.self
	e.workers.Go("loading a session", func() {
		began := time.Now()
		m := e.read(e.workCtx, key, create)
		e.m.Load.Observe(time.Since(began).Seconds())
		e.system.Root.Send(self, m)
	}, func(err error) { e.system.Root.Send(self, &loaded{err: err}) })
}

// read acquires a session and rebuilds its machine.
func (e *Engine) read(ctx context.Context, key conversation.SessionKey, create bool) *loaded {
	head, err := e.deps.Store.Acquire(ctx, key, conversation.AcquireHow{Create: create})
	if err != nil {
		return &loaded{create: create, err: err}
	}
	m := &loaded{create: create, head: head}
	m.machine, m.transcript, m.err = e.fold(ctx, key, &m.head)
	return m
}

// fold rebuilds a machine from a snapshot and the log behind it. A snapshot that
// is of no use costs time, not the session: it is taken out of head. The
// transcript comes along only when the whole log was read and is short enough to
// be kept.
func (e *Engine) fold(ctx context.Context, key conversation.SessionKey, head *conversation.Head) (*machine.Session, *transcript.Transcript, error) {
	session := machine.New(key, e.rules)
	if head.Snapshot != nil {
		restored, err := machine.Restore(key, e.rules, head.Snapshot)
		switch {
		case err != nil:
			e.log.Warn("a snapshot cannot be used; reading the whole log", "session", key.Session, "tenant", key.Tenant, "err", err)
		case restored.Head() <= head.Last:
			session = restored
		}
		if session.Head() == 0 {
			head.Snapshot, head.SnapshotAt = nil, 0
		}
	}
	var shown *transcript.Transcript
	if session.Head() == 0 && head.Last <= conversation.TranscriptWindow {
		shown = transcript.Of(key, e.rules)
	}
	for record, err := range e.deps.Store.Records(ctx, key, conversation.Range{After: session.Head()}) {
		if err != nil {
			return nil, nil, err
		}
		for _, event := range record.Events {
			if event.Seq <= session.Head() {
				continue
			}
			if err := session.Apply(event); err != nil {
				return nil, nil, err
			}
			if shown != nil {
				shown.Add(event)
			}
		}
	}
	return session, shown, nil
}

// loaded takes the session into use: first it decides what becomes of what was
// open, and only when that is durable do others have their say.
func (s *session) loaded(m *loaded) {
	if s.phase != phaseLoading {
		return
	}
	if m.err != nil {
		s.loadFailed(m)
		return
	}
	s.e.m.Activations.WithLabelValues("ok").Inc()
	s.machine, s.epoch = m.machine, m.head.Epoch
	s.durable, s.snapshotAt = m.machine.Head(), m.head.SnapshotAt
	s.e.deps.Publisher.Stored(s.key, s.durable)
	s.published.Store(uint64(s.durable))
	if m.transcript != nil {
		s.cache = &cache{transcript: m.transcript}
	}
	s.phase = phaseRecovering
	if s.machine.Exists() && s.draining == drainNot {
		s.decide(&envelope{cmd: conversation.Recovered{}})
	}
	if s.phase == phaseRecovering && s.inFlight == nil {
		s.recovered()
	}
}

// recovered starts what is outstanding, and lets in those who waited.
func (s *session) recovered() {
	s.phase = phaseReady
	if s.draining == drainNot {
		for _, effect := range s.machine.Outstanding(time.Now()) {
			s.acquire(effect)
		}
	}
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

// absent answers for a session that does not exist, unless somebody waits who
// wants to open it. A command that would be refused there makes no session.
func (s *session) absent(create bool) {
	for !create && len(s.queue) > 0 {
		t := s.queue[0]
		if creates(t.cmd) {
			trial := machine.New(s.key, s.e.rules).Decide(conversation.Given{At: time.Now()}, t.cmd)
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

// event reads one stored event.
func (e *Engine) event(key conversation.SessionKey, seq conversation.Seq) (conversation.Event, error) {
	if seq == 0 {
		return conversation.Event{}, conversation.ErrNotFound
	}
	for record, err := range e.deps.Store.Records(e.workCtx, key, conversation.Range{After: seq - 1, Before: seq + 1, Limit: 1}) {
		if err != nil {
			return conversation.Event{}, err
		}
		for _, event := range record.Events {
			if event.Seq == seq {
				return event, nil
			}
		}
	}
	return conversation.Event{}, conversation.ErrNotFound
}
