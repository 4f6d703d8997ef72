package actors

import (
	"context"
	"iter"
	"time"

	"parley/actors/internal/due"
	"parley/actors/internal/refusal"
	"parley/actors/internal/unreadable"
	"parley/conversation"
)

// scanner brings sessions with work to do into memory.
func (e *Engine) scanner() *due.Scanner {
	return due.New(due.Options{
		Every: e.cfg.DueEvery, Parallel: e.cfg.DueParallel, Guard: e.guarded, Log: e.log,
		List: func(ctx context.Context, until time.Time) iter.Seq2[conversation.SessionKey, error] {
			return e.deps.Store.Due(ctx, until, e.cfg.Member)
		},
		Skip: func(key conversation.SessionKey) bool {
			return e.registry.Actor(key) != nil || e.unreadable.LeaveAlone(key)
		},
		Elsewhere: func(key conversation.SessionKey) bool { return e.elsewhere(key) != nil },
		Load: func(key conversation.SessionKey, orphan bool, done func(bool)) {
			e.m.DueFound.Inc()
			e.m.Waiting.Inc()
			e.dispatch(key, &envelope{at: time.Now(), owned: orphan, done: func(_ conversation.Receipt, err error) {
				e := conversation.AsError(err)
				done(e != nil && e.Retryable() && !unreadable.Cause(err) && !refusal.IsElsewhere(err))
			}})
		},
		GoOn: func() bool { return e.phase.Load() == phaseRunning && e.deps.Store.Room(true) == nil },
		Scanned: func(outcome string) {
			e.unreadable.Report()
			e.m.DueScans.WithLabelValues(outcome).Inc()
		},
	})
}
