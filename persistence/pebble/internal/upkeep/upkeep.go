package upkeep

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
)

// Needs is what the upkeep of a store works with.
type Needs struct {
	Store *pebble.DB
	Views *sync.RWMutex // held for reading while a snapshot of Store is open
	Full  func() bool   // nothing can be written now
	Log   *slog.Logger

	// Pause is the least time between the beginnings of two clearings; 0 = 50 s,
	// which is less than a minute by the time of a clearing.
	Pause time.Duration

	// Hold runs a function while nobody makes or writes a session.
	Hold func(key conversation.SessionKey, f func() error) error

	// Keep is how long tombstones are kept; 0 = for ever.
	Keep time.Duration

	Cleared func(error) // called after each clearing; nil = nobody wants to know
}

// Upkeep is the upkeep of one store.
type Upkeep struct {
	Needs

	clear   func(context.Context) error                      // Clear
	compact func(ctx context.Context, from, to []byte) error // Store's
	stored  func(from, to []byte) (bytes uint64, err error)  // about: Store's
	erased  chan struct{}                                    // holds one: there may be something to clear
	ranges  atomic.Int64                                     // written since the last flush because of them
	cancel  context.CancelFunc
	done    chan struct{}
}

const (
	defaultPause = 50 * time.Second

	// gather is how long a clearing waits for more erasures to come.
	gather = 2 * time.Second
)

// Start begins. The first thing is a clearing: the process before may have ended
// between an erasure and its clearing.
func Start(n Needs) *Upkeep {
	u := &Upkeep{Needs: n}
	u.clear = u.Clear
	u.compact = func(ctx context.Context, from, to []byte) error { return u.Store.Compact(ctx, from, to, false) }
	u.stored = u.Store.EstimateDiskUsage
	u.start()
	return u
}

func (u *Upkeep) start() {
	if u.Pause <= 0 {
		u.Pause = defaultPause
	}
	ctx, cancel := context.WithCancel(context.Background())
	u.erased, u.done, u.cancel = make(chan struct{}, 1), make(chan struct{}), cancel
	u.Wake()
	go func() {
		defer close(u.done)
		u.run(ctx)
	}()
}

// Wake says that there is something to clear.
func (u *Upkeep) Wake() {
	select {
	case u.erased <- struct{}{}:
	default: // it is known already
	}
}

// mostRanges is how many range tombstones a memory table may get before it is flushed:
// what they cost a read stays below some microseconds.
const mostRanges = 64

// Ranges says that so many range tombstones were written.
func (u *Upkeep) Ranges(n int) {
	if n == 0 || u.ranges.Add(int64(n)) < mostRanges || u.Full() {
		return
	}
	u.ranges.Store(0)
	if _, err := u.Store.AsyncFlush(); err != nil {
		u.Log.Warn("a memory table with many range tombstones was not flushed: reads are slower", "error", err)
	}
}

// Close returns when nothing runs any more.
func (u *Upkeep) Close() {
	u.cancel()
	<-u.done
}

func (u *Upkeep) run(ctx context.Context) {
	start := time.Now()
	hourly := time.NewTicker(collectEvery)
	defer hourly.Stop()
	var began time.Time // of the last clearing
	for {
		select {
		case <-ctx.Done():
			return
		case <-hourly.C:
			u.collectOnce(ctx, time.Since(start))
		case <-u.erased:
			wait := min(gather, u.Pause)
			if !began.IsZero() {
				wait = max(wait, u.Pause-time.Since(began))
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			select {
			case <-u.erased: // what was erased up to here is in this one
			default:
			}
			began = time.Now()
			u.clearOnce(ctx)
		}
	}
}

func (u *Upkeep) collectOnce(ctx context.Context, running time.Duration) {
	n, err := u.collect(ctx, time.Now(), running)
	switch {
	case err != nil:
		u.Log.Warn("old tombstones were not dropped", "error", err)
	case n > 0:
		u.Log.Info("old tombstones were dropped: their sessions' ids are free again", "count", n)
	}
}

func (u *Upkeep) clearOnce(ctx context.Context) {
	err := u.clear(ctx)
	if err != nil && ctx.Err() == nil {
		u.Log.Warn("erased text stays on the disk for now", "error", err)
		u.Wake()
	}
	if u.Cleared != nil {
		u.Cleared(err)
	}
}
