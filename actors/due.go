package actors

import (
	"context"
	"sync/atomic"
	"time"

	"parley/actors/internal/unreadable"
	"parley/conversation"
)

// dueLoop looks for sessions with work to do: at the start, every so often, and
// when a session says so.
func (e *Engine) dueLoop(ctx context.Context) {
	tick := time.NewTicker(e.cfg.DueEvery)
	defer tick.Stop()
	for {
		e.guarded("the scan for due sessions", func() { e.scanDue(ctx) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-e.scanSoon:
		}
	}
}

// scanIn has the next scan begin after d at the latest.
func (e *Engine) scanIn(d time.Duration) {
	time.AfterFunc(d, func() {
		select {
		case e.scanSoon <- struct{}{}:
		default:
		}
	})
}

// scanDue loads the sessions that have something to do, the longest due first.
// Config.DueParallel of them load at once: commands of clients must not wait
// behind a backlog. Running work may be stored until the hard disk watermark.
func (e *Engine) scanDue(ctx context.Context) {
	if e.phase.Load() != phaseRunning || e.deps.Store.Room(true) != nil {
		return
	}
	loading := make(chan struct{}, e.cfg.DueParallel)
	n := 0
	var lost atomic.Int64 // loads in a row for which the store was not there
	outcome := "ok"
	// Sessions that become due before the next scan are loaded now: their own timers are exact.
	for key, err := range e.deps.Store.Due(ctx, time.Now().Add(e.cfg.DueEvery)) {
		if err != nil {
			if ctx.Err() == nil {
				e.log.Error("the scan for due sessions failed", "err", err)
				outcome = "failed"
			}
			break
		}
		if e.registry.Actor(key) != nil || e.unreadable.LeaveAlone(key) {
			continue
		}
		select {
		case loading <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if e.phase.Load() != phaseRunning {
			return
		}
		if lost.Load() >= int64(e.cfg.DueParallel) {
			e.log.Warn("the store serves no session; those with open work are loaded with a later scan")
			outcome = "failed"
			break
		}
		n++
		e.m.DueFound.Inc()
		e.tellInner(key, nil, func(_ conversation.Receipt, err error) {
			if refusal := conversation.AsError(err); refusal != nil && refusal.Retryable() && !unreadable.Cause(err) {
				lost.Add(1)
			} else {
				lost.Store(0)
			}
			<-loading
		})
	}
	e.unreadable.Report()
	e.m.DueScans.WithLabelValues(outcome).Inc()
	if n > 0 {
		e.log.Info("sessions with open work were loaded", "sessions", n)
	}
}
