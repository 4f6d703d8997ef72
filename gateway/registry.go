package gateway

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// registry knows every open socket and stream, because fasthttp forgets a
// connection once it is upgraded: it neither counts, limits nor closes it.
type registry struct {
	mu     sync.Mutex
	open   map[departing]struct{}
	closed bool          // nobody is let in any more
	empty  chan struct{} // closed when closed and nothing is open
}

// departing is what can be asked to leave.
type departing interface {
	goaway(code int, reason string, retryIn time.Duration)
	depart()    // closes after what is queued
	forceDown() // closes at once
}

func newRegistry() *registry {
	return &registry{open: make(map[departing]struct{}), empty: make(chan struct{})}
}

// add lets somebody in; false while the server drains.
func (r *registry) add(d departing) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[d] = struct{}{}
	return !r.closed
}

func (r *registry) remove(d departing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, d)
	r.check()
}

func (r *registry) check() {
	if r.closed && len(r.open) == 0 {
		select {
		case <-r.empty:
		default:
			close(r.empty)
		}
	}
}

func (r *registry) all() []departing {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]departing, 0, len(r.open))
	for d := range r.open {
		all = append(all, d)
	}
	return all
}

// shut lets nobody in any more.
func (r *registry) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.check()
}

// announce tells everybody that the server goes away, each with another time to
// come back at.
func (r *registry) announce(spread time.Duration) {
	for _, d := range r.all() {
		d.goaway(closeRestart, "the server is going away", jitter(spread))
	}
}

func jitter(spread time.Duration) time.Duration {
	if spread <= 0 {
		return 0
	}
	return rand.N(spread)
}

// What closes at once comes back at once, so sockets are closed a batch at a time.
const (
	departBatch = 256
	departPause = 10 * time.Millisecond
)

// clear closes everybody and waits until they are gone or ctx ends; then it
// closes the rest by force.
func (r *registry) clear(ctx context.Context) error {
	for i, d := range r.all() {
		if i > 0 && i%departBatch == 0 {
			select {
			case <-time.After(departPause):
			case <-ctx.Done():
			}
		}
		d.depart()
	}
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
	}
	for _, d := range r.all() {
		d.forceDown()
	}
	select {
	case <-r.empty:
		return nil
	case <-time.After(5 * time.Second):
		return ctx.Err()
	}
}

func (c *conn) goaway(code int, reason string, retryIn time.Duration) {
	c.out.answer(func(b []byte) []byte { return appendGoaway(b, code, reason, retryIn) })
}

func (c *conn) depart() { c.closeWith(closeRestart, "the server is going away") }

func (c *conn) forceDown() { _ = c.net.Close() }
