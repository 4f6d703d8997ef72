package actors

import (
	"time"

	"parley/conversation"
)

// tickAgain is how soon a Tick is repeated that changed nothing although one
// was due.
const tickAgain = time.Second

// futile is a Tick that changed nothing although something was due.
type futile struct{ due, retry time.Time }

// arm sets the session's one timer to the next thing that time brings: a Tick,
// stored read cursors, a model that is too slow, dropped caches, the end of its
// stay in memory. A timer
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
	if s.model != nil {
		next = sooner(next, s.model.due())
	}
	if at := s.machine.NextTick(); !at.IsZero() {
		if s.futile != nil && at.Equal(s.futile.due) {
			at = later(at, s.futile.retry)
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
	if s.model != nil {
		s.model.overdue(now)
	}
	if s.seen != nil && !s.seenAt.After(now) {
		s.storeSeen()
	}
	if at := s.machine.NextTick(); !at.IsZero() && !at.After(now) && (s.futile == nil || !at.Equal(s.futile.due) || !s.futile.retry.After(now)) {
		head := s.machine.Head()
		if s.lookup == nil {
			s.decide(&told{cmd: conversation.Tick{}})
		}
		if s.futile = nil; s.machine.Head() == head {
			s.futile = &futile{due: at, retry: now.Add(tickAgain)}
		}
	}
	switch quiet := now.Sub(s.active); {
	case quiet < min(s.e.cfg.CacheIdle, s.stay()):
	case !s.idle():
		s.active = now
	case quiet >= s.stay():
		s.passivate("idle")
	default:
		s.cache = nil
		if s.tally != nil && len(s.tally.asked) == 0 {
			s.tally = nil
		}
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
		s.model == nil && s.summary == nil && s.triaging == nil && len(s.calls) == 0 && s.want == nil && !s.machine.Busy()
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
