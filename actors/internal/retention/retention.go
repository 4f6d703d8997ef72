package retention

import (
	"context"
	"iter"
	"log/slog"
	"math"
	"time"

	"parley/conversation"
	"parley/metrics"
)

const (
	trustAfter = 24 * time.Hour // a clock that was steady for so long is taken for right
	tolerance  = time.Minute    // how far the clocks may drift apart in one pause
	fewEnough  = 10             // as many are always erased at once
	oneOf      = 10             // more than one of so many are not
	pageSize   = 256
)

// Options holds what a Sweeper works with. All fields are required.
type Options struct {
	Age   time.Duration // sessions that were not used for longer are erased
	Every time.Duration // the pause between two sweeps

	Sessions func(context.Context, conversation.Page) iter.Seq2[conversation.Summary, error]
	Summary  func(context.Context, conversation.SessionKey) (conversation.Summary, error)
	// Erase erases a session if may still agrees when nothing can change any more.
	Erase func(ctx context.Context, key conversation.SessionKey, may func(conversation.Summary) bool) error
	GoOn  func() bool      // false: nothing more is erased
	Wall  func() time.Time // the clock that activity is stamped by
	Sweep func(outcome string)
	Guard func(what string, f func()) // calls f and survives a panic of the store in it
	Log   *slog.Logger
}

// Counted is the Sweep of metrics.
func Counted(m *metrics.Actors) func(outcome string) {
	return func(outcome string) { m.Sweeps.WithLabelValues(outcome).Inc() }
}

// Sweeper erases old sessions. Run is called once.
type Sweeper struct {
	o Options

	clock  clock
	start  time.Time // what the store says is the time of the start; zero = not known yet
	putOff bool      // the last sweep would have erased too many
}

// New makes a sweeper.
func New(o Options) *Sweeper { return &Sweeper{o: o} }

// clock compares the clock on the wall with the one that only counts on.
type clock struct {
	began  time.Time // when the store was asked how late it is; by the process's own clock, like the next two
	steady time.Time // since when the wall's clock has not jumped
	seen   time.Time // the last look
	wall   time.Time // what the wall's clock said then
}

// look compares; false: the wall's clock has jumped since the last look.
func (c *clock) look(wall time.Time) bool {
	now := time.Now()
	apart := wall.Round(0).Sub(c.wall) - now.Sub(c.seen)
	c.seen, c.wall = now, wall.Round(0) // without the process's own clock
	if apart.Abs() > tolerance {
		c.steady = now
		return false
	}
	return true
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	now := time.Now()
	s.clock = clock{began: now, steady: now, seen: now, wall: s.o.Wall().Round(0)}
	s.o.Guard("reading the newest session", func() { s.readStart(ctx) })
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.o.Guard("the sweep for old sessions", func() {
				if outcome := s.sweep(ctx); ctx.Err() == nil {
					s.o.Sweep(outcome)
				}
			})
		}
	}
}

// readStart asks the store how late it was at the start. A new store does not know,
// and has nothing that could be old.
func (s *Sweeper) readStart(ctx context.Context) {
	newest, found, err := s.newest(ctx)
	switch {
	case err != nil:
		s.failed(ctx, err)
		return
	case found:
		s.start = newest
	default:
		s.start = s.clock.wall
	}
	s.clock.began = time.Now()
}

// newest finds the last activity of all sessions, of all tenants: the list goes
// the other way, so this asks whether there is one behind a time.
func (s *Sweeper) newest(ctx context.Context) (at time.Time, found bool, err error) {
	behind := func(ms int64) (found bool, err error) {
		from := conversation.Summary{Activity: time.UnixMilli(ms)}
		for _, err = range s.o.Sessions(ctx, conversation.Page{Oldest: true, Cursor: from.PageCursor(), Limit: 1}) {
			found = err == nil
		}
		return found, err
	}
	low, high := int64(0), int64(math.MaxInt64>>16) // the year 6429
	if found, err = behind(low); !found || err != nil {
		return time.Time{}, false, err
	}
	for high-low > 1 { // there is one behind low and none behind high
		middle := low + (high-low)/2
		found, err := behind(middle)
		switch {
		case err != nil:
			return time.Time{}, false, err
		case found:
			low = middle
		default:
			high = middle
		}
	}
	return time.UnixMilli(high), true, nil
}

// limit is the time before which a session must have been used to be old.
func (s *Sweeper) limit() time.Time {
	now := s.clock.wall
	if own := s.start.Add(s.clock.seen.Sub(s.clock.began)); own.Before(now) && s.clock.seen.Sub(s.clock.steady) < trustAfter {
		now = own
	}
	return now.Add(-s.o.Age)
}

// sweep erases idle sessions, oldest first. One with open work is never erased.
func (s *Sweeper) sweep(ctx context.Context) (outcome string) {
	confirmed := s.putOff
	s.putOff = false
	if !s.clock.look(s.o.Wall()) {
		s.o.Log.Warn("the clock has been set; no session is erased for its age before the next sweep", "next_in", s.o.Every.String())
		return "clock_moved"
	}
	if s.start.IsZero() {
		if s.readStart(ctx); s.start.IsZero() {
			return "failed"
		}
	}
	limit := s.limit()
	old, all, err := s.count(ctx, limit)
	if err != nil {
		return s.failed(ctx, err)
	}
	if old > fewEnough && old*oneOf > all {
		log := s.o.Log.With("to_erase", old, "of", all, "unused_since", limit.UTC().Format(time.RFC3339))
		if !confirmed {
			s.putOff = true
			log.Warn("many sessions are older than retention.max_age; they are erased with the next sweep, unless the clock is set before", "next_in", s.o.Every.String())
			return "put_off"
		}
		log.Warn("many sessions are older than retention.max_age and the clock was steady: they are erased")
	}
	if old == 0 {
		return "ok"
	}
	return s.erase(ctx, limit)
}

func (s *Sweeper) failed(ctx context.Context, err error) string {
	if ctx.Err() == nil {
		s.o.Log.Error("the sweep for old sessions failed", "error", err)
	}
	return "failed"
}

func isOld(limit time.Time) func(conversation.Summary) bool {
	return func(s conversation.Summary) bool { return s.Open == 0 && s.Activity.Before(limit) }
}

// count says how many sessions are old, and of how many; it goes no further than
// it must to know whether these are too many.
func (s *Sweeper) count(ctx context.Context, limit time.Time) (old, all int, err error) {
	for summary, err := range s.o.Sessions(ctx, conversation.Page{Oldest: true}) {
		if err != nil {
			return 0, 0, err
		}
		all++
		switch {
		case isOld(limit)(summary):
			old++
		case summary.Activity.Before(limit): // it works
		case old <= fewEnough, old*oneOf <= all:
			return old, all, nil
		}
	}
	return old, all, nil
}

// erase erases what is old, page by page.
func (s *Sweeper) erase(ctx context.Context, limit time.Time) (outcome string) {
	may, cursor := isOld(limit), ""
	for {
		var page []conversation.Summary
		for summary, err := range s.o.Sessions(ctx, conversation.Page{Oldest: true, Cursor: cursor, Limit: pageSize}) {
			if err != nil {
				return s.failed(ctx, err)
			}
			page = append(page, summary)
		}
		for _, summary := range page {
			if !summary.Activity.Before(limit) {
				return "ok"
			}
			if !s.o.GoOn() {
				return "stopped"
			}
			// It may have been used since the list was read, and may be until it is blocked.
			now, err := s.o.Summary(ctx, summary.Key)
			if err != nil || !may(now) {
				continue
			}
			if err := s.o.Erase(ctx, summary.Key, may); err != nil && ctx.Err() == nil {
				s.o.Log.Warn("an old session was not erased", "session", summary.Key.Session, "tenant", summary.Key.Tenant, "error", err)
			}
		}
		if len(page) < pageSize {
			return "ok"
		}
		if !s.clock.look(s.o.Wall()) {
			return "stopped"
		}
		cursor = page[len(page)-1].PageCursor()
	}
}
