package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
	"parley/persistence/blobstest"
)

func withFiles(s *Store) blobstest.Pair { return blobstest.Pair{Sessions: s, Blobs: Blobs(s)} }

func TestBlobs(t *testing.T) {
	dsn := prepared(t)
	blobstest.Run(t, func(t *testing.T) blobstest.Pair {
		s := openOn(t, dsn, nil)
		empty(t, s)
		return withFiles(s)
	})
}

func TestBlobsAreTheModel(t *testing.T) {
	fewerChecks(t)
	dsn := prepared(t)
	broom := openOn(t, dsn, nil)
	blobstest.RunModel(t, func(rt *rapid.T) func() blobstest.Pair {
		empty(t, broom)
		return func() blobstest.Pair {
			s, err := Open(t.Context(), StoreOptions{DSN: dsn})
			if err != nil {
				rt.Fatalf("open: %v", err)
			}
			return withFiles(s)
		}
	})
}

var session1 = conversation.SessionKey{Tenant: "acme", Session: "s1"}

// loaned is a store with a session that has a file, on loan from noon, and a second handle.
func loaned(t *testing.T) (a, b *Store) {
	t.Helper()
	dsn := prepared(t)
	a, b = openOn(t, dsn, nil), openOn(t, dsn, nil)
	if err := withFiles(a).Make(t.Context(), session1); err != nil {
		t.Fatal(err)
	}
	if err := lend(t.Context(), a, blobNoon); err != nil {
		t.Fatal(err)
	}
	return a, b
}

var (
	blobNoon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	blobBody = bytes.Repeat([]byte("x"), blobs.ChunkBytes+1)
)

func lend(ctx context.Context, s *Store, at time.Time) error {
	_, _, err := Blobs(s).Put(ctx, session1, blobstest.File(blobBody), at, blobBody)
	return err
}

// halting has whoever does something to a table wait in the midst of it, until the function
// that it returns is called.
func halting(t *testing.T, s *Store, when, table string) (goOn func()) {
	t.Helper()
	for _, sql := range []string{
		"create or replace function halt() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(42); return coalesce(new, old); end $$",
		fmt.Sprintf("create trigger halt %s on %s for each row execute function halt()", when, table),
	} {
		if _, err := s.acquiring.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	held, err := s.reading.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec(t.Context(), "select pg_advisory_lock(42)"); err != nil {
		t.Fatal(err)
	}
	goOn = sync.OnceFunc(func() {
		if _, err := held.Exec(context.WithoutCancel(t.Context()), "select pg_advisory_unlock(42)"); err != nil {
			t.Error(err)
		}
		held.Release()
	})
	t.Cleanup(goOn)
	return goOn
}

// waiting returns when so many of a database's clients wait for locks.
func waiting(t *testing.T, s *Store, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := 0; n < want; {
		err := s.reading.QueryRow(ctx, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").Scan(&n)
		if err != nil {
			t.Fatalf("%d of %d wait: %v", n, want, err)
		}
	}
}

// Whoever is first, in the midst of what it does when the other one comes: no message is
// stored without its file, and no file stays that nothing has any more.
func TestBlobsMeet(t *testing.T) {
	later := blobNoon.Add(time.Hour)
	calls := map[string]func(ctx context.Context, s *Store) error{
		"name": func(ctx context.Context, s *Store) error {
			return withFiles(s).Name(ctx, session1, blobstest.File(blobBody))
		},
		"sweep": func(ctx context.Context, s *Store) error {
			_, err := Blobs(s).Sweep(ctx, blobNoon.Add(time.Minute), 10)
			return err
		},
		"put": func(ctx context.Context, s *Store) error { return lend(ctx, s, later) },
		"renew": func(ctx context.Context, s *Store) error {
			return Blobs(s).Renew(ctx, session1, attached.HashOf(blobBody), later)
		},
		"erase": func(ctx context.Context, s *Store) error { return s.Delete(ctx, session1) },
	}
	for _, c := range []struct {
		first, halt, table string
		second             string
		err                error // of the second
		chunks, named      int   // that are there at last
	}{
		{"sweep", "after delete", "blobs", "name", blobs.ErrGone, 0, 0},
		{"sweep", "after delete", "blobs", "renew", blobs.ErrNone, 0, 0},
		{"sweep", "after delete", "blobs", "put", nil, 2, 0},
		{"sweep", "after delete", "blobs", "sweep", nil, 0, 0},
		{"sweep", "after delete", "blobs", "erase", nil, 0, 0},
		{"name", "after update", "blobs", "sweep", nil, 2, 1},
		{"name", "after update", "blobs", "renew", nil, 2, 1},
		{"name", "after update", "blobs", "put", nil, 2, 1},
		{"name", "after update", "blobs", "erase", nil, 0, 0},
		{"put", "after update", "blobs", "sweep", nil, 2, 0},
		{"put", "after update", "blobs", "name", nil, 2, 1},
		{"put", "after update", "blobs", "erase", nil, 0, 0},
		{"renew", "after update", "blobs", "sweep", nil, 2, 0},
		{"renew", "after update", "blobs", "name", nil, 2, 1},
		{"renew", "after update", "blobs", "erase", nil, 0, 0},
		{"erase", "after delete", "blobs", "put", conversation.ErrNotFound, 0, 0},
		{"erase", "after delete", "blobs", "sweep", nil, 0, 0},
		{"erase", "after delete", "blobs", "renew", blobs.ErrNone, 0, 0},
	} {
		t.Run(c.first+" before "+c.second, func(t *testing.T) {
			a, b := loaned(t)
			goOn := halting(t, a, c.halt, c.table)
			var both sync.WaitGroup
			var first, second error
			both.Go(func() { first = calls[c.first](t.Context(), a) })
			waiting(t, b, 1)
			both.Go(func() { second = calls[c.second](t.Context(), b) })
			waiting(t, b, 2)
			goOn()
			both.Wait()
			if first != nil || !errors.Is(second, c.err) {
				t.Errorf("%s: %v, then %s: %v, want %v", c.first, first, c.second, second, c.err)
			}
			var chunks, named int
			if err := a.reading.QueryRow(t.Context(), "select (select count(*) from blob_chunks), (select count(*) from blobs where named)").Scan(&chunks, &named); err != nil {
				t.Fatal(err)
			}
			if chunks != c.chunks || named != c.named {
				t.Errorf("there are %d chunks and %d files that are named", chunks, named)
			}
		})
	}
}

// A file that comes for the first time keeps nobody from writing to its session, and goes with
// it if that is erased meanwhile.
func TestUploadKeepsNobodyWaiting(t *testing.T) {
	a, b := loaned(t)
	goOn := halting(t, a, "before insert", "blob_chunks")
	other := []byte("another")
	var both sync.WaitGroup
	var put, erased error
	both.Go(func() { _, _, put = Blobs(a).Put(t.Context(), session1, blobstest.File(other), blobNoon, other) })
	waiting(t, b, 1)
	if err := withFiles(b).Name(t.Context(), session1, blobstest.File(blobBody)); err != nil {
		t.Error(err)
	}
	if err := withFiles(b).Name(t.Context(), session1, blobstest.File(other)); !errors.Is(err, blobs.ErrGone) {
		t.Errorf("a file that is not stored yet was named: %v", err)
	}
	both.Go(func() { erased = b.Delete(t.Context(), session1) })
	waiting(t, b, 2)
	goOn()
	both.Wait()
	var chunks int
	err := a.reading.QueryRow(t.Context(), "select count(*) from blob_chunks").Scan(&chunks)
	if err := errors.Join(put, erased, err); err != nil || chunks != 0 {
		t.Errorf("%d chunks are left, %v", chunks, err)
	}
}

// What is attached counts for the quota of its tenant: from both sides, in the whole cluster,
// and what is erased or swept is room again.
func TestBlobsCountForTheQuota(t *testing.T) {
	const most = 100_000
	dsn := prepared(t)
	limit := func(o *StoreOptions) { o.StoredBytesPerTenant = most }
	s, other := openOn(t, dsn, limit), openOn(t, dsn, limit)
	key := session1
	put := func(s *Store, size int, fill byte) error {
		body := make([]byte, size)
		body[0] = fill
		_, _, err := Blobs(s).Put(t.Context(), key, blobstest.File(body), blobNoon, body)
		return err
	}
	if err := withFiles(s).Make(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	room := most - 512 // what a session counts for
	if err := put(s, room+1, 1); !errors.Is(err, conversation.ErrQuota) {
		t.Errorf("a byte too much: %v", err)
	}
	if err := put(s, room, 2); err != nil {
		t.Errorf("what just fits: %v", err)
	}
	for name, s := range map[string]*Store{"this node": s, "another": other} {
		if err := put(s, 1, 3); !errors.Is(err, conversation.ErrQuota) {
			t.Errorf("more than that at %s: %v", name, err)
		}
		if err := put(s, room, 2); err != nil {
			t.Errorf("the same once more at %s: %v", name, err)
		}
	}
	if swept, err := Blobs(s).Sweep(t.Context(), blobNoon.Add(time.Second), 10); err != nil || swept.Blobs != 1 {
		t.Fatal(swept, err)
	}
	s.usage.sum(t.Context(), s, false)
	if err := put(s, room, 4); err != nil {
		t.Errorf("what was swept is no room: %v", err)
	}
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	s.usage.sum(t.Context(), s, false)
	key.Session = "s2"
	if err := errors.Join(withFiles(s).Make(t.Context(), key), put(s, room, 5)); err != nil {
		t.Errorf("what was erased is no room: %v", err)
	}
}

// A loan ends by the clock of the database, also for a node whose own clock is an hour behind.
func TestLoansByTheClockOfTheDatabase(t *testing.T) {
	behind, right := loaned(t)
	behind.skew.Store(int64(time.Hour))
	if err := lend(t.Context(), behind, blobNoon); err != nil { // renews
		t.Fatal(err)
	}
	if is, err := Blobs(behind).Stat(t.Context(), session1, attached.HashOf(blobBody)); err != nil || !is.At.Equal(blobNoon) {
		t.Errorf("by its own clock it was stored at %v, %v", is.At, err)
	}
	for _, ask := range []struct {
		at   *Store
		time time.Time
		want int
	}{{right, blobNoon.Add(time.Hour), 0}, {behind, blobNoon, 0}, {behind, blobNoon.Add(time.Second), 1}} {
		if swept, err := Blobs(ask.at).Sweep(t.Context(), ask.time, 10); err != nil || swept.Blobs != ask.want {
			t.Errorf("before %v: %+v, %v", ask.time, swept, err)
		}
	}
}

// Files that one node stores at the same time keep the quota together.
func TestBlobsAtOnceKeepTheQuota(t *testing.T) {
	const most, size, files = 100_000, 10_000, 24
	s := openOn(t, prepared(t), func(o *StoreOptions) { o.StoredBytesPerTenant = most })
	if err := withFiles(s).Make(t.Context(), session1); err != nil {
		t.Fatal(err)
	}
	var stored atomic.Int64
	var all sync.WaitGroup
	for n := range files {
		all.Go(func() {
			body := make([]byte, size)
			body[0] = byte(n)
			switch _, _, err := Blobs(s).Put(t.Context(), session1, blobstest.File(body), blobNoon, body); {
			case err == nil:
				stored.Add(1)
			case !errors.Is(err, conversation.ErrQuota):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if want := int64(most-512) / size; stored.Load() != want {
		t.Errorf("%d files were stored, %d have room", stored.Load(), want)
	}
}
