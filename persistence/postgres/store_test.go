package postgres

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/persistence/persistencetest"
	"parley/persistence/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// prepared is a new database with its tables.
func prepared(t testing.TB) string {
	t.Helper()
	dsn := pgtest.Database(t)
	if _, err := Prepare(t.Context(), dsn, true, nil); err != nil {
		t.Fatal(err)
	}
	return dsn
}

func openOn(t testing.TB, dsn string, change func(*StoreOptions)) *Store {
	t.Helper()
	o := StoreOptions{DSN: dsn}
	if change != nil {
		change(&o)
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	dsn := prepared(t)
	persistencetest.Run(t, func(t *testing.T) conversation.Store {
		s := openOn(t, dsn, nil)
		empty(t, s)
		return s
	})
}

// empty takes everything out that a test before has left: that is faster than a new
// database for each.
func empty(t testing.TB, s *Store) {
	t.Helper()
	if _, err := s.acquiring.Exec(t.Context(), "truncate sessions, due, records, event_keys, snapshots, tasks, read_cursors, members, member_clusters, chat_rows, chat_feeds, chat_entries, blobs, blob_chunks, said, said_words, said_to"); err != nil {
		t.Fatal(err)
	}
}

// What is due is due by the clock of the database, also for a node whose own clock is an
// hour behind.
func TestDueByTheClockOfTheDatabase(t *testing.T) {
	dsn := prepared(t)
	behind, right := openOn(t, dsn, nil), openOn(t, dsn, nil)
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	h, err := behind.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	behind.skew.Store(int64(time.Hour))
	now := time.Now()
	c := plain(key, h)
	c.WakeAt = now.Add(-time.Hour) // what that node calls now
	if err := behind.Commit(t.Context(), key, c); err != nil {
		t.Fatal(err)
	}
	for _, ask := range []struct {
		at    *Store
		until time.Time
		want  int
	}{
		{right, now.Add(-time.Second), 0}, {right, now, 1},
		{behind, now.Add(-time.Hour - time.Second), 0}, {behind, now.Add(-time.Hour), 1},
	} {
		n := 0
		for _, err := range ask.at.Due(t.Context(), ask.until, conversation.Member{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != ask.want {
			t.Errorf("until %v before now: %d are due, want %d", now.Sub(ask.until), n, ask.want)
		}
	}
	// Clocks that are about the same keep the time that was said.
	if right.skew.Store(int64(100 * time.Millisecond)); !right.theirs(now).Equal(now) {
		t.Error("a tenth of a second was corrected")
	}
}

// A tenant may have as many sessions and store as much as is said, in the whole cluster:
// what another node has made counts.
func TestQuotasAreTheClusters(t *testing.T) {
	dsn := prepared(t)
	limited := openOn(t, dsn, func(o *StoreOptions) { o.SessionsPerTenant, o.StoredBytesPerTenant = 2, 2000 })
	other := openOn(t, dsn, nil)
	make := func(s *Store, id conversation.SessionID) error {
		key := conversation.SessionKey{Tenant: "acme", Session: id}
		h, err := s.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
		if err == nil && h.Last == 0 {
			c := plain(key, h)
			c.Events[0].Body = conversation.MessageAccepted{Message: "m1-s", ClientMsgID: "c1", Author: "alice", Text: strings.Repeat("x", 600), Disposition: conversation.Joined, Via: conversation.ViaHTTP}
			err = s.Commit(t.Context(), key, c)
		}
		return err
	}
	for _, id := range []conversation.SessionID{"s1", "s2"} {
		if err := make(other, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := make(limited, "s3"); !errors.Is(err, conversation.ErrQuota) { // the first that this node hears of the tenant
		t.Errorf("the first session by a node that has just started: %v", err)
	}
	if err := limited.Quota("acme"); !errors.Is(err, conversation.ErrQuota) {
		t.Errorf("a tenant that has stored too much: %v", err)
	}
	for id, want := range map[conversation.SessionID]error{"s1": nil, "s1/d1": nil, "s3": conversation.ErrQuota} {
		if err := make(limited, id); !errors.Is(err, want) {
			t.Errorf("session %s: %v, want %v", id, err, want)
		}
	}
	if err := limited.Quota("another"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if err := other.Delete(t.Context(), conversation.SessionKey{Tenant: "acme", Session: "s1"}); err != nil {
		t.Fatal(err)
	}
	limited.usage.sum(t.Context(), limited, false)
	if err := make(limited, "s3"); err != nil {
		t.Errorf("after an erasure: %v", err)
	}
	// The id of an erased session is not a matter of quota.
	if err := make(limited, "s1"); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("an erased session: %v", err)
	}
}
