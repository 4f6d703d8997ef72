package actors

import (
	"time"

	"parley/actors/internal/alarm"
	"parley/actors/internal/refusal"
	"parley/conversation"
)

// tickAgain is the pause before a Tick is repeated that changed nothing although
// one was due.
const tickAgain = time.Second

// noopTick is a Tick that changed nothing although something was due.
type noopTick struct{ due, retry time.Time }

// arm sets the alarm to the next thing that time brings: a Tick, stored read
// cursors, a model that is too slow, dropped caches, the end of the session's time
// in memory.
func (s *session) arm() {
	next := s.lastActive.Add(s.idleTimeout())
	if s.cache != nil {
		next = alarm.Earlier(next, s.lastActive.Add(s.e.cfg.CacheIdle))
	}
	if s.cursors != nil {
		next = alarm.Earlier(next, s.cursors.due)
	}
	if s.model != nil {
		next = alarm.Earlier(next, s.model.Due())
	}
	if at := s.standing.NextTick; !at.IsZero() {
		if s.noopTick != nil && at.Equal(s.noopTick.due) {
			at = alarm.Later(at, s.noopTick.retry)
		}
		next = alarm.Earlier(next, at)
	}
	s.alarm.Set(next, s.e.system.Root, s.self)
}

// timedOut does what has become due.
func (s *session) timedOut(m *alarm.Timeout) {
	if !s.alarm.Rings(m) || s.phase != phaseReady { // it is set again when the session is ready
		return
	}
	now := time.Now()
	if s.model != nil {
		s.model.EndIfOverdue(now)
	}
	if s.cursors != nil && !s.cursors.due.After(now) {
		s.storeCursors()
	}
	if at := s.standing.NextTick; !at.IsZero() && !at.After(now) && (s.noopTick == nil || !at.Equal(s.noopTick.due) || !s.noopTick.retry.After(now)) {
		head := s.standing.Head
		if s.checking == nil {
			s.decide(&envelope{cmd: conversation.Tick{}})
		}
		if s.noopTick = nil; s.standing.Head == head {
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

// idleTimeout is the time that the session remains in memory without work. A delegation that
// has reported its end is needed no more.
func (s *session) idleTimeout() time.Duration {
	if !s.root() && s.standing.WakeAt.IsZero() {
		return s.e.cfg.CacheIdle
	}
	return s.e.cfg.Idle + s.jitter
}

// isIdle is true when unloading would lose and stop nothing.
func (s *session) isIdle() bool {
	return s.inFlight == nil && s.pending == nil && len(s.queue) == 0 && s.checking == nil && s.cursors == nil &&
		s.model == nil && s.compaction == nil && s.triaging == nil && s.calls.Empty() && !s.slot.Waiting() && !s.standing.Busy
}

// passivate unloads an idle session, after a snapshot if that saves the next load
// enough work.
func (s *session) passivate(reason string) {
	if int(s.durable-s.snapshotAt) >= s.e.cfg.SnapshotOnIdle {
		s.unloadReason = reason
		s.batch().snapshot = true
		s.flush()
		return
	}
	s.unload(reason, refusal.Unreachable())
}
