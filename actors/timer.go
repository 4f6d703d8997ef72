package actors

import (
	"time"

	"parley/conversation"
)

// tickAgain is how soon a Tick is repeated that changed nothing although one
// was due.
const tickAgain = time.Second

// arm sets the session's one timer to the next thing that time brings: a Tick,
// stored read cursors, dropped caches, the end of its stay in memory. A timer
// that fires too early is harmless, so it is not moved for things that come
// later; each one has a number, so that a late one is recognised.
func (s *session) arm() {
	next := s.active.Add(s.stay())
	if s.cache != nil {
		next = sooner(next, s.active.Add(s.e.cfg.CacheIdle))
	}
	if s.seen != nil {
		next = sooner(next, s.seenAt)
	}
	if at := s.machine.NextTick(); !at.IsZero() {
		if s.ticking && at.Equal(s.tickedAt) {
			at = later(at, s.retryAt)
		}
		next = sooner(next, at)
	}
	if s.timer != nil && !s.timerAt.IsZero() && !next.Before(s.timerAt) {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timerN++
	s.timerAt = next
	n, root, self := s.timerN, s.e.system.Root, s.self
	s.timer = time.AfterFunc(time.Until(next), func() { root.Send(self, &timeout{n: n}) })
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// timedOut does what has become due.
func (s *session) timedOut(m *timeout) {
	if m.n != s.timerN {
		return
	}
	s.timerAt = time.Time{}
	if s.phase != phaseReady {
		return // armed again when it is
	}
	now := time.Now()
	if s.seen != nil && !s.seenAt.After(now) {
		s.storeSeen()
	}
	if at := s.machine.NextTick(); !at.IsZero() && !at.After(now) && (!s.ticking || !at.Equal(s.tickedAt) || !s.retryAt.After(now)) {
		head := s.machine.Head()
		if s.lookup == nil {
			s.decide(&told{cmd: conversation.Tick{}})
		}
		s.ticking = s.machine.Head() == head
		s.tickedAt, s.retryAt = at, now.Add(tickAgain)
	}
	switch quiet := now.Sub(s.active); {
	case quiet < min(s.e.cfg.CacheIdle, s.stay()):
	case !s.idle():
		s.active = now
	case quiet >= s.stay():
		s.passivate("idle")
	default:
		s.cache = nil
	}
}

// stay is how long the session remains in memory without work. A delegation that
// has reported its end is needed no more.
func (s *session) stay() time.Duration {
	if !s.root() && s.machine.NextDue().IsZero() {
		return s.e.cfg.CacheIdle
	}
	return s.e.cfg.Idle + s.jitter
}

// idle is true when nothing would be lost or stopped by leaving memory.
func (s *session) idle() bool {
	return s.flight == nil && s.pending == nil && len(s.queue) == 0 && s.lookup == nil && s.seen == nil &&
		s.model == nil && s.summary == nil && len(s.calls) == 0 && s.want == nil && !s.machine.Busy()
}

// passivate leaves memory, with a snapshot first if that saves the next load
// enough work.
func (s *session) passivate(reason string) {
	if int(s.durable-s.snapped) >= s.e.cfg.SnapshotOnIdle {
		s.leaving = reason
		s.batch().snapshot = true
		s.flush()
		return
	}
	s.leave(reason, errUnreachable())
}
