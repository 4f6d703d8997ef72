package group

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
)

// A Write is what one session has stored at once. Whoever submits it holds the locks
// of what it changes until End is called.
type Write struct {
	Key   conversation.SessionKey
	Batch *pebble.Batch // the committer's from Submit on
	End   Ender
}

// Ender is told what became of a write.
type Ender interface {
	// End is called once, from a goroutine of the committer's: with nil when the
	// write is durable, with Setup.Writable's error if nothing was written, else its
	// outcome is unknown. It must not block.
	End(err error)
}

// Setup is what a committer works with. All are needed.
type Setup struct {
	Store *pebble.DB
	// How is asked before each batch: with Sync, but in the control of the crash tests.
	How func() *pebble.WriteOptions
	// InFlight counts the batches that may be visible and are not durable yet.
	InFlight *atomic.Int64
	// Writable is asked before each batch, and an error refuses it.
	Writable func() error
	// Dead is why no batch is sure to be durable any more, or nil.
	Dead func() error
	// Fatal is told that a batch could not be made durable; Dead must say so then.
	Fatal func(error)
	// Synced is told how many writes, and keys, one batch has made durable.
	Synced func(writes int, keys uint32)
	// MaxBytes bounds a batch; a single write may be larger.
	MaxBytes int
}

const (
	// maxWrites bounds a batch: a full one does not wait for the sync before it. More
	// would bring less: 256 commits share a sync, and take some 2 ms to apply, in which
	// the disk could work already.
	maxWrites = 256
	// maxFlying bounds the batches that are applied and not durable yet.
	maxFlying = 4
)

// A Committer makes writes durable, those that wait at the same time by one batch.
// While a batch is synced, the next one fills: so the slower the disk and the more
// the writers, the more share a sync, and nobody ever waits for company.
type Committer struct {
	with Setup

	mu      sync.Mutex
	work    sync.Cond // there is a batch to make, or Close
	waiting []*Write
	bytes   int // of waiting
	flying  int // batches between take and their sync
	closed  bool

	applied chan *batch
	spare   chan *batch
	ended   chan struct{}
}

// batch is what is applied and synced at once.
type batch struct {
	writes []*Write
	joined *pebble.Batch // that of the only write, if it is one
	keys   uint32
	begun  bool // it may be visible
	synced bool // there is a sync to wait for
	err    error
}

// Start starts a committer; Close must follow.
func Start(with Setup) *Committer {
	c := &Committer{
		with: with, applied: make(chan *batch, maxFlying), spare: make(chan *batch, maxFlying+1), ended: make(chan struct{}),
	}
	c.work.L = &c.mu
	go c.apply()
	go c.finish()
	return c
}

// Submit takes a write. It does not block.
func (c *Committer) Submit(w *Write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, w)
	c.bytes += w.Batch.Len()
	if c.ready() {
		c.work.Signal()
	}
}

// ready is true if a batch is to be made now: there is no other, or a full one waits.
func (c *Committer) ready() bool {
	switch {
	case len(c.waiting) == 0:
		return false
	case c.flying == 0:
		return true
	}
	return c.flying < maxFlying && (len(c.waiting) >= maxWrites || c.bytes >= c.with.MaxBytes)
}

// Close ends the goroutines. Nothing may be submitted any more, and all writes must
// have ended.
func (c *Committer) Close() {
	c.mu.Lock()
	c.closed = true
	c.work.Signal()
	c.mu.Unlock()
	<-c.ended
}

// apply is the goroutine that makes batches.
func (c *Committer) apply() {
	defer close(c.applied)
	for {
		c.mu.Lock()
		for !c.ready() && !c.closed {
			c.work.Wait()
		}
		if len(c.waiting) == 0 {
			c.mu.Unlock()
			return
		}
		b := c.take()
		c.mu.Unlock()
		c.write(b)
		c.applied <- b
	}
}

// take makes a batch of those that wait longest. c.mu is held.
func (c *Committer) take() *batch {
	n, bytes := 0, 0
	for n < len(c.waiting) && n < maxWrites && (n == 0 || bytes+c.waiting[n].Batch.Len() <= c.with.MaxBytes) {
		bytes += c.waiting[n].Batch.Len()
		n++
	}
	var b *batch
	select {
	case b = <-c.spare:
	default:
		b = &batch{}
	}
	b.writes = append(b.writes[:0], c.waiting[:n]...)
	left := copy(c.waiting, c.waiting[n:])
	clear(c.waiting[left:])
	c.waiting = c.waiting[:left]
	c.bytes -= bytes
	c.flying++
	return b
}

// write joins a batch's writes and hands them to Pebble, which has them visible and
// on the way to the disk when it returns.
func (c *Committer) write(b *batch) {
	b.begun, b.synced, b.err = false, false, nil
	if b.err = c.with.Writable(); b.err != nil {
		return
	}
	b.begun = true
	c.with.InFlight.Add(1)
	defer func() {
		if r := recover(); r != nil { // Pebble holds locks then: nothing would ever be written again
			b.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			c.with.Fatal(b.err)
		}
	}()
	b.join(c.with.Store)
	b.keys = b.joined.Count()
	how := c.with.How()
	if !how.Sync {
		b.err = c.with.Store.Apply(b.joined, how)
		return
	}
	// Pebble calls Fatalf and returns nil if it could not hand the batch to its log:
	// there would be no end to wait for.
	b.err = errors.Join(c.with.Store.ApplyNoSyncWait(b.joined, how), c.with.Dead())
	b.synced = b.err == nil
}

// join makes one batch of all.
func (b *batch) join(store *pebble.DB) {
	if len(b.writes) == 1 {
		b.joined = b.writes[0].Batch
		return
	}
	size := 0
	for _, w := range b.writes {
		size += w.Batch.Len()
	}
	b.joined = store.NewBatchWithSize(size) // one that grows while it is filled took a quarter of what a turn allocates
	for _, w := range b.writes {
		_ = b.joined.Apply(w.Batch, nil) // both are well formed
		_ = w.Batch.Close()
	}
}

// finish is the goroutine that waits for syncs and says so.
func (c *Committer) finish() {
	defer close(c.ended)
	for b := range c.applied {
		c.sync(b)
		c.mu.Lock()
		c.flying--
		if c.ready() {
			c.work.Signal() // while the writers are told, the next batch is on its way
		}
		c.mu.Unlock()
		if b.err == nil {
			c.with.Synced(len(b.writes), b.keys)
		}
		for _, w := range b.writes {
			w.End.End(b.err)
		}
		clear(b.writes)
		select {
		case c.spare <- b:
		default:
		}
	}
}

// sync waits until a batch is durable.
func (c *Committer) sync(b *batch) {
	if !b.begun {
		return // refused
	}
	if b.synced {
		if b.err = b.joined.SyncWait(); b.err != nil {
			c.with.Fatal(b.err) // Pebble tells only those who wait in Apply
		}
	}
	if b.err == nil {
		b.err = c.with.Dead() // a failed Apply may say nil and call Fatalf
	}
	c.with.InFlight.Add(-1)
	if b.err == nil {
		_ = b.joined.Close()
	}
}
