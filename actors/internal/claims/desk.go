package claims

import (
	"context"
	"iter"
	"sync"
	"time"

	"parley/conversation"
	"parley/metrics"
)

// Options are what a Desk needs of the engine.
type Options struct {
	// List is what the store has of a tenant, the oldest first.
	List func(ctx context.Context, tenant conversation.TenantID) iter.Seq2[conversation.ClaimableAt, error]
	// Tell tells a session of this node a command. done is called exactly once, after
	// everything that the session has said before was given to Set; it does not block.
	Tell func(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error))
	// HandOut is Tell for a session of any node; nil = there are no others.
	HandOut func(key conversation.SessionKey, c conversation.HandOut, done func(conversation.Receipt, error))
	// Event reads an event of a session.
	Event func(ctx context.Context, key conversation.SessionKey, seq conversation.Seq) (conversation.Event, error)
	// Told is told what the sessions of this node say to the desk, for those of other nodes,
	// where runtimes wait as well. It must not block; nil = there are none.
	Told    func(key conversation.SessionKey, c *conversation.Claimable)
	Metrics *metrics.Actors
}

// Desk is where outside runtimes get their work. Its methods may be called from any
// goroutine.
type Desk struct {
	o     Options
	ctx   context.Context // ends when the desk is closed
	close context.CancelFunc

	mu      sync.Mutex
	shelves map[conversation.TenantID]*shelf
	turns   uint64 // numbers waiting claims
}

// What a Desk does not forget, and what it tries again.
const (
	keepShelf = 10 * time.Minute // a tenant's list stays in memory so long after its last claim
	tryAgain  = time.Second      // a session that could not be reached is asked again after this
	lookAgain = 5 * time.Second  // where claims find nothing, a desk that is not alone reads the list again after this
)

// New is a Desk without any list.
func New(o Options) *Desk {
	if o.HandOut == nil {
		o.HandOut = func(key conversation.SessionKey, c conversation.HandOut, done func(conversation.Receipt, error)) {
			o.Tell(key, "", c, done)
		}
	}
	d := &Desk{o: o, shelves: map[conversation.TenantID]*shelf{}}
	d.ctx, d.close = context.WithCancel(context.Background())
	return d
}

// Close answers the claims that wait: there is nothing for them. Later ones get
// nothing either.
func (d *Desk) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.close()
	for tenant, s := range d.shelves {
		s.stop()
		delete(d.shelves, tenant)
	}
}

// Set takes what may be claimed in a session from now on; nil = nothing. It is called
// when that is durable, in the order of the session's commits.
func (d *Desk) Set(key conversation.SessionKey, c *conversation.Claimable) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.shelves[key.Tenant]
	switch {
	case s == nil: // the first claim will find it in the store
	case s.reading != nil:
		s.news[key.Session] = c
	case s.unused(time.Now()):
		s.stop()
		delete(d.shelves, key.Tenant)
	default:
		if s.said != nil {
			s.said[key.Session] = true
		}
		d.set(s, key, c)
	}
}

func (d *Desk) set(s *shelf, key conversation.SessionKey, c *conversation.Claimable) {
	e := s.entries[key.Session]
	if e == nil {
		if c == nil {
			return
		}
		e = &entry{key: key, places: [2]int{-1, -1}}
		s.entries[key.Session] = e
	}
	s.takeOff(e)
	e.changed, e.gone = true, c == nil
	if c != nil {
		e.Claimable = *c
	}
	if !e.asked {
		d.put(s, e)
	}
}

// put puts an entry where it belongs; a claim that waits for it gets it.
func (d *Desk) put(s *shelf, e *entry) {
	switch wait := time.Until(e.From); {
	case e.gone:
		delete(s.entries, e.key.Session)
	case e.Runtime != "":
		s.handed(e)
	case wait > 0:
		e.round++
		round := e.round
		e.timer = time.AfterFunc(wait, func() { d.due(s, e, round) })
	default:
		if w := s.firstWaiting(e.Agent); w != nil {
			e.asked, e.changed = true, false
			s.leave(w)
			w.got <- e
			return
		}
		s.free(e)
	}
}

// due puts an entry on the shelf whose time has come, if its timer was not replaced
// in the same moment.
func (d *Desk) due(s *shelf, e *entry, round int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.timer != nil && e.round == round && s.entries[e.key.Session] == e && !e.asked {
		e.timer, e.From = nil, time.Time{}
		d.put(s, e)
	}
}

// Claim hands out what waits, at most r.Limit messages: first what this runtime was
// handed and gave no sign of, then the oldest of its agent. If nothing waits, it waits
// for the first one, for r.Wait. An error says that nothing is known: the list cannot
// be read, or ctx has ended.
func (d *Desk) Claim(ctx context.Context, r conversation.ClaimRequest) ([]conversation.HandedOut, error) {
	begun := time.Now()
	over := time.NewTimer(r.Wait)
	defer over.Stop()
	for first := true; ; first = false {
		s, err := d.shelf(ctx, r.Tenant)
		if s == nil || err != nil {
			return nil, err
		}
		taken, w := d.take(s, r, first)
		if w != nil {
			e, err := d.wait(ctx, s, w, over.C)
			if e == nil {
				return nil, err
			}
			taken = append(taken, e)
		}
		if given := d.handOut(s, r.Runtime, taken); len(given) > 0 {
			d.o.Metrics.ClaimWait.Observe(time.Since(begun).Seconds())
			return d.read(ctx, given)
		}
	}
}

// take takes entries off the shelf, or lets the claim wait for one.
func (d *Desk) take(s *shelf, r conversation.ClaimRequest, first bool) ([]*entry, *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.used = time.Now()
	taken := s.take(r, first)
	if len(taken) > 0 {
		return taken, nil
	}
	d.turns++
	w := &waiter{agent: r.Agent, turn: d.turns, got: make(chan *entry, 1)}
	s.wait(w)
	d.readAgain(r.Tenant, s)
	return nil, w
}

// wait waits for an entry. Without one the claim is over: err then says whether the
// client has gone.
func (d *Desk) wait(ctx context.Context, s *shelf, w *waiter, over <-chan time.Time) (e *entry, err error) {
	d.o.Metrics.ClaimsWaiting.Inc()
	defer d.o.Metrics.ClaimsWaiting.Dec()
	select {
	case e = <-w.got:
		return e, nil
	case <-over:
	case <-d.ctx.Done():
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.leave(w)
	select {
	case e = <-w.got: // in the same moment
		if err == nil {
			return e, nil
		}
		d.back(s, e, true)
	default:
	}
	return nil, err
}

// handOut tells the sessions of the entries to hand their messages out, all at once,
// and waits for their answers.
func (d *Desk) handOut(s *shelf, runtime conversation.RuntimeName, taken []*entry) (out []given) {
	type answer struct {
		i       int
		receipt conversation.Receipt
		err     error
	}
	answers := make(chan answer, len(taken))
	for i, e := range taken {
		d.o.HandOut(e.key, conversation.HandOut{Runtime: runtime}, func(r conversation.Receipt, err error) {
			answers <- answer{i, r, err}
		})
	}
	receipts := make([]*conversation.Receipt, len(taken))
	for range taken {
		a := <-answers
		if a.err == nil {
			receipts[a.i] = &a.receipt
		}
		d.mu.Lock()
		if a.err == nil {
			taken[a.i].changed = true // a repeated hand-out stores nothing, and what waits is as it was
		}
		refusal := conversation.AsError(a.err)
		d.back(s, taken[a.i], refusal != nil && refusal.Retryable())
		d.mu.Unlock()
	}
	for i, e := range taken { // in their order
		if receipts[i] != nil {
			out = append(out, given{e.key, *receipts[i]})
		}
	}
	return out
}

// back takes an entry back whose session was asked. What the session has said
// meanwhile counts; else the entry was out of date, or is tried again.
func (d *Desk) back(s *shelf, e *entry, again bool) {
	e.asked = false
	if s.entries[e.key.Session] != e {
		return // the shelf was put away
	}
	if !e.changed {
		e.gone = !again
		e.From = time.Now().Add(tryAgain)
	}
	e.changed = false
	d.put(s, e)
}

// shelf is the tenant's, read from the store if it is not in memory; nil when the
// desk is closed.
func (d *Desk) shelf(ctx context.Context, tenant conversation.TenantID) (*shelf, error) {
	for {
		d.mu.Lock()
		if d.ctx.Err() != nil {
			d.mu.Unlock()
			return nil, nil
		}
		s := d.shelves[tenant]
		if s == nil {
			s = newShelf()
			d.shelves[tenant] = s
			d.mu.Unlock()
			return s, d.fill(ctx, tenant, s)
		}
		reading := s.reading
		d.mu.Unlock()
		if reading == nil {
			return s, nil
		}
		select {
		case <-reading: // by another claim: it is read now, or that has failed and this one tries
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fill reads a shelf from the store.
func (d *Desk) fill(ctx context.Context, tenant conversation.TenantID, s *shelf) (err error) {
	var found []conversation.ClaimableAt
	for c, failed := range d.o.List(ctx, tenant) {
		if err = failed; err != nil {
			break
		}
		found = append(found, c)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	news := s.news
	close(s.reading)
	s.reading, s.news = nil, nil
	if d.shelves[tenant] != s {
		return err // the desk was closed
	}
	if err != nil {
		delete(d.shelves, tenant)
		return err
	}
	s.used = time.Now()
	for _, c := range found {
		if _, newer := news[c.Key.Session]; !newer {
			d.set(s, c.Key, &c.Claimable)
		}
	}
	for session, c := range news {
		d.set(s, conversation.SessionKey{Tenant: tenant, Session: session}, c)
	}
	return nil
}
