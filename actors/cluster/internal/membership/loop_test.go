package membership

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/conversation/member"
)

const lease = 5 * time.Second

var errDown = errors.New("the database is down")

// table answers renewals as a test wants it.
type table struct {
	mu    sync.Mutex
	dies  time.Time // when the lease of another member ends; zero = there is none
	err   error
	takes time.Duration // until an answer comes
	asked int
}

func (t *table) set(err error, takes time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.takes = err, takes
}

func (t *table) times() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

func (t *table) Join(context.Context, member.Info, time.Duration) (conversation.Member, error) {
	return conversation.Member{}, nil
}
func (t *table) Leave(context.Context, conversation.Member) error { return nil }

func (t *table) Renew(ctx context.Context, who member.Info) (member.List, error) {
	t.mu.Lock()
	err, takes := t.err, t.takes
	t.asked++
	var list member.List
	if !t.dies.IsZero() {
		left := time.Until(t.dies)
		list.Members = []member.Peer{{Left: max(left, 0), Dead: left < 0}}
	}
	t.mu.Unlock()
	select {
	case <-time.After(takes):
		return list, err
	case <-ctx.Done():
		return member.List{}, ctx.Err()
	}
}

// rig is a loop in a bubble, and what it has told.
type rig struct {
	*Loop
	table *table
	began time.Time
	mu    sync.Mutex
	told  []string
	jump  time.Duration // of both clocks
	wall  time.Duration // of the one on the wall alone
	ended chan error
	stop  context.CancelFunc
}

func run(t *testing.T) *rig {
	r := &rig{table: &table{}, began: time.Now(), ended: make(chan error, 1)}
	tell := func(what string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told = append(r.told, what+" at "+time.Since(r.began).Round(100*time.Millisecond).String())
	}
	r.Loop = New(Options{
		Table: r.table, Lease: lease, Info: func() member.Info { return member.Info{} }, Log: slog.New(slog.DiscardHandler),
		Changed: func(member.List) {}, Renewed: func(bool) {}, Lost: func() { tell("lost") }, Held: func() { tell("held") },
		Clock: func() (own, wall time.Time) {
			r.mu.Lock()
			defer r.mu.Unlock()
			now := time.Now().Add(r.jump)
			return now, now.Add(r.wall)
		},
	}, time.Now())
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { r.ended <- r.Run(ctx) }()
	return r
}

// A lease is lost a lease after the last renewal that succeeded was sent, and held again by
// the first one that succeeds; slow answers that come in time lose nothing.
func TestLease(t *testing.T) {
	for name, c := range map[string]struct {
		down  time.Duration
		err   error
		takes time.Duration
		told  []string
	}{
		"a flap shorter than the lease":        {down: 3 * time.Second, err: errDown},
		"slow answers":                         {down: 20 * time.Second, takes: 2 * time.Second},
		"an outage":                            {down: 30 * time.Second, err: errDown, told: []string{"lost at 15s", "held at 40s"}},
		"answers that take longer than leases": {down: 30 * time.Second, takes: time.Hour, told: []string{"lost at 15s", "held at 40s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t)
				time.Sleep(10*time.Second + 10*time.Millisecond)
				r.table.set(c.err, c.takes)
				time.Sleep(c.down)
				if gone := len(c.told) > 0; r.Holds() == gone {
					t.Errorf("after %v of trouble Holds is %v", c.down, r.Holds())
				}
				r.table.set(nil, 0)
				time.Sleep(10 * time.Second)
				if !r.Holds() {
					t.Error("it does not hold afterwards")
				}
				r.stop()
				if err := <-r.ended; err != nil {
					t.Error(err)
				}
				if len(r.told) != len(c.told) {
					t.Fatalf("told %q, want %q", r.told, c.told)
				}
				for i := range c.told {
					// A renewal that hangs is given up after a lease: held comes up to one later.
					if got, want := r.told[i], c.told[i]; got[:4] != want[:4] || got[:4] == "lost" && got != want {
						t.Errorf("told %q, want %q", r.told, c.told)
					}
				}
			})
		})
	}
}

// The timer of a lease may go off while its renewal is being noted, and come to its turn after
// that: the lease holds then.
func TestTimerOfTheLeaseBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		time.Sleep(10*time.Second + 10*time.Millisecond)
		r.expired()
		if r.mu.Lock(); len(r.told) != 0 || !r.Holds() {
			t.Errorf("told %q, holds: %v", r.told, r.Holds())
		}
		r.mu.Unlock()
		r.stop()
		<-r.ended
	})
}

// A node that was removed ends at its next renewal, and is suspended first.
func TestDeposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		time.Sleep(lease)
		r.table.set(member.ErrDeposed, 0)
		r.Nudge()
		if err := <-r.ended; !errors.Is(err, member.ErrDeposed) {
			t.Errorf("it ended with %v", err)
		}
		if !reflect.DeepEqual(r.told, []string{"lost at 5s"}) || r.Holds() {
			t.Errorf("told %q, holds: %v", r.told, r.Holds())
		}
	})
}

// A process that stood still for longer than its lease ends at once; one that stood still for
// less goes on. So does one whose machine slept: the clock on the wall alone has gone on.
func TestFreeze(t *testing.T) {
	for name, c := range map[string]struct {
		jump, wall time.Duration
		frozen     bool
	}{
		"longer than the lease":  {jump: lease, frozen: true},
		"shorter than the lease": {jump: lease - time.Second},
		"a sleep of the machine": {wall: lease, frozen: true},
		"a clock that is set":    {wall: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t)
				time.Sleep(lease)
				r.mu.Lock()
				r.jump, r.wall = c.jump, c.wall
				r.mu.Unlock()
				time.Sleep(time.Second)
				select {
				case err := <-r.ended:
					if !errors.Is(err, ErrFrozen) || !c.frozen || r.Holds() {
						t.Errorf("it ended with %v, holds: %v", err, r.Holds())
					}
				default:
					if c.frozen {
						t.Error("it goes on")
					}
				}
				r.stop()
			})
		})
	}
}

// The list is read when the lease of a member ends, not only when the next renewal is due;
// and not more often because of one that renews at the last moment, or of one that is dead.
func TestLooksWhenALeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		saw := make(chan time.Time, 1)
		r.o.Changed = func(l member.List) {
			if len(l.Members) > 0 && l.Members[0].Dead {
				select {
				case saw <- time.Now():
				default:
				}
			}
		}
		r.table.mu.Lock()
		dies := time.Now().Add(2300 * time.Millisecond)
		r.table.dies = dies
		r.table.mu.Unlock()
		if late := (<-saw).Sub(dies); late > 10*time.Millisecond {
			t.Errorf("it was seen %v after the death", late)
		}
		time.Sleep(time.Millisecond) // the counts begin and end between two renewals
		before := r.table.times()
		time.Sleep(10 * time.Second)
		if n := r.table.times() - before; n < 9 || n > 10 {
			t.Errorf("asked %d times in ten seconds beside a dead member", n)
		}
		r.table.mu.Lock()
		r.table.dies = time.Now().Add(time.Hour)
		r.table.mu.Unlock()
		before = r.table.times()
		time.Sleep(10 * time.Second)
		if n := r.table.times() - before; n < 9 || n > 10 {
			t.Errorf("asked %d times in ten seconds beside a living member", n)
		}
		r.stop()
	})
}

// While the table does not answer it is asked again within half a second, not only when the
// next renewal would be due; and a nudge has it asked at once.
func TestRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		time.Sleep(10*time.Second + time.Millisecond)
		if n := r.table.times(); n != 11 {
			t.Errorf("asked %d times in ten seconds", n)
		}
		r.Nudge()
		synctest.Wait()
		if n := r.table.times(); n != 12 {
			t.Errorf("a nudge: asked %d times", n)
		}
		r.table.set(errDown, 0)
		before := r.table.times()
		time.Sleep(10 * time.Second)
		if n := r.table.times() - before; n < 18 || n > 101 {
			t.Errorf("asked %d times in ten seconds without an answer", n)
		}
		r.stop()
	})
}

// The table is out of reach when two renewals in a row have failed, long before the lease is over,
// and answers again with the first one that succeeds. One that fails alone changes nothing.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		look := func(what string, want bool) {
			t.Helper()
			if synctest.Wait(); r.Answers() != want || !r.Holds() {
				t.Errorf("%s: it answers: %v, the lease holds: %v", what, r.Answers(), r.Holds())
			}
		}
		time.Sleep(lease)
		look("all is well", true)
		r.table.set(errDown, 0)
		r.Nudge()
		synctest.Wait()
		r.table.set(nil, 0)
		look("one renewal has failed", true)
		time.Sleep(lease)
		r.table.set(errDown, 0)
		r.Nudge()
		time.Sleep(2 * maxPause)
		look("two or more have failed", false)
		r.table.set(nil, 0)
		r.Nudge()
		look("one has succeeded", true)
		r.table.set(nil, lease/2-time.Millisecond)
		time.Sleep(4 * lease)
		look("slow answers", true)
		r.stop()
	})
}
