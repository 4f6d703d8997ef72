package feed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/conversation/option"
	"parley/metrics"
)

// Polling says how feeds are read. The tags are those of package conversation/option.
type Polling struct {
	Poll time.Duration `key:"chats.poll" min:"10ms" max:"1m"` // how long what another node has added to a feed may stay unseen
}

// DefaultPolling is that of a configuration that says nothing.
func DefaultPolling() Polling { return Polling{Poll: 500 * time.Millisecond} }

// Validate says what cannot work, by the keys of the configuration.
func (p Polling) Validate() []option.FieldError { return option.OutOfBounds(p) }

// Feeds reads feeds for all who watch them on this node. Its methods may be called from any
// goroutine.
type Feeds struct {
	store   chats.Store
	poll    time.Duration
	log     *slog.Logger
	metrics *metrics.Feeds
	ctx     context.Context // ends with Close
	end     context.CancelFunc
	pollers sync.WaitGroup

	mu      sync.Mutex
	watched map[conversation.TenantID]*watched
}

// watched is a feed that somebody watches.
type watched struct {
	tenant conversation.TenantID
	nudge  chan struct{} // capacity 1: look now
	stop   context.CancelFunc

	// guarded by Feeds.mu

	last    chats.Number // the newest entry that is known
	watches map[*Watch]struct{}
}

// New reads feeds from a store. log may be nil.
func New(store chats.Store, p Polling, m *metrics.Feeds, log *slog.Logger) *Feeds {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &Feeds{store: store, poll: p.Poll, log: log, metrics: m, watched: map[conversation.TenantID]*watched{}}
	if f.poll <= 0 {
		f.poll = DefaultPolling().Poll
	}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f
}

// Close ends every watch and waits until nothing of the room runs. Idempotent.
func (f *Feeds) Close() {
	f.mu.Lock()
	f.end() // under the lock: Open starts no poller behind it
	f.mu.Unlock()
	f.pollers.Wait()
}

// Changed says that something was added to a tenant's feed. Whoever watches it here is shown
// it at once.
func (f *Feeds) Changed(tenant conversation.TenantID) {
	f.mu.Lock()
	of := f.watched[tenant]
	f.mu.Unlock()
	if of != nil {
		wake(of.nudge)
	}
}

// Store is the store that the feeds are read from, for those who write to it on this node:
// what they save is seen at once.
func (f *Feeds) Store() chats.Store { return telling{f.store, f} }

// telling is a store whose saves are told to those who watch.
type telling struct {
	chats.Store
	feeds *Feeds
}

// Save implements chats.Store.
func (t telling) Save(ctx context.Context, tenant conversation.TenantID, rows []chats.Row, entries []chats.Entry) error {
	err := t.Store.Save(ctx, tenant, rows, entries)
	if len(entries) > 0 {
		t.feeds.Changed(tenant) // also after an error: it may have been saved
	}
	return err
}

// Entries lists at most limit entries behind a number.
func (f *Feeds) Entries(ctx context.Context, tenant conversation.TenantID, after chats.Number, limit int) ([]chats.Entry, error) {
	return f.store.Entries(ctx, tenant, after, limit)
}

// Position says where a watch begins.
type Position struct {
	Head    chats.Number // the newest entry that there is; 0 = none
	First   chats.Number // the first one that is shown, if it was not erased
	Resumed bool         // it goes on exactly where the last one has ended
	Reason  string       // why not, although that was wanted: "trimmed", "ahead"
}

// begin says where to begin behind a number in a feed; nil = behind all that there is.
func begin(of chats.Feed, after *chats.Number) Position {
	p := Position{Head: of.Last, First: of.Last + 1}
	switch {
	case after == nil:
	case *after > of.Last: // the store is another one, or an older copy of it
		p.Reason = "ahead"
	case *after+1 < of.First:
		p.First, p.Reason = of.First, "trimmed"
	default:
		p.First, p.Resumed = *after+1, true
	}
	return p
}

// Open begins a watch of a tenant's feed behind the entry after; nil = with what comes from
// now on. Behind an entry that is not kept any more it begins with the first that is, behind
// one that never was with what comes. It fails with an error of the store.
func (f *Feeds) Open(ctx context.Context, tenant conversation.TenantID, after *chats.Number) (*Watch, Position, error) {
	feed, err := f.store.Feed(ctx, tenant)
	if err != nil {
		return nil, Position{}, err
	}
	p := begin(feed, after)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return nil, Position{}, ErrEnded
	}
	of := f.watched[tenant]
	if of == nil {
		of = &watched{tenant: tenant, nudge: make(chan struct{}, 1), last: feed.Last, watches: map[*Watch]struct{}{}}
		ctx, stop := context.WithCancel(f.ctx)
		of.stop = stop
		f.watched[tenant] = of
		f.pollers.Go(func() { f.run(ctx, of) })
	}
	w := &Watch{feeds: f, of: of, at: p.First - 1, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	of.watches[w] = struct{}{}
	f.metrics.Watches.Inc()
	of.known(feed.Last)
	return w, p, nil
}

// known says that there are entries up to last. The caller holds Feeds.mu.
func (of *watched) known(last chats.Number) {
	of.last = max(of.last, last)
	for w := range of.watches {
		wake(w.wake)
	}
}

// run looks for new entries until nobody watches.
func (f *Feeds) run(ctx context.Context, of *watched) {
	tick := time.NewTicker(f.poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-of.nudge:
		}
		if err := f.look(ctx, of); err != nil && ctx.Err() == nil {
			f.metrics.Errors.Inc()
			f.log.Debug("a feed could not be read; trying again", "tenant", string(of.tenant), "error", err)
		}
	}
}

// look reads what is new, a page of it at most, for all who have come so far. Who has not,
// or has more than a page to read, does it alone.
func (f *Feeds) look(ctx context.Context, of *watched) error {
	feed, err := f.store.Feed(ctx, of.tenant)
	if err != nil {
		return err
	}
	f.mu.Lock()
	from := of.last
	f.mu.Unlock()
	if feed.Last <= from {
		return nil
	}
	page, err := f.store.Entries(ctx, of.tenant, from, pageEntries)
	if err != nil {
		return err
	}
	to := through(page, feed.Last)
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range of.watches {
		if w.at == from && !w.reading {
			w.page, w.handed = page, to
		}
	}
	of.known(max(feed.Last, to))
	f.metrics.Read.WithLabelValues("shared").Add(float64(len(page)))
	return nil
}

// through is how far a page of a feed reaches whose newest entry is last.
func through(page []chats.Entry, last chats.Number) chats.Number {
	if len(page) == 0 {
		return last
	}
	newest := page[len(page)-1].Number
	if len(page) < pageEntries {
		return max(newest, last) // what is behind it was erased
	}
	return newest
}

// wake says that there is something to do, to who may be busy.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
