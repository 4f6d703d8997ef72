package due

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"parley/conversation"
)

// Options are what a Scanner works with. All fields are required.
type Options struct {
	Every    time.Duration // between two scans
	Parallel int           // sessions that load at once: commands of clients must not wait behind a backlog

	// List is what is due by then, the longest due first.
	List func(ctx context.Context, until time.Time) iter.Seq2[conversation.SessionKey, error]
	// Skip is true for a session that is not to be loaded: it is in memory, or not to be
	// touched.
	Skip func(conversation.SessionKey) bool
	// Elsewhere is true for a session that another node is to load. If a scan finds it
	// again that the one before has found, nobody does, and it is loaded here.
	Elsewhere func(conversation.SessionKey) bool
	// Load brings a session into memory and calls done once, from any goroutine: away says
	// that the store was not there for it. orphan: nobody else does.
	Load func(key conversation.SessionKey, orphan bool, done func(away bool))
	GoOn func() bool // false: nothing is loaded now

	Scanned func(outcome string)        // is told the end of each scan: "ok" or "failed"
	Guard   func(what string, f func()) // calls f and survives a panic of the store in it
	Log     *slog.Logger
}

// Scanner scans for due sessions. Run is called once.
type Scanner struct {
	o      Options
	soon   chan struct{}                    // a scan is wanted
	behind conversation.SessionKey          // where the last scan broke off
	others map[conversation.SessionKey]bool // due, and found elsewhere by the last scan
}

// New makes a Scanner.
func New(o Options) *Scanner { return &Scanner{o: o, soon: make(chan struct{}, 1)} }

// Run scans until ctx ends.
func (s *Scanner) Run(ctx context.Context) {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	for {
		s.o.Guard("the scan for due sessions", func() { s.behind = s.scan(ctx, s.behind) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.soon:
		}
	}
}

// In has the next scan begin after d at the latest.
func (s *Scanner) In(d time.Duration) { time.AfterFunc(d, s.Now) }

// Now has the next scan begin at once.
func (s *Scanner) Now() {
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// scan loads the sessions that have something to do, the longest due first. Running work
// may be stored until the hard disk watermark.
//
// When as many in a row cannot be loaded as may load at once, it breaks off: a store that
// is away is not asked for every session. It may be those sessions only, though, and for
// ever. So it returns the last one that failed, and the next scan begins behind that one.
// The zero key is the front.
func (s *Scanner) scan(ctx context.Context, behind conversation.SessionKey) (brokeOff conversation.SessionKey) {
	if !s.o.GoOn() {
		return behind
	}
	loading := make(chan struct{}, s.o.Parallel)
	n := 0
	others := map[conversation.SessionKey]bool{}
	defer func() { s.others = others }()
	var failed failedLoads
	outcome := "ok"
	// Sessions that become due before the next scan are loaded now: their own timers are exact.
	until := time.Now().Add(s.o.Every)
	list := func() iter.Seq2[conversation.SessionKey, error] { return s.o.List(ctx, until) }
	for key, err := range from(list, behind) {
		if err != nil {
			if ctx.Err() == nil {
				s.o.Log.Error("the scan for due sessions failed", "error", err)
				outcome = "failed"
			}
			break
		}
		if s.o.Skip(key) {
			continue
		}
		orphan := false
		if s.o.Elsewhere(key) {
			if orphan = s.others[key]; !orphan {
				others[key] = true
				continue
			}
		}
		select {
		case loading <- struct{}{}:
		case <-ctx.Done():
			return brokeOff
		}
		if !s.o.GoOn() {
			return brokeOff
		}
		if inARow, last := failed.now(); inARow >= s.o.Parallel {
			s.o.Log.Warn("of the sessions with open work so many in a row cannot be loaded; the next scan begins behind them", "sessions", inARow)
			outcome, brokeOff = "failed", last
			break
		}
		n++
		place := n
		s.o.Load(key, orphan, func(away bool) {
			failed.ended(place, key, away)
			<-loading
		})
	}
	s.o.Scanned(outcome)
	if n > 0 {
		s.o.Log.Info("sessions with open work were loaded", "sessions", n)
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

// from lists the sessions that are due by then, the longest due first, but begins
// behind one of them; those before it come at the end. If that one is not due any more,
// it begins at the front.
func from(list func() iter.Seq2[conversation.SessionKey, error], behind conversation.SessionKey) iter.Seq2[conversation.SessionKey, error] {
	if behind == (conversation.SessionKey{}) {
		return list()
	}
	return func(yield func(conversation.SessionKey, error) bool) {
		found := false
		for key, err := range list() {
			if (found || err != nil) && !yield(key, err) {
				return
			}
			found = found || key == behind
		}
		for key, err := range list() {
			if !yield(key, err) || found && key == behind {
				return
			}
		}
	}
}
