package store

import (
	"context"
	"fmt"
	"strings"

	"parley/persistence/move"
	"parley/persistence/pebble"
	"parley/persistence/postgres"
)

// Moving is a store that is carried to another place, or is the new place for one.
type Moving struct {
	move.Installation
	shared *postgres.Store // nil: a data directory, which is this process's alone
}

// LivingError says that nodes work with a database that has to be left alone.
type LivingError struct{ Nodes []string }

func (e *LivingError) Error() string {
	return fmt.Sprintf("the database is in use by %s; stop every node first (one that was killed counts until its lease has run out)", strings.Join(e.Nodes, ", "))
}

// MoveDirectory opens the store of a data directory that no process has open: for reading
// alone, or, with write, to be filled. Then it is made if there is none, and knows no limits.
func MoveDirectory(dir string, write bool, o Options) (*Moving, error) {
	if !write {
		db, err := pebble.OpenReadOnly(dir, o)
		if err != nil {
			return nil, err
		}
		return &Moving{Installation: pebble.Installation(db)}, nil
	}
	o.SessionsPerTenant, o.StoredBytesPerTenant = 0, 0
	made, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	db, ok := made.(*pebble.DB)
	if !ok {
		_ = made.Close()
		return nil, fmt.Errorf("there is no data directory: the store is in memory")
	}
	return &Moving{Installation: pebble.Installation(db)}, nil
}

// MoveShared opens the store in a database with which no node works. With write its tables
// may be made or upgraded first, as o says, and it knows no limits.
func MoveShared(ctx context.Context, o SharedOptions, write bool) (*Moving, error) {
	if _, err := Migrate(ctx, o.DSN, write && o.Migrate, o.Logger); err != nil {
		return nil, err
	}
	o.SessionsPerTenant, o.StoredBytesPerTenant = 0, 0
	db, err := postgres.Open(ctx, o.StoreOptions)
	if err != nil {
		return nil, err
	}
	m := &Moving{postgres.Installation(db), db}
	if err := m.Alone(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return m, nil
}

// Alone is a *LivingError while nodes work with the store.
func (m *Moving) Alone(ctx context.Context) error {
	if m.shared == nil {
		return nil
	}
	nodes, err := postgres.Living(ctx, m.shared)
	if err == nil && len(nodes) > 0 {
		err = &LivingError{nodes}
	}
	return err
}
