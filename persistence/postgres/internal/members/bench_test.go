package members

import (
	"fmt"
	"testing"
	"time"

	"parley/persistence/postgres/internal/opening"
	"parley/persistence/postgres/pgtest"
)

// BenchmarkRenew is one renewal in a cluster of that many nodes, on a server that waits
// for its disk. A node renews five times in a lease.
func BenchmarkRenew(b *testing.B) {
	if pgtest.Missing() != "" {
		b.Skip("NOT RUN: ", pgtest.Missing())
	}
	server := pgtest.Open(b, pgtest.Settings{Sync: true})
	for _, nodes := range []int{3, 100} {
		b.Run(fmt.Sprintf("of_%d", nodes), func(b *testing.B) {
			dsn := server.NewDatabase(b)
			c, err := opening.Pool(dsn)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := opening.Prepare(b.Context(), c.ConnConfig, opening.Terms{Migrate: true}); err != nil {
				b.Fatal(err)
			}
			list, err := Open(c, "main")
			if err != nil {
				b.Fatal(err)
			}
			defer list.Close()
			me := who("n")
			for i := range nodes {
				me = who(fmt.Sprintf("n%d", i))
				if me.Member, err = list.Join(b.Context(), me, time.Hour); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := list.Renew(b.Context(), me); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
