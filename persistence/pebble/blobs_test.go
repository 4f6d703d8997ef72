package pebble

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"parley/conversation"
	"parley/persistence/blobstest"
)

func withBlobs(db *DB) blobstest.Pair { return blobstest.Pair{Sessions: db, Blobs: Blobs(db)} }

func TestBlobs(t *testing.T) {
	blobstest.Run(t, func(t *testing.T) blobstest.Pair {
		return withBlobs(clean(t, openMem(t, vfs.NewMem(), testOptions(t))))
	})
}

func TestBlobsAreTheModel(t *testing.T) {
	blobstest.RunModel(t, func(rt *rapid.T) func() blobstest.Pair {
		fs := vfs.NewMem()
		o := Options{MemTableBytes: 256 << 10, CacheBytes: 1 << 20, OnFatal: func(err error) { rt.Fatalf("fatal: %v", err) }}
		return func() blobstest.Pair {
			db, err := openOn(fs, "store", o)
			if err != nil {
				rt.Fatalf("open: %v", err)
			}
			return withBlobs(db)
		}
	})
}

// What is attached counts for the quota of its tenant: from both sides, after a start too,
// and what is erased or swept is room again.
func TestBlobsCountForTheQuota(t *testing.T) {
	const most = 100_000
	fs := vfs.NewMem()
	open := func() *DB {
		db, err := openOn(fs, "store", Options{StoredBytesPerTenant: most})
		if err != nil {
			t.Fatal(err)
		}
		if !db.usage.Counted() {
			t.Fatal("what is stored was not counted")
		}
		return db
	}
	db := open()
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	if err := withBlobs(db).Make(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	put := func(size int, fill byte) error {
		body := make([]byte, size)
		body[0] = fill
		_, _, err := Blobs(db).Put(t.Context(), key, blobstest.File(body), crashTime0(1), body)
		return err
	}
	room := most - 512 // what a session counts for
	if err := put(room+1, 1); err == nil {
		t.Error("a byte too much was stored")
	}
	if err := put(room, 2); err != nil {
		t.Errorf("what just fits: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	defer func() { _ = db.Close() }()
	if err := put(1, 3); err == nil {
		t.Error("a start has forgotten what is attached")
	}
	if swept, err := Blobs(db).Sweep(t.Context(), crashTime0(2), 10); err != nil || swept.Blobs != 1 {
		t.Fatal(swept, err)
	}
	if err := put(room, 4); err != nil {
		t.Errorf("what was swept is no room: %v", err)
	}
	if err := db.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	key.Session = "s2"
	if err := withBlobs(db).Make(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := put(room, 5); err != nil {
		t.Errorf("what was erased is no room: %v", err)
	}
}

// Uploads at the same time have no more room together than one behind the other.
func TestBlobsAtOnceKeepTheQuota(t *testing.T) {
	const size = 10_000
	db, err := openOn(vfs.NewMem(), "store", Options{StoredBytesPerTenant: 512 + 3*size}) // 512: a session
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if !db.usage.Counted() {
		t.Fatal("what is stored was not counted")
	}
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	if err := withBlobs(db).Make(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	for round := range 10 {
		var (
			done   sync.WaitGroup
			begin  = make(chan struct{})
			stored atomic.Int64
		)
		for n := range 8 {
			done.Go(func() {
				body := make([]byte, size)
				body[0], body[1] = byte(round), byte(n)
				<-begin
				switch _, _, err := Blobs(db).Put(t.Context(), key, blobstest.File(body), crashTime0(1), body); {
				case err == nil:
					stored.Add(1)
				case !errors.Is(err, conversation.ErrQuota):
					t.Error(err)
				}
			})
		}
		close(begin)
		done.Wait()
		if n := stored.Load(); n != 3 {
			t.Errorf("round %d: %d files were stored where 3 have room", round, n)
		}
		if swept, err := Blobs(db).Sweep(t.Context(), crashTime0(2), 10); err != nil || swept.Blobs != int(stored.Load()) {
			t.Fatal(swept, err)
		}
	}
}
