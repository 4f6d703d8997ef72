package delivery

import (
	"context"
	"sync"
	"time"

	"parley/conversation"
)

// RepeaterOptions holds the settings of a Repeater.
type RepeaterOptions struct {
	// Tell hands a command to a session and calls done exactly once, from any
	// goroutine, also before it returns.
	Tell func(key conversation.SessionKey, c conversation.Command, done func(error))
	// GoOn is asked before a command is repeated; false drops it.
	GoOn func() bool
	// Pace is waited for before each attempt.
	Pace *Pace
	// Parallel is how many commands are on their way at once.
	Parallel int
	// Pause is the first pause after a refusal, MaxPause the longest.
	Pause, MaxPause time.Duration
	// Limit is how many commands may wait.
	Limit int
}

// Repeater hands commands to sessions until each is taken or refused for good, for
// those who cannot wait themselves. Its methods may be called from any goroutine.
//
// A refusal has all of them wait: what has kept one session from being reached
// mostly keeps the others too. The pause grows until one gets through.
type Repeater struct {
	o       RepeaterOptions
	arrived chan struct{} // the queue is to be looked at again
	slots   chan struct{} // holds a token per command on its way

	mu       sync.Mutex
	queue    []repeated
	known    map[repeatedID]bool // in the queue or on its way
	pause    time.Duration       // 0: the last attempt got through
	earliest time.Time           // of the next attempt
}

// repeated is a command that is told until it is taken.
type repeated struct {
	id    repeatedID
	c     conversation.Command
	again bool // it was refused before
}

// repeatedID recognises a command that waits already. A wake-up has no name.
type repeatedID struct {
	key  conversation.SessionKey
	name string
}

// NewRepeater makes a repeater; Run does its work.
func NewRepeater(o RepeaterOptions) *Repeater {
	return &Repeater{
		o: o, arrived: make(chan struct{}, 1), slots: make(chan struct{}, o.Parallel), known: map[repeatedID]bool{},
	}
}

// Add has a command told to a session; a nil one only has it loaded. The same
// command to the same session waits once. False: too many wait, and it was
// dropped.
func (r *Repeater) Add(key conversation.SessionKey, c conversation.Command) bool {
	id := repeatedID{key: key}
	if c != nil {
		id.name = c.Name()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[id] {
		return true
	}
	if len(r.known) >= r.o.Limit {
		return false
	}
	r.known[id] = true
	r.put(repeated{id: id, c: c})
	return true
}

// put adds to the end of the queue. The caller holds mu.
func (r *Repeater) put(one repeated) {
	r.queue = append(r.queue, one)
	r.signal()
}

func (r *Repeater) signal() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// Run tells what was added, until ctx ends.
func (r *Repeater) Run(ctx context.Context) {
	for {
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		one, ok := r.next(ctx)
		if !ok || r.o.Pace.Wait(ctx) != nil {
			return
		}
		r.o.Tell(one.id.key, one.c, func(err error) { r.ended(one, err) })
	}
}

// next waits for a command that may be told now; false: ctx has ended.
func (r *Repeater) next(ctx context.Context) (repeated, bool) {
	for {
		r.mu.Lock()
		wait := time.Until(r.earliest)
		if len(r.queue) > 0 && wait <= 0 {
			one := r.queue[0]
			r.queue[0] = repeated{}
			if r.queue = r.queue[1:]; len(r.queue) == 0 {
				r.queue = nil
			}
			drop := one.again && !r.o.GoOn()
			if drop {
				delete(r.known, one.id)
			}
			r.mu.Unlock()
			if !drop {
				return one, true
			}
			continue
		}
		empty := len(r.queue) == 0
		r.mu.Unlock()
		var due <-chan time.Time
		if !empty {
			due = time.After(wait)
		}
		select {
		case <-r.arrived:
		case <-due:
		case <-ctx.Done():
			return repeated{}, false
		}
	}
}

// ended takes the answer to a command.
func (r *Repeater) ended(one repeated, err error) {
	defer func() { <-r.slots }()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !retryable(err) {
		r.pause, r.earliest = 0, time.Time{}
		delete(r.known, one.id)
		r.signal() // the others need not wait any longer
		return
	}
	// Those that were on their way together are one refusal.
	if now := time.Now(); !now.Before(r.earliest) {
		r.pause = min(max(2*r.pause, r.o.Pause), r.o.MaxPause)
		r.earliest = now.Add(r.pause)
	}
	one.again = true
	r.put(one)
}
