package actors

import (
	"context"
	"errors"
	"time"

	"parley/actors/internal/refusal"
	"parley/conversation"
)

// Drain brings every session to rest and out of memory. From now on commands are
// refused (unavailable) and nothing new is started; open model and tool calls
// may go on for DrainTimeout, then they are stopped and their steps are parked:
// they begin again after the restart, and it does not count as a failed attempt.
// Drain returns when all is stored, or ctx's error when ctx ends before.
func (e *Engine) Drain(ctx context.Context) error {
	if e.phase.CompareAndSwap(phaseNew, phaseStopped) {
		return nil
	}
	if !e.phase.CompareAndSwap(phaseRunning, phaseDraining) && !e.phase.CompareAndSwap(phaseSuspended, phaseDraining) {
		return errors.New("actors: the engine does not run")
	}
	e.claims.Close()
	e.registry.StopLoading()
	e.log.Info("draining", "sessions", e.registry.Count(), "timeout", e.cfg.DrainTimeout)
	e.registry.SendAll(&drain{level: drainSoft})
	gone := make(chan struct{})
	go func() { e.living.Wait(); close(gone) }() // Run's end is the latest end of it
	patience := time.NewTimer(e.cfg.DrainTimeout)
	defer patience.Stop()
	for {
		select {
		case <-gone:
			e.log.Info("drained")
			return nil
		case <-patience.C:
			e.registry.SendAll(&drain{level: drainHard})
		case <-ctx.Done():
			e.log.Error("the drain was not done in time", "sessions", e.registry.Count())
			return ctx.Err()
		}
	}
}

// drain prepares the session for the end of the node, or for another owner: then its running
// work has DrainTimeout from the first such message on.
func (s *session) drain(m *drain) {
	level := m.level
	switch {
	case s.phase == phaseUnloaded:
		return
	case !m.handOver:
	case s.draining == drainNot:
		level, s.handOver = drainSoft, time.Now()
	case s.handOver.IsZero() || time.Since(s.handOver) < s.e.cfg.DrainTimeout:
		return
	default:
		level = drainHard
	}
	if s.draining >= level {
		return
	}
	s.draining = level
	if !m.handOver {
		s.handOver = time.Time{}
	}
	if level == drainHard {
		s.calls.StopAll(s.ctx)
		if s.phase == phaseLoading { // it has nothing that could be lost
			s.unload("drained", errDraining(s))
			return
		}
	}
	s.slot.Withdraw(s.e.slots)
}

// errDraining refuses a command of a session that is about to leave.
func errDraining(s *session) *conversation.Error {
	if !s.handOver.IsZero() {
		return s.e.unreachable(s.key)
	}
	return refusal.Stopping()
}

// continueDrain goes on with the drain: when nothing runs any more, the open step is
// parked, and when that is durable the session leaves.
func (s *session) continueDrain() {
	if s.checking != nil || len(s.queue) > 0 {
		return
	}
	if s.draining == drainSoft && (s.model != nil || s.stopping != nil || s.calls.RunsTools()) {
		return
	}
	if !s.parked {
		s.parked = true
		open := s.standing.Busy
		stopped := s.model != nil
		s.decide(&envelope{cmd: conversation.Drain{}})
		outcome := "idle"
		switch {
		case stopped:
			outcome = "stopped"
		case open:
			outcome = "parked"
		}
		s.e.m.Drains.WithLabelValues(outcome).Inc()
	}
	if s.phase != phaseReady || s.inFlight != nil || s.pending != nil || s.unloadReason != "" {
		return
	}
	if s.cursors != nil {
		s.storeCursors()
		return
	}
	s.passivate("drained")
}
