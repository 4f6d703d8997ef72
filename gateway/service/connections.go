package service

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"parley/gateway/protocol"
)

// Connections knows every open socket and stream, because fasthttp forgets a
// connection once it is upgraded: it neither counts, limits nor closes it.
type Connections struct {
	mu     sync.Mutex
	open   map[Connection]struct{}
	away   atomic.Bool   // the server drains: announce was called
	closed bool          // nobody is let in any more
	empty  chan struct{} // closed when closed and nothing is open
}

// Connection is what can be asked to leave.
type Connection interface {
	GoAway(code int, reason string, retryIn time.Duration)
	Leave() // closes after what is queued
	Kill()  // closes at once
}

// NewConnections counts none yet and lets everybody in.
func NewConnections() *Connections {
	return &Connections{open: make(map[Connection]struct{}), empty: make(chan struct{})}
}

// Add lets somebody in; false while the server drains.
func (r *Connections) Add(d Connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[d] = struct{}{}
	return !r.closed
}

func (r *Connections) Remove(d Connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, d)
	r.check()
}

func (r *Connections) check() {
	if r.closed && len(r.open) == 0 {
		select {
		case <-r.empty:
		default:
			close(r.empty)
		}
	}
}

func (r *Connections) all() []Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Connection, 0, len(r.open))
	for d := range r.open {
		all = append(all, d)
	}
	return all
}

// Shut lets nobody in any more.
func (r *Connections) Shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.check()
}

// Announce tells everybody that the server goes away, each with another time to
// come back at.
func (r *Connections) Announce(spread time.Duration) {
	if !r.away.CompareAndSwap(false, true) {
		return
	}
	for _, d := range r.all() {
		d.GoAway(protocol.CloseRestart, "the server is going away", jitter(spread))
	}
}

// Draining is true once announce was called.
func (r *Connections) Draining() bool { return r.away.Load() }

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

// Clear closes everybody and waits until they are gone or ctx ends; then it
// closes the rest by force.
func (r *Connections) Clear(ctx context.Context) error {
	for i, d := range r.all() {
		if i > 0 && i%departBatch == 0 {
			select {
			case <-time.After(departPause):
			case <-ctx.Done():
			}
		}
		d.Leave()
	}
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
	}
	for _, d := range r.all() {
		d.Kill()
	}
	select {
	case <-r.empty:
		return nil
	case <-time.After(5 * time.Second):
		return ctx.Err()
	}
}
