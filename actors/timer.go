package actors

import (
	"time"

	"parley/conversation"
)

// tickAgain is how soon a Tick is repeated that changed nothing although one
// was due.
const tickAgain = time.Second

// noopTick is a Tick that changed nothing although something was due.
type noopTick struct{ due, retry time.Time }

// arm sets the session's one timer to the next thing that time brings: a Tick,
// stored read cursors, a model that is too slow, dropped caches, the end of its
// time in memory. A timer that fires too early is harmless, so it is not moved for things that come
// later; each one has a number, so that a late one is recognised.
func (s *session) arm() {
	next := s.lastActive.Add(s.idleTimeout())
	if s.cache != nil {
		next = earlier(next, s.lastActive.Add(s.e.cfg.CacheIdle))
	}
	if s.seen != nil {
		next = earlier(next, s.seenAt)
	}
	if s.model != nil {
		next = earlier(next, s.model.Due())
	}
	if at := s.machine.NextTick(); !at.IsZero() {
		if s.noopTick != nil && at.Equal(s.noopTick.due) {
			at = later(at, s.noopTick.retry)
		}
		next = earlier(next, at)
	}
	if s.timer != nil && !s.timerAt.IsZero() && !next.Before(s.timerAt) {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timerGen++
	s.timerAt = next
	n, root, self := s.timerGen, s.e.system.Root, s.self
	s.timer = time.AfterFunc(time.Until(next), func() { root.Send(self, &timeout{gen: n}) })
}

func earlier(a, b time.Time) time.Time {
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
	if m.gen != s.timerGen {
		return
	}
	s.timerAt = time.Time{}
	if s.phase != phaseReady {
		return // armed again when it is
	}
	now := time.Now()
	if s.model != nil {
		s.model.EndIfOverdue(now)
	}
	if s.seen != nil && !s.seenAt.After(now) {
		s.storeSeen()
	}
	if at := s.machine.NextTick(); !at.IsZero() && !at.After(now) && (s.noopTick == nil || !at.Equal(s.noopTick.due) || !s.noopTick.retry.After(now)) {
		head := s.machine.Head()
		if s.checking == nil {
			s.decide(&envelope{cmd: conversation.Tick{}})
		}
		if s.noopTick = nil; s.machine.Head() == head {
			s.noopTick = &noopTick{due: at, retry: now.Add(tickAgain)}
		}
	}
	switch quiet := now.Sub(s.lastActive); {
	case quiet < min(s.e.cfg.CacheIdle, s.idleTimeout()):
	case !s.isIdle():
		s.lastActive = now
	case quiet >= s.idleTimeout():
		s.passivate("idle")
	default:
		s.cache = nil
		s.observer.Forget()
	}
}

// idleTimeout is how long the session remains in memory without work. A delegation that
// has reported its end is needed no more.
func (s *session) idleTimeout() time.Duration {
	if !s.root() && s.machine.NextDue().IsZero() {
		return s.e.cfg.CacheIdle
	}
	return s.e.cfg.Idle + s.jitter
}

// isIdle is true when nothing would be lost or stopped by leaving memory.
func (s *session) isIdle() bool {
	return s.inFlight == nil && s.pending == nil && len(s.queue) == 0 && s.checking == nil && s.seen == nil &&
		s.model == nil && s.compaction == nil && s.triaging == nil && s.calls.Empty() && !s.slot.Waiting() && !s.machine.Busy()
}

// passivate leaves memory, with a snapshot first if that saves the next load
// enough work.
func (s *session) passivate(reason string) {
	if int(s.durable-s.snapshotAt) >= s.e.cfg.SnapshotOnIdle {
		s.unloadReason = reason
		s.batch().snapshot = true
		s.flush()
		return
	}
	s.unload(reason, errUnreachable())
}
