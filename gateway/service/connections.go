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
	mu       sync.Mutex
	open     map[Connection]struct{}
	draining atomic.Bool   // Announce was called
	closed   bool          // no connection is let in any more
	empty    chan struct{} // closed when closed and nothing is open
}

// Connection is an open socket or stream.
type Connection interface {
	// GoAway tells the client to come back after retryIn.
	GoAway(code int, reason string, retryIn time.Duration)
	Close()      // closes after what is queued
	ForceClose() // closes at once
}

// NewConnections makes an empty register.
func NewConnections() *Connections {
	return &Connections{open: make(map[Connection]struct{}), empty: make(chan struct{})}
}

// Add registers a connection; false = the server drains, and it must be closed.
func (r *Connections) Add(d Connection) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[d] = struct{}{}
	return !r.closed
}

// Remove forgets a connection that has ended.
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

// RefuseNew refuses all new connections from now on.
func (r *Connections) RefuseNew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.check()
}

// Announce tells all clients that the server goes away, each with another time to
// come back at. Only the first call counts.
func (r *Connections) Announce(spread time.Duration) {
	if !r.draining.CompareAndSwap(false, true) {
		return
	}
	for _, d := range r.all() {
		d.GoAway(protocol.CloseRestart, "the server is going away", jitter(spread))
	}
}

// Draining is true once announce was called.
func (r *Connections) Draining() bool { return r.draining.Load() }

func jitter(spread time.Duration) time.Duration {
	if spread <= 0 {
		return 0
	}
	return rand.N(spread)
}

// Clients that are closed at once come back at once, so sockets are closed a batch at a time.
const (
	closeBatch = 256
	closePause = 10 * time.Millisecond
)

// CloseAll closes all connections and waits until they have ended or ctx ends; then
// it closes the others by force and gives them the time rest.
func (r *Connections) CloseAll(ctx context.Context, rest time.Duration) error {
	for i, d := range r.all() {
		if i > 0 && i%closeBatch == 0 {
			select {
			case <-time.After(closePause):
			case <-ctx.Done():
			}
		}
		d.Close()
	}
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
	}
	for _, d := range r.all() {
		go d.ForceClose() // under TLS it may wait for a moment
	}
	select {
	case <-r.empty:
		return nil
	case <-time.After(rest):
		return ctx.Err()
	}
}
