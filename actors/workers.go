package actors

import (
	"fmt"
	"sync"
	"time"
)

// workers runs the engine's goroutines. One that has finished waits a while for
// more work: commits and model calls need deep stacks, and growing a new one each
// time cost an eighth of a turn. The one that finished last goes on first, while
// its stack is still in the processor's cache; those at the bottom are too many.
type workers struct {
	panicked func(what string, r any)
	counted  sync.WaitGroup // tasks that have a name, whoever does them

	mu      sync.Mutex
	idle    []*worker
	unused  int  // of idle, from the bottom: so many were not needed since the last sweep
	sweeps  bool // a sweep is to come
	stopped bool // nobody waits any more
}

// worker is a goroutine that waits for work. The channel is closed when it may go.
type worker struct{ next chan task }

// task is something to do. A panic in it is logged and handed to failed, if
// there is one; with neither name nor failed it must not panic.
type task struct {
	what   string
	do     func()
	failed func(error)
}

// spareFor is how often workers that were not needed are let go.
const spareFor = time.Second

// reuse hands a task to a worker that waits; false when none does.
func (w *workers) reuse(t task) bool {
	w.mu.Lock()
	last := len(w.idle) - 1
	if last < 0 {
		w.mu.Unlock()
		return false
	}
	one := w.idle[last]
	w.idle[last] = nil
	w.idle = w.idle[:last]
	w.unused = min(w.unused, last)
	w.mu.Unlock()
	one.next <- t // it has room: nobody else knows of this worker
	return true
}

// run is a worker's goroutine.
func (w *workers) run(t task) {
	self := &worker{next: make(chan task, 1)}
	for ok := true; ok; {
		w.do(t)
		if !w.park(self) {
			return
		}
		t, ok = <-self.next
	}
}

func (w *workers) do(t task) {
	if t.what == "" {
		t.do()
		return
	}
	defer w.counted.Done()
	defer func() {
		if r := recover(); r != nil {
			w.panicked(t.what, r)
			if t.failed != nil {
				t.failed(fmt.Errorf("panic in %s: %v", t.what, r))
			}
		}
	}()
	t.do()
}

// park lets a worker wait; false when it is not needed any more.
func (w *workers) park(one *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	w.idle = append(w.idle, one)
	if !w.sweeps {
		w.sweeps = true
		time.AfterFunc(spareFor, w.sweep)
	}
	return true
}

// sweep lets those go that were not needed since the last time.
func (w *workers) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopIdle(w.unused)
	w.unused = len(w.idle)
	if w.sweeps = len(w.idle) > 0; w.sweeps {
		time.AfterFunc(spareFor, w.sweep)
	}
}

// stop lets all go who wait, and whoever finishes later.
func (w *workers) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.stopIdle(len(w.idle))
}

// stopIdle ends n workers from the bottom. The caller holds mu.
func (w *workers) stopIdle(n int) {
	for _, one := range w.idle[:n] {
		close(one.next)
	}
	kept := copy(w.idle, w.idle[n:])
	clear(w.idle[kept:])
	w.idle = w.idle[:kept]
	w.unused = 0
}

// spawnWork runs f in a goroutine, and Run waits for its end. A panic in it is logged
// and handed to failed, if there is one.
func (e *Engine) spawnWork(what string, f func(), failed func(error)) {
	e.workers.counted.Add(1)
	t := task{what: what, do: f, failed: failed}
	if !e.workers.reuse(t) {
		go e.workers.run(t)
	}
}

// sessions runs the sessions' mailboxes in the same goroutines: the library
// starts a new one for each wake-up.
type sessions struct{ e *Engine }

// Schedule runs a mailbox until it is empty.
func (d sessions) Schedule(run func()) {
	t := task{do: run} // the mailbox recovers from panics itself
	if !d.e.workers.reuse(t) {
		go d.e.workers.run(t) // ends when the engine does; the sessions are waited for, not this
	}
}

// Throughput is how many messages a session may take before others get a turn:
// the library's own number.
func (sessions) Throughput() int { return 300 }
