package singleton

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/member"
)

// Pauses of a Keeper.
const (
	firstPause = 100 * time.Millisecond // before what has failed runs again; it doubles
	maxPause   = 30 * time.Second
	callTime   = 5 * time.Second // a call of the table may take so long
)

// errMoved is why a run ends that is to go on elsewhere, or with the node.
var errMoved = errors.New("it is to run on another node")

// Options are what a Keeper works with.
type Options struct {
	Table   member.Singletons // nil = there is no other node
	Self    conversation.Member
	Belongs func(name string) bool // the ring gives it to this node; it must not block
	Holds   func() bool            // this node's lease, by its own clock
	Pause   time.Duration          // the table is asked again after it
	Bound   time.Duration          // a run that has not ended so long after it should have is logged
	Began   func(name string)      // a run has begun, or has ended; they must not block
	Ended   func(name string)
	Given   func(name string) // this node has given it up, and another one may take it
	Log     *slog.Logger
}

// Keeper runs singletons. Its methods may be called from any goroutine.
type Keeper struct {
	o Options

	mu       sync.Mutex
	all      map[string]*task
	term     uint64          // counts how often the lease was over
	draining bool            // nothing begins any more
	ctx      context.Context // of Begin; nil = it has not begun
	work     sync.WaitGroup
}

// task is one singleton.
type task struct {
	name   string
	run    func(context.Context) error
	wake   chan struct{}           // something has changed
	ctx    context.Context         // of the run
	end    context.CancelCauseFunc // of the run; nil = none runs
	holder conversation.Member     // who has it, as the table said last
	owned  bool                    // this node may have it in the table
	idle   chan struct{}           // closed while this node neither runs nor owns it

	failures int       // how often in a row it has ended by itself; of keep, as what follows
	again    time.Time // it is not started before
}

// New makes a Keeper without singletons.
func New(o Options) *Keeper { return &Keeper{o: o, all: map[string]*task{}} }

// Add has a singleton run, from Begin on. A name may be given once.
func (k *Keeper) Add(name string, run func(context.Context) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all[name] != nil {
		return fmt.Errorf("there are two singletons of the name %q", name)
	}
	t := &task{name: name, run: run, wake: make(chan struct{}, 1), idle: make(chan struct{})}
	close(t.idle)
	k.all[name] = t
	if k.ctx != nil && k.ctx.Err() == nil {
		k.start(t)
	}
	return nil
}

// start begins to care for a singleton. k.mu is held.
func (k *Keeper) start(t *task) {
	ctx := k.ctx
	k.work.Go(func() { k.keep(ctx, t) })
}

// Begin begins to care for the singletons, until ctx ends. Without any it starts nothing.
func (k *Keeper) Begin(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx = ctx
	for _, t := range k.all {
		k.start(t)
	}
}

// End waits, after the context of Begin has ended, until all runs have, or the bound is over.
func (k *Keeper) End() {
	k.endAll(errMoved)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.work.Wait()
	}()
	bound := time.NewTimer(k.o.Bound)
	defer bound.Stop()
	select {
	case <-ended:
	case <-bound.C:
	}
}

// Changed has it looked at again what belongs here. A run that does not is ended.
func (k *Keeper) Changed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.all {
		if t.end != nil && !k.here(t) {
			t.end(errMoved)
		}
		t.poke()
	}
}

// Lost ends all runs: the lease is over.
func (k *Keeper) Lost() {
	k.mu.Lock()
	k.term++
	k.mu.Unlock()
	k.endAll(member.ErrLeaseOver)
}

func (k *Keeper) endAll(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.all {
		if t.end != nil {
			t.end(why)
		}
		t.poke()
	}
}

// Drain ends all runs and gives the singletons up; none begins here any more. The error is
// ctx's, and names one that has not ended.
func (k *Keeper) Drain(ctx context.Context) error {
	k.mu.Lock()
	k.draining = true
	k.mu.Unlock()
	k.endAll(errMoved)
	for _, t := range k.tasks() {
		k.mu.Lock()
		idle := t.idle
		k.mu.Unlock()
		select {
		case <-idle:
			continue
		default:
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("the singleton %s has not ended: %w", t.name, ctx.Err())
		}
	}
	return nil
}

// Busy is true while something runs here that has not ended.
func (k *Keeper) Busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.all {
		if t.end != nil {
			return true
		}
	}
	return false
}

// Runs is true while a singleton runs here and was not told to end.
func (k *Keeper) Runs(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.all[name]
	return t != nil && t.end != nil && t.ctx.Err() == nil
}

func (k *Keeper) tasks() (all []*task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.all {
		all = append(all, t)
	}
	return all
}

func (t *task) poke() {
	select {
	case t.wake <- struct{}{}:
	default: // it will look
	}
}

// here is true while a singleton may run on this node. k.mu is held.
func (k *Keeper) here(t *task) bool {
	return !k.draining && k.ctx != nil && k.ctx.Err() == nil && k.o.Holds() && k.o.Belongs(t.name)
}

// keep cares for one singleton until ctx ends.
func (k *Keeper) keep(ctx context.Context, t *task) {
	for {
		k.mu.Lock()
		here, gives := k.here(t), t.owned && (k.draining || ctx.Err() != nil || k.o.Holds())
		k.mu.Unlock()
		pause := time.Duration(-1) // until something changes
		switch {
		case here && time.Now().Before(t.again):
			pause = time.Until(t.again)
		case here:
			pause = k.turn(ctx, t)
		case gives:
			if !k.give(ctx, t) {
				pause = k.o.Pause
			}
		}
		if ctx.Err() != nil && !here {
			return // the end of the lease does what could not be done
		}
		t.wait(ctx, pause)
	}
}

// wait waits until something changes, or for the pause; < 0 = without end.
func (t *task) wait(ctx context.Context, pause time.Duration) {
	if pause < 0 {
		select {
		case <-t.wake:
		case <-ctx.Done():
		}
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.wake:
	case <-ctx.Done():
	}
}

// turn takes a singleton, and runs it if it is this node's. It returns how long to wait
// before the next turn.
func (k *Keeper) turn(ctx context.Context, t *task) time.Duration {
	running, ok := k.take(ctx, t)
	if !ok {
		return k.o.Pause
	}
	k.o.Began(t.name)
	k.news("a singleton runs on this node", "singleton", t.name, "node", k.o.Self.String())
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- guarded(running, t.run) }()
	var err error
	select {
	case err = <-done:
	case <-running.Done():
		err = k.ending(t, done, context.Cause(running))
	}
	ended := context.Cause(running)
	k.mu.Lock()
	t.end(nil)
	t.end = nil
	k.mu.Unlock()
	k.o.Ended(t.name)
	if ended != nil {
		t.failures = 0
		k.news("a singleton has ended on this node", "singleton", t.name, "node", k.o.Self.String(), "why", ended.Error())
		return 0
	}
	if time.Since(began) > maxPause {
		t.failures = 0
	}
	pause := min(firstPause<<min(t.failures, 16), maxPause)
	t.failures++
	t.again = time.Now().Add(pause)
	k.o.Log.Warn("a singleton has ended by itself, and is started again", "singleton", t.name, "error", err, "in", pause.String())
	return pause
}

// news logs where a singleton is. In a process that is alone that is no news.
func (k *Keeper) news(text string, args ...any) {
	level := slog.LevelInfo
	if k.o.Self == (conversation.Member{}) {
		level = slog.LevelDebug
	}
	k.o.Log.Log(context.Background(), level, text, args...)
}

// guarded runs it, and makes an error of a panic.
func guarded(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return run(ctx)
}

// ending waits for a run that was told to end.
func (k *Keeper) ending(t *task, done <-chan error, why error) error {
	bound := time.NewTimer(k.o.Bound)
	defer bound.Stop()
	select {
	case err := <-done:
		return err
	case <-bound.C:
	}
	k.o.Log.Error("a singleton does not end; no other node may run it before", "singleton", t.name, "node", k.o.Self.String(), "after", k.o.Bound.String(), "why", why.Error())
	return <-done
}

// take makes a singleton this node's. It is false if another one has it, or if it does not
// belong here any more.
func (k *Keeper) take(ctx context.Context, t *task) (context.Context, bool) {
	k.mu.Lock()
	if !k.here(t) {
		k.mu.Unlock()
		return nil, false
	}
	term := k.term
	if !t.owned {
		t.owned, t.idle = true, make(chan struct{}) // an answer that is lost may have said so
	}
	k.mu.Unlock()
	holder, err := k.o.Self, error(nil)
	if k.o.Table != nil {
		asking, cancel := context.WithTimeout(ctx, callTime)
		holder, err = k.o.Table.Take(asking, t.name, k.o.Self)
		cancel()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			k.o.Log.Warn("a singleton could not be taken", "singleton", t.name, "error", err)
		}
		return nil, false
	}
	if holder != k.o.Self {
		if holder != t.holder {
			k.o.Log.Info("a singleton that belongs to this node is still another one's", "singleton", t.name, "node", holder.String())
		}
		t.holder = holder
		t.gaveUp()
		return nil, false
	}
	t.holder = holder
	// While the lease was over another node may have had it, even if it holds again.
	if k.term != term || !k.here(t) {
		return nil, false
	}
	running, end := context.WithCancelCause(context.WithoutCancel(ctx))
	t.ctx, t.end = running, end
	return running, true
}

// gaveUp notes that this node does not have it. k.mu is held.
func (t *task) gaveUp() {
	if t.owned {
		t.owned = false
		close(t.idle)
	}
}

// give lets another node have a singleton.
func (k *Keeper) give(ctx context.Context, t *task) bool {
	var err error
	if k.o.Table != nil {
		// It is worth the time when the node ends, too: the others need not wait for its lease.
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(callTime, k.o.Bound))
		err = k.o.Table.Give(asking, t.name, k.o.Self)
		cancel()
	}
	if err != nil {
		k.o.Log.Warn("a singleton could not be given up", "singleton", t.name, "error", err)
		return false
	}
	k.mu.Lock()
	t.holder = conversation.Member{}
	t.gaveUp()
	k.mu.Unlock()
	k.o.Given(t.name)
	return true
}
