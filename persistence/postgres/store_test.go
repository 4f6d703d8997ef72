package postgres

import (
	"os"
	"testing"

	"parley/conversation"
	"parley/persistence/persistencetest"
	"parley/persistence/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// openStore is a store in a database of its own.
func openStore(t testing.TB, change func(*StoreOptions)) *Store {
	t.Helper()
	dsn := pgtest.Database(t)
	if _, err := Prepare(t.Context(), dsn, true, nil); err != nil {
		t.Fatal(err)
	}
	return openOn(t, dsn, change)
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
	dsn := pgtest.Database(t)
	if _, err := Prepare(t.Context(), dsn, true, nil); err != nil {
		t.Fatal(err)
	}
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
	if _, err := s.acquiring.Exec(t.Context(), "truncate sessions, due, records, event_keys, snapshots, tasks, read_cursors, members, member_clusters"); err != nil {
		t.Fatal(err)
	}
}
