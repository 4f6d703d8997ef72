package pebble

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/blobs"
	"parley/persistence/internal/seen"
	"parley/persistence/pebble/internal/blobrows"
	"parley/persistence/pebble/internal/group"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/writers"
)

// A flight is a commit on its way to the disk. From the checks until it is durable it
// has the locks of its session, so that no reader sees it, and keeps Close waiting.
type flight struct {
	db     *DB
	w      writers.Held
	head   layout.Head // after it
	hashes []uint64    // of its keys
	stored uint64      // what the session counted for before
	events int
	begun  time.Time
	out    group.Write
	done   func(error)
}

// errWait ends the attempt to commit without waiting or reading.
var errWait = errors.New("the commit would have to wait")

// Commit implements conversation.Store.
func (db *DB) Commit(ctx context.Context, key conversation.SessionKey, c conversation.Commit) error {
	end := make(ended, 1)
	if err := db.send(ctx, key, &c, end.End, true); err != nil {
		return db.failed(key, err)
	}
	return <-end
}

// CommitAsync implements conversation.Store. A commit that has to wait or to read, or
// to be refused, goes the way of Commit: there is one place that decides.
func (db *DB) CommitAsync(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error)) {
	if db.send(ctx, key, c, done, false) != nil {
		go func() { done(db.commitSafely(ctx, key, c)) }()
	}
}

// commitSafely is Commit in a goroutine that no caller watches: a commit that cannot
// be written, which costs a caller of its own one session, must not end the process.
func (db *DB) commitSafely(ctx context.Context, key conversation.SessionKey, c *conversation.Commit) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = db.failed(key, fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
		}
	}()
	return db.Commit(ctx, key, *c)
}

// MayHold implements conversation.Store.
func (db *DB) MayHold(key conversation.SessionKey, k conversation.Key) bool {
	return db.cache.MayHold(key, db.cache.Hash(k))
}

// send puts a commit on its way; done is called with what comes of it, but not if
// send fails: then nothing was written. It may wait for the session's locks and read
// the disk only with wait.
func (db *DB) send(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error), wait bool) error {
	f := flights.Get().(*flight)
	f.db, f.begun, f.events, f.done = db, time.Now(), len(c.Events), done
	if err := f.lock(ctx, key, wait); err != nil {
		flights.Put(f)
		return err
	}
	sent := false
	defer func() {
		if !sent { // a panic, too, gives the locks back
			f.w.Unlock()
			f.land()
		}
	}()
	if err := f.prepare(c, wait); err != nil {
		return err
	}
	sent = true
	db.group.Submit(&f.out)
	return nil
}

var flights = sync.Pool{New: func() any { return &flight{} }}

// lock takes what a flight holds.
func (f *flight) lock(ctx context.Context, key conversation.SessionKey, wait bool) error {
	db := f.db
	if wait {
		if err := db.enter(ctx); err != nil {
			return err
		}
		f.w = db.cache.Lock(key)
		return nil
	}
	if !db.life.TryRLock() {
		return errWait
	}
	ok := !db.closed && ctx.Err() == nil
	if ok {
		f.w, ok = db.cache.TryLock(key)
	}
	if !ok {
		db.leave()
		return errWait
	}
	return nil
}

// land lets Close go on, and gives the flight back.
func (f *flight) land() {
	f.db.leave()
	*f = flight{hashes: f.hashes[:0]}
	flights.Put(f)
}

// prepare checks a commit against what is stored, and encodes what it writes.
func (f *flight) prepare(c *conversation.Commit, wait bool) error {
	db := f.db
	if err := db.writable(); err != nil {
		return err
	}
	key, own := f.w.Key, f.w.Own
	f.head = own.Cached.Stored()
	if f.head.Row.Epoch == 0 || c.Summary.CreatedAt.IsZero() { // the summary stays as it is stored
		if !wait {
			return errWait
		}
		stored, err := loadHead(db.p, key)
		if err != nil {
			return unread(err)
		}
		if stored == nil {
			return conversation.ErrFenced
		}
		f.head = *stored
	}
	if f.head.Row.Epoch != c.Epoch {
		return conversation.ErrFenced
	}
	if f.head.Row.Last != c.After {
		return conversation.ErrConflict
	}
	for i, e := range c.Events {
		if want := c.After + conversation.Seq(i) + 1; e.Seq != want {
			return fmt.Errorf("%w: event %d of the commit has seq %d instead of %d", conversation.ErrConflict, i, e.Seq, want)
		}
	}
	buf := db.buffer()
	defer db.putBuffer(buf)
	if err := f.unique(buf, c.Keys, wait); err != nil {
		return err
	}
	if err := db.Room(c.Inner); err != nil {
		return err
	}
	if !wait && (len(c.Cursors) > 0 || len(blobs.Named(c.Events)) > 0) {
		return errWait // what is stored is read
	}
	b := db.p.NewBatch()
	f.stored = f.head.Row.Stored
	if err := errors.Join(blobrows.Name(b, db.p, key, c.Events), db.fill(b, buf, key, &f.head, c)); err != nil {
		_ = b.Close()
		return unread(err)
	}
	own.Cached = writers.Known{} // until the batch is durable
	f.out = group.Write{Key: key, Batch: b, End: f}
	return nil
}

// unique fails with *DuplicateError if one of the keys is stored, or twice in
// keys; else it notes their hashes.
func (f *flight) unique(buf *[]byte, keys []conversation.KeyAt, wait bool) error {
	db := f.db
	f.hashes = f.hashes[:0]
	if wait && len(keys) > 0 {
		db.cache.ReadKeys(db.p, f.w.Key, f.w.Own)
	}
	for i, k := range keys {
		hash := db.cache.Hash(k.Key)
		seq := conversation.Seq(0)
		if db.cache.MayHold(f.w.Key, hash) {
			if !wait {
				return errWait
			}
			var err error
			if seq, err = db.seqOf(buf, f.w.Key, k.Key); err != nil {
				return unread(err)
			}
		}
		for j := 0; j < i && seq == 0; j++ {
			if f.hashes[j] == hash && sameKey(keys[j].Key, k.Key) {
				seq = keys[j].Seq
			}
		}
		if seq != 0 {
			return &conversation.DuplicateError{Key: k.Key, Seq: seq}
		}
		f.hashes = append(f.hashes, hash)
	}
	return nil
}

// End implements group.Ender.
func (f *flight) End(err error) {
	db, key, own, done := f.db, f.w.Key, f.w.Own, f.done
	if err == nil {
		db.usage.Add(key, int64(f.head.Row.Stored-f.stored), false)
		own.Cached.Update(&f.head)
		db.cache.AddKeys(key, own, f.hashes)
		db.metrics.CommitSeconds.Observe(time.Since(f.begun).Seconds())
		db.metrics.CommitEvents.Observe(float64(f.events))
	} else {
		db.cache.SetKeys(key, own, seen.Keys{}) // they may be stored or not
		err = db.failed(key, err)
	}
	db.said.Goes(key)
	f.w.Unlock()
	done(err)
	f.land() // Close returns when all has been told
}

// failed counts a commit that failed.
func (db *DB) failed(key conversation.SessionKey, err error) error {
	db.countFailure(err)
	return fmt.Errorf("commit to %s: %w", key, err)
}
