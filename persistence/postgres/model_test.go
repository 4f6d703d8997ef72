package postgres

import (
	"flag"
	"testing"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/persistence/persistencetest"
)

// fewerChecks has rapid do as much as -rapid.checks says, and half of it with -short: each
// answer is a round trip.
func fewerChecks(t *testing.T) {
	t.Helper()
	if checks := flag.Lookup("rapid.checks"); testing.Short() && checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("50"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
	}
}

// TestMemoryIsTheModel compares every answer with that of the map-backed store.
func TestMemoryIsTheModel(t *testing.T) {
	fewerChecks(t)
	dsn := prepared(t)
	broom := openOn(t, dsn, nil)
	persistencetest.RunModel(t, func(rt *rapid.T) (func() conversation.Store, func(conversation.Store) error) {
		empty(t, broom)
		return func() conversation.Store {
			s, err := Open(t.Context(), StoreOptions{DSN: dsn})
			if err != nil {
				rt.Fatalf("open: %v", err)
			}
			return s
		}, nil
	})
}
