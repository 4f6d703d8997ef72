package move_test

import (
	"bytes"
	"fmt"
	"testing"

	"parley/persistence/move"
	"parley/persistence/pebble"
	"parley/persistence/postgres"
	"parley/persistence/postgres/pgtest"
)

// BenchmarkIn reads 2,000 sessions of five commits each into a database that waits for its
// disk.
func BenchmarkIn(b *testing.B) {
	if pgtest.Missing() != "" {
		b.Skip("NOT RUN: ", pgtest.Missing())
	}
	db, err := pebble.OpenEphemeral(pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	source := pebble.Installation(db)
	for i := range 2000 {
		wrote(b, source, key(fmt.Sprintf("s%015d", i)), 5, nil)
	}
	file := written(b, source)
	server := pgtest.Open(b, pgtest.Settings{Sync: true})
	for b.Loop() {
		dsn := server.NewDatabase(b)
		if _, err := postgres.Prepare(b.Context(), dsn, true, nil); err != nil {
			b.Fatal(err)
		}
		s, err := postgres.Open(b.Context(), postgres.StoreOptions{DSN: dsn})
		if err != nil {
			b.Fatal(err)
		}
		got, err := move.In(b.Context(), bytes.NewReader(file), postgres.Installation(s), quiet)
		if err != nil || got != (move.Totals{Sessions: 2000, Records: 10000}) {
			b.Fatal(got, err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
