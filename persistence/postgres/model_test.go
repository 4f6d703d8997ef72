package postgres

import (
	"flag"
	"testing"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/persistence/persistencetest"
)

// TestMemoryIsTheModel compares every answer with that of the map-backed store. It does as
// much as -rapid.checks says, and half of it with -short: each answer is a round trip.
func TestMemoryIsTheModel(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); testing.Short() && checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("50"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
	}
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
