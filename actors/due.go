package actors

import (
	"context"
	"iter"
	"sync"
	"time"

	"parley/actors/internal/unreadable"
	"parley/conversation"
)

// dueLoop looks for sessions with work to do: at the start, every so often, and
// when a session says so.
func (e *Engine) dueLoop(ctx context.Context) {
	tick := time.NewTicker(e.cfg.DueEvery)
	defer tick.Stop()
	var behind conversation.SessionKey // where the last scan broke off
	for {
		e.guarded("the scan for due sessions", func() { behind = e.scanDue(ctx, behind) })
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
//
// When as many in a row cannot be loaded, it breaks off: a store that is away is not
// asked for every session. It may be those sessions only, though, and for ever. So it
// returns the last one that failed, and the next scan begins behind that one. The zero
// key is the front.
func (e *Engine) scanDue(ctx context.Context, behind conversation.SessionKey) (brokeOff conversation.SessionKey) {
	if e.phase.Load() != phaseRunning || e.deps.Store.Room(true) != nil {
		return behind
	}
	loading := make(chan struct{}, e.cfg.DueParallel)
	n := 0
	var failed failedLoads
	outcome := "ok"
	// Sessions that become due before the next scan are loaded now: their own timers are exact.
	for key, err := range dueFrom(ctx, e.deps.Store, time.Now().Add(e.cfg.DueEvery), e.cfg.Member, behind) {
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
			return brokeOff
		}
		if e.phase.Load() != phaseRunning {
			return brokeOff
		}
		if inARow, last := failed.now(); inARow >= e.cfg.DueParallel {
			e.log.Warn("of the sessions with open work so many in a row cannot be loaded; the next scan begins behind them", "sessions", inARow)
			outcome, brokeOff = "failed", last
			break
		}
		n++
		place := n
		e.m.DueFound.Inc()
		e.tellInner(key, nil, func(_ conversation.Receipt, err error) {
			refusal := conversation.AsError(err)
			failed.ended(place, key, refusal != nil && refusal.Retryable() && !unreadable.Cause(err))
			<-loading
		})
	}
	e.unreadable.Report()
	e.m.DueScans.WithLabelValues(outcome).Inc()
	if n > 0 {
		e.log.Info("sessions with open work were loaded", "sessions", n)
	}
	return brokeOff
}

// failedLoads are the loads of one scan for which the store was not there.
type failedLoads struct {
	mu     sync.Mutex
	inARow int
	place  int                     // of the last one in the list of what is due
	last   conversation.SessionKey // it keeps its place there: one that was loaded does not
}

// ended counts the end of a load.
func (f *failedLoads) ended(place int, key conversation.SessionKey, failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !failed {
		f.inARow = 0
		return
	}
	f.inARow++
	if place > f.place {
		f.place, f.last = place, key
	}
}

func (f *failedLoads) now() (inARow int, last conversation.SessionKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inARow, f.last
}

// dueFrom lists the sessions that are due by then, the longest due first, but begins
// behind one of them; those before it come at the end. If that one is not due any more,
// it begins at the front.
func dueFrom(ctx context.Context, store conversation.Store, until time.Time, of conversation.Member, behind conversation.SessionKey) iter.Seq2[conversation.SessionKey, error] {
	if behind == (conversation.SessionKey{}) {
		return store.Due(ctx, until, of)
	}
	return func(yield func(conversation.SessionKey, error) bool) {
		found := false
		for key, err := range store.Due(ctx, until, of) {
			if (found || err != nil) && !yield(key, err) {
				return
			}
			found = found || key == behind
		}
		for key, err := range store.Due(ctx, until, of) {
			if !yield(key, err) || found && key == behind {
				return
			}
		}
	}
}
