package pebble

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/pebble/internal/inspect"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/ondisk"
)

// Checkpoint writes a copy of the store, as of now, into dest, which must not
// exist. It links files where it can, so it takes milliseconds and no space as
// long as dest is on the same disk; writers go on. The copy is opened like any
// store, or made one of its own with Restore. Copying the directory of a running
// store with other tools gives a broken copy.
func (db *DB) Checkpoint(ctx context.Context, dest string) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	if err := db.writable(); err != nil { // Pebble's would leave half a store
		return err
	}
	if err := db.p.Checkpoint(dest, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("back up to %s: %w", dest, err)
	}
	return nil
}

// Restore makes the store in dir a copy of the one that Checkpoint wrote to src.
// dir must be absent or empty. The copy gets a log id of its own, so that clients
// notice that what they saw last may never have happened. Errors are *OpenError
// where the directories are to blame.
func Restore(src, dir string, o Options) error {
	fs := vfs.Default
	names, err := fs.List(dir)
	if err == nil && len(names) > 0 {
		return &OpenError{Dir: dir, Reason: OpenForeign, Sentence: fmt.Sprintf("cannot restore into %s: it is not empty", dir)}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return inspect.Explain(dir, err)
	}
	listing, err := ondisk.Look(fs, src, ondisk.Unknown)
	if err != nil {
		return inspect.Explain(src, err)
	}
	if listing.Kind != ondisk.Store {
		return inspect.Foreign(src)
	}
	if ok, err := vfs.Clone(fs, fs, src, dir, vfs.CloneSync); err != nil || !ok {
		return inspect.Explain(dir, fmt.Errorf("copy %s: %w", src, err))
	}
	db, err := Open(dir, o)
	if err != nil {
		return err
	}
	err = db.p.Set(layout.KeyLog, []byte(newLogID()), pebble.Sync)
	return errors.Join(err, db.health.dead(), db.Close())
}
