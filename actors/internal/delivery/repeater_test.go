package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

var gone = conversation.Errorf(conversation.NotFound, "there is no such session")

// told is what a repeater has told, and when.
type told struct {
	began time.Time

	mu     sync.Mutex // of names and at
	names  []string
	at     []time.Duration
	answer func(name string, n int) error // n counts what was told from 1
	goOn   bool
}

// withRepeater runs f in a bubble with a repeater that tells at most two at once
// and one in a millisecond, and waits one to four seconds after refusals.
func withRepeater(t *testing.T, f func(t *testing.T, r *Repeater, all *told)) {
	synctest.Test(t, func(t *testing.T) {
		all := &told{began: time.Now(), goOn: true}
		r := NewRepeater(RepeaterOptions{
			Tell: func(key conversation.SessionKey, c conversation.Command, done func(error)) {
				name := string(key.Session)
				if c != nil {
					name += " " + c.Name()
				}
				all.mu.Lock()
				all.names, all.at = append(all.names, name), append(all.at, time.Since(all.began))
				n := len(all.names)
				all.mu.Unlock()
				done(all.answer(name, n))
			},
			GoOn: func() bool { return all.goOn },
			Pace: NewPace(time.Millisecond), Parallel: 2, Pause: time.Second, MaxPause: 4 * time.Second, Limit: 100,
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		f(t, r, all)
		cancel()
		<-ended
	})
}

func named(name string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(name)}
}

func TestRepeater(t *testing.T) {
	cancel := conversation.Cancel{By: conversation.ByParent}
	for _, c := range []struct {
		name   string
		add    func(*Repeater)
		answer func(name string, n int) error
		names  []string
		at     []time.Duration // nil: not looked at
	}{
		{
			"taken at once", func(r *Repeater) { r.Add(named("a"), nil); r.Add(named("b"), cancel) },
			func(string, int) error { return nil },
			[]string{"a", "b cancel"}, []time.Duration{0, time.Millisecond},
		},
		{
			"refused for good", func(r *Repeater) { r.Add(named("a"), nil) },
			func(string, int) error { return gone },
			[]string{"a"}, nil,
		},
		{
			"what waits already is told once", func(r *Repeater) {
				r.Add(named("a"), nil)
				r.Add(named("a"), nil)
				r.Add(named("a"), cancel)
			},
			func(_ string, n int) error {
				if n == 1 {
					return busy
				}
				return nil
			},
			[]string{"a", "a cancel", "a"}, nil,
		},
		{
			"the pause grows, to its limit, and ends with a success", func(r *Repeater) { r.Add(named("a"), nil) },
			func(_ string, n int) error {
				if n < 6 {
					return busy
				}
				return nil
			},
			[]string{"a", "a", "a", "a", "a", "a"},
			[]time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 11 * time.Second, 15 * time.Second},
		},
		{
			"who was refused waits behind the others", func(r *Repeater) { r.Add(named("a"), nil); r.Add(named("b"), nil) },
			func(_ string, n int) error {
				if n == 1 {
					return busy
				}
				return nil
			},
			[]string{"a", "b", "a"}, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			withRepeater(t, func(t *testing.T, r *Repeater, all *told) {
				all.answer = c.answer
				c.add(r)
				time.Sleep(time.Minute)
				synctest.Wait()
				if !slices.Equal(all.names, c.names) || c.at != nil && !slices.Equal(all.at, c.at) {
					t.Errorf("told %q at %v, want %q at %v", all.names, all.at, c.names, c.at)
				}
				if len(r.known) != 0 || len(r.queue) != 0 {
					t.Errorf("%d are known and %d wait after the end", len(r.known), len(r.queue))
				}
			})
		})
	}
}

// However many there are, a receiver that refuses is asked seldom, and one that is
// back is asked at the pace.
func TestRepeaterKeepsPace(t *testing.T) {
	withRepeater(t, func(t *testing.T, r *Repeater, all *told) {
		back := time.Minute
		all.answer = func(string, int) error {
			if time.Since(all.began) < back {
				return busy
			}
			return nil
		}
		for i := range 100 {
			if !r.Add(named(fmt.Sprint(i)), nil) {
				t.Fatalf("number %d is too many", i)
			}
		}
		if r.Add(named("one more"), nil) {
			t.Error("more wait than the limit allows")
		}
		time.Sleep(back - time.Second)
		synctest.Wait()
		all.mu.Lock()
		n := len(all.names)
		all.mu.Unlock()
		if n > 40 {
			t.Errorf("told %d times while nothing got through", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(r.known) != 0 {
			t.Errorf("%d wait, long after the receiver was back", len(r.known))
		}
		for i := 1; i < len(all.at); i++ {
			if d := all.at[i] - all.at[i-1]; d < time.Millisecond {
				t.Fatalf("attempts %d and %d are %v apart", i-1, i, d)
			}
		}
	})
}

// At the end of a process nothing is repeated, and the end waits for nobody.
func TestRepeaterStops(t *testing.T) {
	withRepeater(t, func(t *testing.T, r *Repeater, all *told) {
		all.answer, all.goOn = func(string, int) error { return busy }, false
		r.Add(named("a"), nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(all.names) != 1 || len(r.known) != 0 {
			t.Errorf("told %d times, %d known", len(all.names), len(r.known))
		}
	})
}

func TestPaceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(time.Hour)
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results := make(chan error, 2)
		for range 2 { // one waits for the time, one for its turn
			go func() { results <- p.Wait(ctx) }()
		}
		if a, b := <-results, <-results; a == nil || b == nil {
			t.Errorf("%v, %v", a, b)
		}
		began := time.Now()
		if err := p.Wait(t.Context()); err != nil || time.Since(began) != 59*time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
