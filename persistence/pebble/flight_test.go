package pebble

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/metrics"
	"parley/persistence/pebble/internal/layout"
)

// Commits that wait at the same time share a batch and a sync; and who is told of a
// commit waits for nothing meanwhile, nor does who asks what a session may hold.
func TestToldCommitsShareASync(t *testing.T) {
	fs := holdSync(vfs.NewMem())
	registry := metrics.NewRegistry()
	o := testOptions(t)
	o.Metrics = metrics.NewPersistence(registry)
	db := openMem(t, fs, o)
	const sessions = 50
	var heads [sessions]conversation.Head
	for i := range heads {
		var err error
		if heads[i], err = db.Acquire(t.Context(), crashKey(4*i), conversation.AcquireHow{Create: true}); err != nil {
			t.Fatal(err)
		}
	}
	synced := func() (writes float64, batches uint64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "parley_store_writes_per_sync" {
				h := f.GetMetric()[0].GetHistogram()
				return h.GetSampleSum(), h.GetSampleCount()
			}
		}
		t.Fatal("no writes_per_sync")
		return 0, 0
	}
	writes, batches := synced()

	fs.armed.Store(true)
	told := make(chan error, sessions)
	for i := range heads {
		c := crashCommit(crashKey(4*i), heads[i].Epoch, 0)
		// As CommitAsync does, but with nobody who waits instead.
		if err := db.send(t.Context(), crashKey(4*i), &c, func(err error) { told <- err }, false); err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
		if i == 0 {
			<-fs.entered // all others wait for the sync of this one
		}
		if db.MayHold(crashKey(4*i), conversation.Key{Author: "alice", Client: "never"}) {
			t.Errorf("session %d may hold what was never said", i)
		}
	}
	if len(told) > 0 {
		t.Errorf("%d commits were told before their sync", len(told))
	}
	fs.armed.Store(false)
	close(fs.release)
	for range sessions {
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
	nowWrites, nowBatches := synced()
	if nowWrites-writes != sessions || nowBatches-batches != 2 {
		t.Errorf("%v commits in %d batches, want %d in 2", nowWrites-writes, nowBatches-batches, sessions)
	}
	for i := range heads {
		if key := crashCommit(crashKey(4*i), 1, 0).Keys[0].Key; !db.MayHold(crashKey(4*i), key) {
			t.Errorf("session %d holds %s, and MayHold says no", i, key)
		}
	}
}

// A commit that would have to read goes the way of one that waits, and is told as well.
func TestToldCommitsThatRead(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(*conversation.Commit){
		func(*conversation.Commit) { db.forget(k) }, // its head, and its keys
		func(c *conversation.Commit) { c.Cursors = []conversation.Cursor{{User: "bob", Seq: 1}} },
		func(c *conversation.Commit) { c.Summary = conversation.Summary{} },
	} {
		c := crashCommit(k, h.Epoch, h.Last)
		c.Cursors = nil
		change(&c)
		told := make(chan error, 1)
		db.CommitAsync(t.Context(), k, &c, func(err error) { told <- err })
		if err := <-told; err != nil {
			t.Errorf("commit %d: %v", i, err)
		}
		h.Last = following(h.Last)
		if at, err := db.Head(t.Context(), k); err != nil || at.Last != h.Last {
			t.Errorf("commit %d: the head is %+v, %v", i, at, err)
		}
	}
}

// A commit that panics on its way, on a summary or an event that cannot be written,
// leaves the session and the store as they were.
func TestPanicBeforeTheCommitterGivesTheLocksBack(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	bad := crashCommit(k, h.Epoch, 0)
	bad.Events[0].Body = nil
	func() {
		defer func() {
			if recover() == nil {
				t.Error("an event without a body was written")
			}
		}()
		db.CommitAsync(t.Context(), k, &bad, func(err error) { t.Error(fmt.Errorf("told: %w", err)) })
	}()
	if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 0)); err != nil {
		t.Error(err)
	}
}

// Nor does it end the process if it had to wait or to read first: it is told, once.
func TestPanicOfACommitThatReadsIsTold(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	k := crashKey(0)
	h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	db.forget(k)
	bad := crashCommit(k, h.Epoch, 0)
	bad.Events[0].Body = nil
	told := make(chan error, 2)
	db.CommitAsync(t.Context(), k, &bad, func(err error) { told <- err })
	if err := <-told; err == nil {
		t.Error("an event without a body was written")
	}
	if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, 0)); err != nil {
		t.Error(err)
	}
	if len(told) > 0 {
		t.Errorf("told twice: %v", <-told)
	}
}

// After a restart nothing is known of a session's keys: the disk is asked once, then
// they are all read, and a new one needs no look at the disk any more. Not if they are
// more than a filter holds.
func TestKeysAreReadAfterRestart(t *testing.T) {
	for _, want := range []struct {
		stored int
		known  bool
	}{{300, true}, {3500, false}} {
		fs := vfs.NewMem()
		k := crashKey(0)
		fill, err := openOn(fs, "store", testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		h, err := fill.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		commit := func(db *DB, keys ...conversation.Key) error {
			c := crashCommit(k, h.Epoch, h.Last)
			c.Keys = nil
			for _, key := range keys {
				c.Keys = append(c.Keys, conversation.KeyAt{Key: key, Seq: h.Last + 1})
			}
			err := db.Commit(t.Context(), k, c)
			if err == nil {
				h.Last = following(h.Last)
			}
			return err
		}
		message := func(n int) conversation.Key {
			return conversation.Key{Author: "alice", Client: conversation.ClientMsgID(fmt.Sprint(n))}
		}
		var stored []conversation.Key
		for n := range want.stored / 2 {
			stored = append(stored, message(n), conversation.Key{Source: "n", Part: conversation.PartIndex(n)})
		}
		old := fill.p.Set(layout.KeyLegacyPart(nil, k, "old"), layout.AppendU64(nil, 1), pebble.Sync)
		if err := errors.Join(old, commit(fill, stored...), fill.Close()); err != nil {
			t.Fatal(err)
		}

		stored = append(stored, conversation.Key{Source: "old"}) // of before parts had an index

		db := openMem(t, fs, testOptions(t))
		if h, err = db.Acquire(t.Context(), k, conversation.AcquireHow{}); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			absent := 0 // of a hundred keys that are not stored; a filter may take a few for stored ones
			for i := range 100 {
				if !db.MayHold(k, message(-100-i)) {
					absent++
				}
			}
			if known := n >= 2 && want.known; known && absent < 90 || !known && absent > 0 {
				t.Errorf("%d keys, %d commits after the restart: %d of 100 are known to be absent", want.stored, n, absent)
			}
			if err := commit(db, message(-1-n)); err != nil {
				t.Fatal(err)
			}
			stored = append(stored, message(-1-n))
		}
		for _, key := range stored {
			var dup *conversation.DuplicateError
			if !db.MayHold(k, key) {
				t.Fatalf("%s is stored, and MayHold says no", key)
			} else if err := commit(db, key); !errors.As(err, &dup) {
				t.Fatalf("%s again: %v", key, err)
			}
		}
	}
}
