package actors

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Workers that have finished take the next tasks, the last one first; those that
// nobody needs for a while go, and all go at the end. A goroutine that stays
// keeps the bubble from ending, and fails the test.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workers{panicked: func(string, any) {}}
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

		time.Sleep(spareFor) // the first sweep: they have all been needed
		for range 3 {
			if !start(func() {}) {
				t.Error("a new goroutine although workers wait")
			}
			expect("one at a time", 5)
		}
		time.Sleep(spareFor)
		expect("one was needed, four were not", 1)
		time.Sleep(spareFor)
		expect("nobody was needed", 0)

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
		w.stop()
		expect("stopped", 0)
		close(release)
		expect("the last one goes when it has finished", 0)
	})
}

// A panic ends the task and nothing else.
func TestWorkerSurvivesPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged string
		w := &workers{panicked: func(what string, _ any) { logged = what }}
		defer w.stop()
		var failed error
		w.counted.Add(1) // as goWork does
		go w.run(task{what: "the test", do: func() { panic(errors.New("oh")) }, failed: func(err error) { failed = err }})
		synctest.Wait()
		w.counted.Wait()
		if logged != "the test" || failed == nil || failed.Error() != "panic in the test: oh" {
			t.Errorf("logged %q, failed with %v", logged, failed)
		}
		if !w.reuse(task{do: func() {}}) {
			t.Error("the goroutine has gone")
		}
		synctest.Wait()
	})
}
