package workers

import (
	"fmt"
	"sync"
	"time"
)

// throughput is the number of messages that a mailbox may take before others get a turn:
// the actor library's own number.
const throughput = 300

// Pool runs tasks in goroutines that it uses again. It is also the dispatcher of
// the actors' mailboxes. Its methods may be called from any goroutine.
type Pool struct {
	panicked func(what string, r any)
	counted  sync.WaitGroup // tasks given to Go, and work that has begun, and has not ended

	mu      sync.Mutex
	idle    []*worker
	unused  int  // of idle, from the bottom: how many were not needed since the last sweep
	sweeps  bool // a sweep is to come
	stopped bool // no goroutine waits any more
}

// worker is a goroutine that waits for work. Its channel is closed to end it.
type worker struct{ next chan task }

// task is something to do. A panic in it is reported and handed to failed, if
// there is one. One without a name is a mailbox, which must not panic.
type task struct {
	what   string
	do     func()
	failed func(error)
}

// sweepEvery is the pause between two searches for workers that were not needed; they are ended.
const sweepEvery = time.Second

// New makes a pool. panicked is called after a panic in a task, with the task's
// name and the value that recover has returned.
func New(panicked func(what string, r any)) *Pool { return &Pool{panicked: panicked} }

// Go runs do in a goroutine; Wait waits for its end. A panic in it is reported
// with the name what, which must not be empty, and then handed to failed unless
// that is nil.
func (p *Pool) Go(what string, do func(), failed func(error)) {
	p.counted.Add(1)
	p.start(task{what: what, do: do, failed: failed})
}

// Begin counts work that goes on without a goroutine of the pool: Wait waits for its
// End.
func (p *Pool) Begin() { p.counted.Add(1) }

// End is the end of work that Begin has counted.
func (p *Pool) End() { p.counted.Done() }

// Schedule runs an actor's mailbox until it is empty: the actor library would
// start a new goroutine for each wake-up. Wait does not wait for it; run must
// recover from panics itself, as mailboxes do.
func (p *Pool) Schedule(run func()) { p.start(task{do: run}) }

// Throughput is the number of messages that a mailbox may take before others get a turn.
func (p *Pool) Throughput() int { return throughput }

// Wait returns when every task given to Go and all work that has begun has ended.
func (p *Pool) Wait() { p.counted.Wait() }

// start hands a task to a worker that waits, or to a new one.
func (p *Pool) start(t task) {
	if !p.reuse(t) {
		go p.run(t)
	}
}

// reuse hands a task to the worker that has waited for the shortest time; false
// when none waits.
func (p *Pool) reuse(t task) bool {
	p.mu.Lock()
	last := len(p.idle) - 1
	if last < 0 {
		p.mu.Unlock()
		return false
	}
	one := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	p.unused = min(p.unused, last)
	p.mu.Unlock()
	one.next <- t // does not block: the channel has room, and no other task can reach this worker
	return true
}

// run is a worker's goroutine.
func (p *Pool) run(t task) {
	self := &worker{next: make(chan task, 1)}
	for ok := true; ok; {
		p.do(t)
		if !p.park(self) {
			return
		}
		t, ok = <-self.next
	}
}

func (p *Pool) do(t task) {
	if t.what == "" {
		t.do()
		return
	}
	defer p.counted.Done()
	defer func() {
		if r := recover(); r != nil {
			p.failed(t, r)
		}
	}()
	t.do()
}

// failed reports a panic of a task. Another one on the way is reported like that: it
// would end the process here.
func (p *Pool) failed(t task, r any) {
	defer func() {
		if again := recover(); again != nil {
			p.panicked("what follows on a panic in "+t.what, again)
		}
	}()
	p.panicked(t.what, r)
	if t.failed != nil {
		t.failed(fmt.Errorf("panic in %s: %v", t.what, r))
	}
}

// park has a worker wait; false when the pool has stopped.
func (p *Pool) park(one *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	p.idle = append(p.idle, one)
	if !p.sweeps {
		p.sweeps = true
		time.AfterFunc(sweepEvery, p.sweep)
	}
	return true
}

// sweep ends the workers that were not needed since the last sweep.
func (p *Pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endIdle(p.unused)
	p.unused = len(p.idle)
	if p.sweeps = len(p.idle) > 0; p.sweeps {
		time.AfterFunc(sweepEvery, p.sweep)
	}
}

// Stop ends the goroutines that wait; each of the others ends with its task. Tasks
// may still be given, and each then gets a goroutine of its own.
func (p *Pool) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.endIdle(len(p.idle))
}

// endIdle ends n workers from the bottom. The caller holds mu.
func (p *Pool) endIdle(n int) {
	for _, one := range p.idle[:n] {
		close(one.next)
	}
	kept := copy(p.idle, p.idle[n:])
	clear(p.idle[kept:])
	p.idle = p.idle[:kept]
	p.unused = 0
}
