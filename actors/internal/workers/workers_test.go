package workers

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Workers that have finished take the next tasks, the last one first; those that
// are not needed for a while end, and all end after Stop. A goroutine that stays
// keeps the bubble from ending, and fails the test.
func TestReuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Pool{panicked: func(string, any) {}}
		waiting := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.idle)
		}
		start := func(do func()) (reused bool) {
			if reused = w.reuse(task{do: do}); !reused {
				go w.run(task{do: do})
			}
			return reused
		}
		expect := func(when string, n int) {
			t.Helper()
			synctest.Wait()
			if got := waiting(); got != n {
				t.Errorf("%s: %d workers wait, want %d", when, got, n)
			}
		}

		release := make(chan struct{})
		for range 5 {
			if start(func() { <-release }) {
				t.Error("a worker was there before the first task")
			}
		}
		expect("all are busy", 0)
		close(release)
		expect("all have finished", 5)

		time.Sleep(sweepEvery) // the first sweep: they have all been needed
		for range 3 {
			if !start(func() {}) {
				t.Error("a new goroutine although workers wait")
			}
			expect("one at a time", 5)
		}
		time.Sleep(sweepEvery)
		expect("one was needed, four were not", 1)
		time.Sleep(sweepEvery)
		expect("none was needed", 0)

		ran := false
		if start(func() { ran = true }) {
			t.Error("a worker took a task after it had gone")
		}
		expect("a new one", 1)
		if !ran {
			t.Error("the task did not run")
		}
		release = make(chan struct{})
		start(func() { <-release })
		w.Stop()
		expect("stopped", 0)
		close(release)
		expect("the last one ends with its task", 0)
	})
}

// A panic ends the task and nothing else.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged string
		w := &Pool{panicked: func(what string, _ any) { logged = what }}
		defer w.Stop()
		var failed error
		w.Go("the test", func() { panic(errors.New("oh")) }, func(err error) { failed = err })
		synctest.Wait()
		w.Wait()
		if logged != "the test" || failed == nil || failed.Error() != "panic in the test: oh" {
			t.Errorf("logged %q, failed with %v", logged, failed)
		}
		w.Go("a second one", func() { panic("oh") }, func(error) { panic("again") })
		synctest.Wait()
		w.Wait()
		if logged != "what follows on a panic in a second one" {
			t.Errorf("logged %q", logged)
		}
		if !w.reuse(task{do: func() {}}) {
			t.Error("the goroutine has gone")
		}
		synctest.Wait()
	})
}
