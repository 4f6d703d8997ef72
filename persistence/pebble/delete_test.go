package pebble

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// heldSync is a file system whose syncs of logs wait while it is armed.
type heldSync struct {
	vfs.FS
	armed   atomic.Bool
	entered chan struct{} // gets a value when a sync begins to wait
	release chan struct{} // closed: syncs go on
}

func holdSync(fs vfs.FS) *heldSync {
	h := &heldSync{entered: make(chan struct{}, 100), release: make(chan struct{})}
	h.FS = errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if h.armed.Load() && strings.HasSuffix(op.Path, ".log") {
				h.entered <- struct{}{}
				<-h.release
			}
		}
		return nil
	}))
	return h
}

// Close waits for the calls that run: a commit on its way to the disk is finished, and
// nothing is taken down under it.
func TestCloseWaitsForCalls(t *testing.T) {
	fs := holdSync(vfs.NewMem())
	db := openMem(t, fs, testOptions(t))
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	var ahead atomic.Bool
	through := make(chan struct{}) // the commit is
	unwatch := db.unwatch
	db.unwatch = func() { // the first thing that is taken down
		ahead.Store(true)
		<-through
		unwatch()
	}
	fs.armed.Store(true)
	committed, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		defer close(through)
		committed <- db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 0))
	}()
	<-fs.entered
	go func() { closed <- db.Close() }()
	for db.life.TryRLock() { // until Close waits for the call, or has gone ahead
		db.life.RUnlock()
		if ahead.Load() {
			break
		}
		runtime.Gosched()
	}
	if ahead.Load() {
		t.Error("the store is taken down while a commit is on its way")
	}
	fs.armed.Store(false)
	close(fs.release)
	if err := errors.Join(<-committed, <-closed); err != nil {
		t.Error(err)
	}
	if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, following(0))); !errors.Is(err, conversation.ErrClosed) {
		t.Errorf("a commit after that: %v", err)
	}
}

// An erasure waits for the commits of sub-sessions that are on their way to the
// disk: if it went past one of them, the sub-session would be stored without the
// session that it belongs to.
func TestEraseWaitsForSubSessions(t *testing.T) {
	fs := holdSync(vfs.NewMem())
	db := openMem(t, fs, testOptions(t))
	root := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	sub := conversation.SessionKey{Tenant: "acme", Session: "s1/d1"}
	heads := map[conversation.SessionKey]conversation.Head{}
	for _, k := range []conversation.SessionKey{root, sub} {
		h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		heads[k] = h
	}

	fs.armed.Store(true)
	committed, erased := make(chan error, 1), make(chan error, 1)
	go func() { committed <- db.Commit(t.Context(), sub, crashCommit(sub, heads[sub].Epoch, 0)) }()
	<-fs.entered
	go func() { erased <- db.Delete(t.Context(), root) }()
	// Until the erasure asks for the tree; and a while longer, for one that gets it.
	tree := db.cache.Use(root)
	for asked := 0; asked < 1000; runtime.Gosched() {
		if asked > 0 || !tree.Tree.TryRLock() {
			asked++
		} else {
			tree.Tree.RUnlock()
		}
		if _, closer, err := db.p.Get(layout.KeyTombstone(nil, root)); err == nil {
			_ = closer.Close()
			t.Error("the session was erased while a commit of its sub-session was on its way")
			break
		}
	}
	db.cache.Release(root, tree)
	fs.armed.Store(false)
	close(fs.release)

	if err := <-committed; err != nil {
		t.Errorf("the commit before the erasure: %v", err)
	}
	if err := <-erased; err != nil {
		t.Fatal(err)
	}
	for k, h := range heads {
		if _, err := db.Head(t.Context(), k); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("the head of %s: %v", k, err)
		}
		if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 0)); !errors.Is(err, conversation.ErrFenced) {
			t.Errorf("a commit to %s after the erasure: %v", k, err)
		}
	}
	if due, err := listOf(db.Due(t.Context(), crashTime0(1<<40), conversation.Member{})); err != nil || len(due) > 0 {
		t.Errorf("due: %v, %v", due, err)
	}
}

// An erasure leaves no range tombstone: all that a memory table has are sorted
// anew at the first read after each new one, so that each read of anybody would cost
// time for every session that was erased since the last flush.
func TestErasuresLeaveNoRanges(t *testing.T) {
	o := testOptions(t)
	o.ErasePause = time.Hour // clearing covers them with ranges, and flushes at once
	db := openMem(t, vfs.NewMem(), o)
	for n := range 100 {
		id := conversation.SessionID(fmt.Sprint("s", n))
		say(t, db, id, "words")
		say(t, db, id+"/d1", "a delegate's words")
	}
	for n := range 100 {
		if err := db.Delete(t.Context(), conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprint("s", n))}); err != nil {
			t.Fatal(err)
		}
	}
	ranges := 0
	err := db.p.ScanInternal(t.Context(), block.CategoryUnknown, []byte{0}, []byte{0xff},
		func(*pebble.InternalKey, pebble.LazyValue, pebble.IteratorLevel) error { return nil },
		func(_, _ []byte, _ pebble.SeqNum) error { ranges++; return nil },
		nil, nil, nil)
	if err != nil || ranges > 0 {
		t.Errorf("100 erasures left %d range tombstones, %v", ranges, err)
	}
}
