package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation/member"
)

// ErrFrozen says that the process did not run for longer than its lease: others have
// taken its sessions, and it must end.
var ErrFrozen = errors.New("this node did not run for longer than its lease")

// What a loop does how often, in parts of a lease.
const (
	renewals   = 5                     // the lease is renewed so often in its time
	looks      = 50                    // the clock is looked at so often
	afterDeath = 5 * time.Millisecond  // the list is read so long after a member's death
	minLook    = 20 * time.Millisecond // and not more often than so
	outOfReach = 2                     // renewals in a row that fail: nobody answers
	firstPause = 100 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Options are what a Loop works with. All of them are needed.
type Options struct {
	Table member.Table
	Lease time.Duration
	Info  func() member.Info // what the node says of itself now
	// Changed is told the list after each renewal; it must not block.
	Changed func(member.List)
	// Lost is told when the lease is over by this process's clock, Held when it is renewed
	// after that. They are called one after the other, and must not block.
	Lost, Held func()
	Renewed    func(ok bool) // told of each attempt
	Log        *slog.Logger
	Clock      Clock
}

// Clock is how a Loop reads the time: the process's own clock, which no one sets, and the
// one on the wall, which goes on while the machine sleeps.
type Clock func() (own, wall time.Time)

// SystemClock is the machine's.
func SystemClock() (own, wall time.Time) {
	now := time.Now()
	return now, now.Round(0)
}

// Loop renews a node's lease until its context ends.
type Loop struct {
	o     Options
	base  time.Time
	until atomic.Int64 // the end of the lease by the process's own clock, in nanoseconds since base
	nudge chan struct{}
	fails atomic.Int32 // renewals in a row that have failed

	mu   sync.Mutex // one thing is told after the other
	lost bool
	end  *time.Timer // of the lease
}

// New makes a loop for a node that is in the list since joined.
func New(o Options, joined time.Time) *Loop {
	l := &Loop{o: o, base: joined, nudge: make(chan struct{}, 1)}
	l.until.Store(int64(o.Lease))
	return l
}

// Holds is false when the lease is over by this process's own clock: what this node has
// in memory may be out of date. It costs nothing.
func (l *Loop) Holds() bool { return int64(time.Since(l.base)) < l.until.Load() }

// Answers is false when the table has failed to answer more than once in a row: it cannot be
// reached, although the lease may still hold. One renewal that fails, or is slow, says nothing.
func (l *Loop) Answers() bool { return l.fails.Load() < outOfReach }

// Nudge has the lease renewed at once: the list, or what the node says of itself, has
// changed. It does not block.
func (l *Loop) Nudge() {
	select {
	case l.nudge <- struct{}{}:
	default: // somebody has already
	}
}

// Run renews until ctx ends, which is no error; or until the node must end:
// member.ErrDeposed or ErrFrozen.
func (l *Loop) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.mu.Lock()
	l.end = time.AfterFunc(time.Until(l.base.Add(time.Duration(l.until.Load()))), l.expired)
	l.mu.Unlock()
	defer l.end.Stop()
	var watch sync.WaitGroup
	watch.Go(func() { l.watch(ctx, cancel) })
	defer watch.Wait()
	defer cancel(nil)
	for pause := time.Duration(0); ; {
		if !l.wait(ctx, pause) {
			break
		}
		sent := time.Now()
		next, err := l.renew(ctx, sent)
		l.o.Renewed(err == nil)
		switch {
		case err == nil:
			l.fails.Store(0)
			pause = max(next-time.Since(sent), 0)
		case errors.Is(err, member.ErrDeposed):
			l.over()
			return err
		case ctx.Err() != nil:
		default:
			l.fails.Add(1)
			pause = min(firstPause+rand.N(maxPause-firstPause), l.o.Lease/renewals)
			l.o.Log.Warn("the lease could not be renewed", "error", err, "lease_holds", l.Holds())
		}
	}
	if err := context.Cause(ctx); errors.Is(err, ErrFrozen) {
		l.over()
		return err
	}
	return nil
}

// wait is false when ctx has ended.
func (l *Loop) wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.nudge:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// renew renews the lease once, and says how long after that it has to be renewed again. It
// counts from before the table was asked: the table's own clock cannot have begun earlier.
func (l *Loop) renew(ctx context.Context, sent time.Time) (next time.Duration, err error) {
	asking, cancel := context.WithTimeout(ctx, l.o.Lease/2) // one that hangs leaves time for another
	defer cancel()
	list, err := l.o.Table.Renew(asking, l.o.Info())
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	left := time.Until(sent.Add(l.o.Lease))
	if left <= 0 {
		return 0, errors.New("the answer to the renewal took longer than the lease")
	}
	l.until.Store(int64(sent.Add(l.o.Lease).Sub(l.base)))
	l.end.Reset(left)
	if l.lost {
		l.lost = false
		l.o.Held()
	}
	l.o.Changed(list)
	return l.next(list, time.Since(sent)), nil
}

// next is how long after a renewal, which took so long, the list has to be read again: when
// the next renewal is due, or when a silent member is dead, if that comes first. Its
// sessions wait for somebody to see it.
func (l *Loop) next(list member.List, took time.Duration) time.Duration {
	next := l.o.Lease / renewals
	for _, m := range list.Members {
		if !m.Dead {
			next = min(next, took+max(m.Left+afterDeath, minLook))
		}
	}
	return next
}

// expired is called by the timer of a lease's end. If it has waited for a renewal, that has
// set the timer anew, and nothing has ended.
func (l *Loop) expired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Holds() {
		l.tellLost()
	}
}

// over ends the lease, and says so if nobody was told.
func (l *Loop) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tellLost()
}

// tellLost does what over says. l.mu is held.
func (l *Loop) tellLost() {
	if !l.lost {
		l.lost = true
		l.until.Store(0)
		l.o.Lost()
	}
}

// watch looks at the clocks. Two looks that are further apart than the lease mean that this
// process, or its machine, did not run.
func (l *Loop) watch(ctx context.Context, end context.CancelCauseFunc) {
	every := time.NewTicker(max(l.o.Lease/looks, time.Millisecond))
	defer every.Stop()
	own, wall := l.o.Clock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		ownNow, wallNow := l.o.Clock()
		if slept := max(ownNow.Sub(own), wallNow.Sub(wall)); slept > l.o.Lease {
			end(fmt.Errorf("%w: it stood still for %v, the lease is %v", ErrFrozen, slept.Round(time.Millisecond), l.o.Lease))
			return
		}
		own, wall = ownNow, wallNow
	}
}
