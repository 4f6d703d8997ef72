package actors

import (
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"parley/actors/internal/mail"
	"parley/actors/internal/refusal"
	"parley/actors/internal/sessionlog"
	"parley/actors/internal/unreadable"
	"parley/actors/internal/window"
	"parley/conversation"
	"parley/conversation/machine"
	"parley/conversation/policy"
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
		e.deps.Tracer.Find(key, func(root conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
			return e.Records(e.workCtx, root, r)
		})
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
	s.e.unreadable.Worked(s.key, unreadable.Load)
	s.epoch, s.wakeAt = m.Head.Epoch, m.Machine.Standing().WakeAt
	if passesBy(s, m.Head.Prior) {
		s.e.m.Activations.WithLabelValues("owned").Inc()
		s.unload("owned", s.e.unreachable(s.key))
		return
	}
	s.e.m.Activations.WithLabelValues("ok").Inc()
	s.machine = m.Machine
	s.standing = m.Machine.Standing()
	s.durable, s.snapshotAt = s.standing.Head, m.Head.SnapshotAt
	s.observer.Loaded(s.e.observe, s.key, s.machine, time.Now())
	if s.root() && s.machine.Exists() { // what the last activation stored may not have been told
		s.e.deps.Publisher.Audience(s.key, s.epoch, s.machine.Summary())
	}
	s.e.deps.Publisher.Stored(s.key, s.epoch, s.durable)
	s.published.Set(s.durable, s.epoch)
	s.offer.Tell(s.e.claims, s.key, s.standing.Claim)
	if m.Transcript != nil {
		s.cache = &window.Cache{Transcript: m.Transcript}
	}
	s.phase = phaseRecovering
	lost := conversation.Recovered{Jitter: rand.Float64(), Cause: causeOf(s, m.Head.Prior)}
	if s.machine.Exists() && s.draining == drainNot {
		s.decide(&envelope{cmd: lost})
	}
	if s.phase == phaseRecovering && s.inFlight == nil {
		s.recovered()
	}
}

// passesBy is true for a session that was given up here a moment ago: who has sent for it knew it
// as this node's then. Its owner takes it at once if it is not kept here first.
func passesBy(s *session, prior conversation.Prior) bool {
	return s.e.given.Loaded(s.key) && prior == conversation.PriorNone && s.root() && s.e.elsewhere(s.key) != nil
}

// recovered starts the outstanding effects and processes the held commands.
func (s *session) recovered() {
	s.phase = phaseReady
	s.acquireDurable()
	s.processQueue()
}

func (s *session) loadFailed(m *loaded) {
	if errors.Is(m.err, conversation.ErrNotFound) {
		s.e.unreadable.Gone(s.key)
		s.absent(m.create)
		return
	}
	if answer, ok := refusal.Owned(m.err); ok {
		s.e.m.Activations.WithLabelValues("owned").Inc()
		s.unload("owned", answer)
		return
	}
	s.e.m.Activations.WithLabelValues("failed").Inc()
	s.e.unread(s.key, unreadable.Load, m.err)
	s.unload("unloadable", refusal.Unread(m.err))
}

// absent answers the held commands of a session that does not exist, unless one of
// them opens it. A command that would be refused there makes no session.
func (s *session) absent(create bool) {
	for !create && len(s.queue) > 0 {
		refusal := opening(s.key, s.e.rules, s.queue)
		if refusal == nil {
			s.load(true)
			return
		}
		s.queue[0].answer(s.e, refusal)
		s.queue = s.queue[1:]
	}
	s.e.m.Activations.WithLabelValues("absent").Inc()
	s.unload("absent", refusal.NotFound())
}

// opening is nil if the first of the held commands opens the session where there is
// none, else what it is told then.
func opening(key conversation.SessionKey, rules *policy.Rules, held []*envelope) *conversation.Error {
	if len(held) == 0 || !held[0].class().Creates {
		return refusal.NotFound()
	}
	return machine.New(key, rules).Decide(conversation.Inputs{At: time.Now()}, held[0].cmd).Err
}
