package postgres

import (
	"testing"

	"parley/persistence/clustertest"
	"parley/persistence/postgres/pgtest"
)

func TestTwoNodesShareAStore(t *testing.T) {
	dsn := pgtest.Database(t)
	if _, err := Prepare(t.Context(), dsn, true, nil); err != nil {
		t.Fatal(err)
	}
	clustertest.RunShared(t, func(t *testing.T) clustertest.Shared {
		a, b := openOn(t, dsn, nil), openOn(t, dsn, nil)
		empty(t, a)
		return clustertest.Shared{A: a, B: b, List: listOn(t, dsn)}
	})
}

func listOn(t *testing.T, dsn string) Members {
	t.Helper()
	list, err := OpenMembers(dsn, "main")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(list.Close)
	return list
}
