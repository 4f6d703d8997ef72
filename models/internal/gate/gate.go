package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Pulse is the time between two signs of life.
const Pulse = 10 * time.Second

// ErrStopped says that the caller has stopped reading: alive returned false.
var ErrStopped = errors.New("the caller has stopped reading")

// Wait waits until turn yields a value or is closed. Every pulse it calls alive,
// and ends with ErrStopped if that returns false. When ctx ends, it ends with its
// error.
func Wait[T any](ctx context.Context, pulse time.Duration, turn <-chan T, alive func() bool) error {
	select {
	case <-turn:
		return nil
	default:
	}
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	for {
		select {
		case <-turn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-beat.C:
			if !alive() {
				return ErrStopped
			}
		}
	}
}

// Gate lets a fixed number of callers in at once, first come, first served. It
// may be used by any number of goroutines.
type Gate struct {
	slots int
	mu    sync.Mutex
	free  int
	queue []*ticket
}

// New makes a gate with so many slots, at least 1.
func New(slots int) *Gate { return &Gate{slots: slots, free: slots} }

// Taken returns how many slots are taken.
func (g *Gate) Taken() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.slots - g.free
}

// Enter takes a slot, which Leave gives back; waited is true if none was free at
// once. pulse, alive and errors are those of Wait; after an error no slot is held.
func (g *Gate) Enter(ctx context.Context, pulse time.Duration, alive func() bool) (waited bool, err error) {
	t := g.ask()
	waited = !t.granted()
	if err := Wait(ctx, pulse, t.turn, alive); err != nil {
		g.giveUp(t)
		return waited, err
	}
	return waited, nil
}

// Leave gives a slot back, once for each Enter without an error.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass()
}

// ticket is a place in the queue.
type ticket struct{ turn chan struct{} } // closed when its owner has a slot

func (t *ticket) granted() bool {
	select {
	case <-t.turn:
		return true
	default:
		return false
	}
}

func (g *Gate) ask() *ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &ticket{turn: make(chan struct{})}
	if g.free > 0 {
		g.free--
		close(t.turn)
	} else {
		g.queue = append(g.queue, t)
	}
	return t
}

// giveUp takes a ticket back. If its owner has got a slot meanwhile, the next one
// gets that.
func (g *Gate) giveUp(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, t); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
		return
	}
	g.pass()
}

// pass hands a slot to the first in the queue, or keeps it. mu is held.
func (g *Gate) pass() {
	if len(g.queue) == 0 {
		g.free++
		return
	}
	next := g.queue[0]
	g.queue = slices.Delete(g.queue, 0, 1)
	close(next.turn)
}
