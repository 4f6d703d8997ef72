package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/models/modelstest"
)

// ask makes the first attempt at a step, with a stream.
func ask(ctx context.Context, m conversation.Model) modelstest.Heard {
	return modelstest.Ask(ctx, m, conversation.Request{Session: "s1", Task: "t1-s1", Step: 1, Attempt: 1, Stream: true})
}

// A model within limits is a model like any other.
func TestSuite(t *testing.T) {
	modelstest.Run(t, func(t *testing.T, s modelstest.Scenario) (conversation.Model, conversation.Request) {
		m, err := New(modelstest.Playing(s), Limits{MaxConcurrent: 1, Calls: 1000, Per: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return m, s.Request()
	})
}

func limited(t *testing.T, f *modelstest.Fake, limits Limits) *Model {
	t.Helper()
	l, err := New(f, limits)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// No more than max_concurrent calls at once; those who wait get their turn in
// order; who gives up leaves no hole.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &modelstest.Fake{Name: "f", Turns: []modelstest.FakeTurn{{Takes: time.Second, Says: "yes"}}}
		l := limited(t, f, Limits{MaxConcurrent: 2})
		began := time.Now()
		var order []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				if h := ask(t.Context(), l); h.Err != nil || h.Done == nil {
					t.Errorf("call %d: %+v", i, h)
				}
				mu.Lock()
				order = append(order, i/2)
				mu.Unlock()
			})
			synctest.Wait() // they come one after the other
		}
		ctx, cancel := context.WithCancel(t.Context())
		var gone modelstest.Heard
		all.Go(func() { gone = ask(ctx, l) })
		synctest.Wait()
		if s := l.Stats(); s != (Stats{Running: 2, Waiting: 5, Calls: 2}) {
			t.Errorf("while they wait: %+v", s)
		}
		cancel()
		synctest.Wait()
		if !errors.Is(gone.Err, context.Canceled) {
			t.Errorf("the one that gave up: %+v", gone)
		}
		all.Wait()
		if f.Most() != 2 || time.Since(began) != 3*time.Second || !slices.IsSorted(order) {
			t.Errorf("%d at once, %s in all, in the order %v", f.Most(), time.Since(began), order)
		}
		if s := l.Stats(); s != (Stats{Calls: 6, Waited: 4, GaveUp: 1}) {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// The rate holds from both sides: what it allows begins at once, the rest later.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		want   []time.Duration // when calls begin that come all at once
	}{
		{Limits{Calls: 60, Per: time.Minute}, []time.Duration{0, 1, 2, 3}},
		{Limits{Calls: 2, Per: time.Second}, []time.Duration{0, 0, 500 * time.Millisecond, time.Second}},
		{Limits{Calls: 60, Per: time.Minute, Burst: 3}, []time.Duration{0, 0, 0, 1}},
		{Limits{}, []time.Duration{0, 0, 0, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &modelstest.Fake{Name: "f", Turns: []modelstest.FakeTurn{{Says: "yes"}}}
			l := limited(t, f, c.limits)
			began := time.Now()
			var all sync.WaitGroup
			for range c.want {
				all.Go(func() { ask(t.Context(), l) })
			}
			all.Wait()
			for i, at := range f.Calls() {
				want := c.want[i]
				if want < time.Millisecond {
					want *= time.Second
				}
				if got := at.Sub(began).Round(time.Millisecond); got != want {
					t.Errorf("%+v: call %d began after %s, want %s", c.limits, i, got, want)
				}
			}
		})
	}
}

// Who waits for the rate and is cancelled gives place and turn back, at once.
func TestRateIsCancellable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &modelstest.Fake{Name: "f", Turns: []modelstest.FakeTurn{{Says: "yes"}}}
		l := limited(t, f, Limits{Calls: 1, Per: time.Minute, MaxConcurrent: 1})
		ask(t.Context(), l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if h := ask(ctx, l); !errors.Is(h.Err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%+v after %s", h, time.Since(began))
		}
		if h := ask(t.Context(), l); h.Done == nil || time.Since(began) != time.Minute {
			t.Errorf("the next one: %+v after %s", h, time.Since(began))
		}
	})
}

// The engine gives up a model that says nothing; one that waits for its turn says
// that it lives. A caller that stops reading is let go.
func TestSignsOfLifeWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &modelstest.Fake{Name: "f", Turns: []modelstest.FakeTurn{{Takes: 35 * time.Second, Says: "yes"}}}
		l := limited(t, f, Limits{MaxConcurrent: 1})
		var all sync.WaitGroup
		all.Go(func() { ask(t.Context(), l) })
		synctest.Wait()
		all.Go(func() {
			for range l.Stream(t.Context(), conversation.Request{Stream: true}) {
				return
			}
		})
		synctest.Wait()
		all.Go(func() {
			for out := range l.Stream(t.Context(), conversation.Request{}) {
				if out.Done == nil {
					t.Errorf("%+v though no stream was wanted", out)
				}
			}
		})
		if h := ask(t.Context(), l); h.KeepAlives < 3 || h.Done == nil {
			t.Errorf("%+v", h)
		}
		all.Wait()
		if l.Stats().Running != 0 || l.gate.Taken() != 0 {
			t.Errorf("a slot is lost: %+v", l.Stats())
		}
	})
}

func TestWrongOptions(t *testing.T) {
	f := &modelstest.Fake{Name: "f"}
	for _, l := range []Limits{{MaxConcurrent: -1}, {Calls: -1}, {Calls: 1}, {Burst: 1}, {Calls: 1, Per: 1, Burst: -1}} {
		if _, err := New(f, l); err == nil {
			t.Errorf("%+v is taken", l)
		}
	}
	if _, err := New(nil, Limits{}); err == nil {
		t.Error("no model to limit")
	}
}
