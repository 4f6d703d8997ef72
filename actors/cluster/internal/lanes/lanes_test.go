package lanes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

var (
	a    = conversation.Member{Node: "a", Incarnation: 1}
	b    = conversation.Member{Node: "b", Incarnation: 1}
	c    = conversation.Member{Node: "c", Incarnation: 1}
	self = conversation.Member{Node: "self", Incarnation: 1}
	k    = conversation.SessionKey{Tenant: "t", Session: "s"}
)

// world is the members of a cluster as lanes see them: each session lives somewhere, and what
// comes there takes effect once.
type world struct {
	mu     sync.Mutex
	ring   map[conversation.SessionKey]conversation.Member // what this node believes
	lives  map[conversation.SessionKey]conversation.Member // where it is; absent = nowhere, for the moment
	done   map[conversation.SessionKey][]int               // effects, in order
	did    map[int]bool
	dead   map[conversation.Member]bool
	delay  func() time.Duration
	lost   func() bool // an answer is lost although the job was done
	sent   int
	wanted *Lanes
	gates  map[conversation.Member]*Gate // nil = they take everything
}

func newWorld(o Options) *world {
	w := &world{
		ring: map[conversation.SessionKey]conversation.Member{}, lives: map[conversation.SessionKey]conversation.Member{},
		done: map[conversation.SessionKey][]int{}, did: map[int]bool{}, dead: map[conversation.Member]bool{},
		gates: map[conversation.Member]*Gate{a: NewGate(), b: NewGate(), c: NewGate()},
		delay: func() time.Duration { return time.Millisecond }, lost: func() bool { return false },
	}
	o.Owner = func(root conversation.SessionKey) (conversation.Member, bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		m, ok := w.ring[root]
		return m, ok
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.MaxJobs == 0 {
		o.MaxJobs, o.MaxBytes = 10_000, 1<<20
	}
	w.wanted = New(o)
	return w
}

// job is number n for a session. What a member gets comes in the order in which it was sent.
func (w *world) job(key conversation.SessionKey, n int, done func(error)) *Job {
	return &Job{Bytes: 1, Done: done, Send: func(to conversation.Member, turn Turn, answer func(error)) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sent++
		if w.dead[to] {
			time.AfterFunc(w.delay(), func() { answer(&UnreachableError{To: to, Cause: errors.New("it is dead")}) })
			return
		}
		if !w.gates[to].Enter(self, key, turn) {
			time.AfterFunc(w.delay(), func() { answer(&AwayError{}) })
			return
		}
		err := w.take(key, n, to)
		if err != nil {
			w.gates[to].Shut(self, key, turn)
		}
		if err == nil && w.lost() {
			err = &UnreachableError{To: to, Cause: errors.New("the answer was lost")}
		}
		time.AfterFunc(w.delay(), func() { answer(err) })
	}}
}

func (w *world) take(key conversation.SessionKey, n int, to conversation.Member) error {
	switch at, there := w.lives[key]; {
	case at == to:
		if !w.did[n] {
			w.did[n] = true
			w.done[key] = append(w.done[key], n)
		}
		return nil
	case there:
		return &AwayError{At: at, Owns: true}
	default:
		return &AwayError{}
	}
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// What is said to a session reaches it in order, once, wherever it lives and moves, and
// whatever this node believes of that.
func TestMoves(t *testing.T) {
	for name, c := range map[string]struct {
		during func(w *world) // what happens while jobs are under way
		took   time.Duration  // at most
	}{
		"it stays":    {during: func(w *world) {}, took: time.Second},
		"it is moved": {during: func(w *world) { w.set(func() { w.lives[k] = b }) }, took: time.Second},
		"the ring is late": {during: func(w *world) {
			w.set(func() { w.lives[k] = c })
			time.Sleep(2 * time.Second)
			w.set(func() { w.ring[k] = c })
		}, took: 5 * time.Second},
		"its node dies": {during: func(w *world) {
			w.set(func() { w.dead[a] = true })
			time.Sleep(5 * time.Second)
			w.set(func() { w.ring[k], w.lives[k] = b, b })
		}, took: 6 * time.Second},
		"its node dies, and a member sees it": {during: func(w *world) {
			w.set(func() { w.dead[a] = true })
			time.Sleep(5 * time.Second)
			w.set(func() { w.ring[k], w.lives[k] = b, b })
			w.wanted.Hurry()
		}, took: 5*time.Second + 10*time.Millisecond},
		"it is nowhere for a while": {during: func(w *world) {
			w.set(func() { delete(w.lives, k); delete(w.ring, k) })
			time.Sleep(3 * time.Second)
			w.set(func() { w.ring[k], w.lives[k] = b, b })
		}, took: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(Options{})
				w.ring[k], w.lives[k] = a, a
				began, open := time.Now(), sync.WaitGroup{}
				var longest time.Duration
				say := func(n int) {
					open.Add(1)
					at := time.Now()
					w.wanted.Do(k, w.job(k, n, func(err error) {
						if err != nil {
							t.Errorf("%d: %v", n, err)
						}
						w.set(func() { longest = max(longest, time.Since(at)) })
						open.Done()
					}))
				}
				open.Go(func() { c.during(w) })
				for n := range 300 {
					say(n)
					if n%10 == 9 {
						time.Sleep(time.Millisecond)
					}
				}
				open.Wait()
				if got := w.done[k]; !slices.IsSorted(got) || len(got) != 300 {
					t.Errorf("%d of 300 took effect; in order: %v", len(got), slices.IsSorted(got))
				}
				if longest > c.took {
					t.Errorf("one took %v", longest)
				}
				synctest.Wait()
				if s := w.wanted.shard(k); len(s.lanes) != 0 {
					t.Error("the lane is still there")
				}
				t.Logf("%d sent in %v", w.sent, time.Since(began))
			})
		})
	}
}

// What cannot be done in time is given up, as what may be asked again; what is refused for
// another reason is not sent again; and too much is refused at once.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(Options{Timeout: 30 * time.Second, MaxJobs: 3, MaxBytes: 100})
		answers := make(chan error, 10)
		answer := func(err error) { answers <- err }
		began := time.Now()
		for range 4 {
			w.wanted.Do(k, w.job(k, 0, answer))
		}
		if e := conversation.AsError(<-answers); e.Code != conversation.Overloaded || time.Since(began) != 0 {
			t.Errorf("the fourth of three: %v", e)
		}
		for range 3 {
			if e := conversation.AsError(<-answers); e.Code != conversation.Unavailable || !e.Retryable() || e.RetryAfter == 0 {
				t.Errorf("nobody is there: %v", e)
			}
		}
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("given up after %v", took)
		}
		w.ring[k], w.lives[k] = a, a
		own := conversation.Errorf(conversation.SessionBusy, "busy")
		sent := 0
		w.wanted.Do(k, &Job{Done: answer, Send: func(_ conversation.Member, _ Turn, done func(error)) { sent++; done(own) }})
		if err := <-answers; !errors.Is(err, own) || sent != 1 {
			t.Errorf("sent %d times: %v", sent, err)
		}
		delete(w.ring, k)
		w.wanted.Do(k, w.job(k, 1, answer))
		w.wanted.Close()
		w.wanted.Do(k, w.job(k, 2, answer))
		for range 2 {
			if e := conversation.AsError(<-answers); e.Code != conversation.Unavailable {
				t.Errorf("at the end: %v", e)
			}
		}
		synctest.Wait()
	})
}

// When nobody has been there for long, jobs are refused at once; while somebody may come
// they wait, and what waited is sent when he does.
func TestNobodyIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var long atomic.Bool
		w := newWorld(Options{Timeout: 30 * time.Second, MaxJobs: 3, MaxBytes: 100, Nobody: func() bool { return long.Load() }})
		answers := make(chan error, 10)
		answer := func(err error) { answers <- err }
		w.wanted.Do(k, w.job(k, 0, answer))
		time.Sleep(5 * time.Second)
		began := time.Now()
		long.Store(true)
		if e := conversation.AsError(<-answers); e.Code != conversation.Unavailable || e.RetryAfter == 0 || time.Since(began) > time.Second {
			t.Errorf("what waits is refused after %v: %v", time.Since(began), e)
		}
		began = time.Now()
		w.wanted.Do(k, w.job(k, 1, answer))
		if e := conversation.AsError(<-answers); e.Code != conversation.Unavailable || time.Since(began) > 100*time.Millisecond {
			t.Errorf("what comes is refused after %v: %v", time.Since(began), e)
		}
		long.Store(false)
		w.wanted.Do(k, w.job(k, 2, answer))
		synctest.Wait()
		w.set(func() { w.ring[k], w.lives[k] = a, a })
		if err := <-answers; err != nil {
			t.Errorf("somebody has come: %v", err)
		}
		synctest.Wait()
	})
}

// Many sessions that move at random moments, with answers that get lost and members that die
// and come back: every job takes effect once and in the order of its session.
func TestRandomMoves(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("PARLEY_SEED=%d go test -run TestRandomMoves ./actors/cluster/internal/lanes", seed)
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(Options{Timeout: time.Hour})
		all := []conversation.Member{a, b, c}
		var keys []conversation.SessionKey
		for i := range 20 {
			key := conversation.SessionKey{Tenant: "t", Session: conversation.SessionID(fmt.Sprint("s", i))}
			keys = append(keys, key)
			w.ring[key], w.lives[key] = a, a
		}
		w.delay = func() time.Duration { return time.Duration(r.IntN(5000)) * time.Microsecond }
		w.lost = func() bool { return r.IntN(50) == 0 }
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
				}
				hurry := false
				w.set(func() { // which guards r as well
					hurry = r.IntN(20) == 0
					key := keys[r.IntN(len(keys))]
					w.lives[key] = all[r.IntN(3)]
					w.ring[key] = all[r.IntN(3)]
					w.dead[all[r.IntN(3)]] = r.IntN(3) == 0
				})
				if hurry {
					w.wanted.Hurry()
				}
			}
		}()
		var open sync.WaitGroup
		for n := range 4000 {
			open.Add(1)
			key := keys[n%len(keys)]
			w.wanted.Do(key, w.job(key, n, func(err error) {
				if err != nil {
					t.Errorf("%d: %v", n, err)
				}
				open.Done()
			}))
			if n%40 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		close(stop)
		<-stopped
		w.set(func() {
			clear(w.dead)
			for _, key := range keys {
				w.ring[key] = w.lives[key]
			}
		})
		open.Wait()
		for _, key := range keys {
			if got := w.done[key]; !slices.IsSorted(got) || len(got) != 200 {
				t.Errorf("%s: %d of 200 took effect; in order: %v", key.Session, len(got), slices.IsSorted(got))
			}
		}
	})
}
