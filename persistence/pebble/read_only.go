package pebble

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/pebble/internal/inspect"
	"parley/persistence/pebble/internal/ondisk"
	"parley/persistence/pebble/internal/opening"
	"parley/persistence/pebble/internal/writers"
)

// ErrReadOnly is the answer to a write where the store was opened with OpenReadOnly.
var ErrReadOnly = ondisk.ErrReadOnly

// OpenReadOnly opens the store in dir and changes nothing there: no file is made,
// written, renamed or removed, and no time of one changes; LOCK is locked for reading
// if it is there. Reads work; Acquire, Commit and Delete fail with ErrReadOnly. As
// long as it is open no process can open the store for writing, others may read it
// too, and a store that a running process has is refused with OpenInUse. A directory
// that was never locked, like that of a checkpoint, is read without a lock.
// Errors are *OpenError; OpenAbsent says that there is no store.
func OpenReadOnly(dir string, o Options) (*DB, error) {
	return openReadOnlyOn(vfs.Default, dir, o)
}

func openReadOnlyOn(fs vfs.FS, dir string, o Options) (*DB, error) {
	o = o.filled()
	lock, found, err := inspectToRead(fs, dir, o, nil)
	if err != nil {
		return nil, err
	}
	if found.Lost > 0 {
		o.Logger.Warn("the end of the log cannot be read", "file", found.Where, "bytes", found.Lost)
	}
	db, err := startReadOnly(ondisk.ReadOnly(fs), dir, o, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return db, nil
}

// inspectToRead looks at a store as Open does, under a lock that the caller closes;
// look is certify's.
func inspectToRead(fs vfs.FS, dir string, o Options, look func(*pebble.DB) error) (*pebble.Lock, *inspect.Findings, error) {
	listing, err := ondisk.Look(fs, dir, ondisk.Unknown)
	switch {
	case listing == nil && !errors.As(err, new(*ondisk.Damage)):
		return nil, nil, inspect.Explain(dir, err)
	case listing != nil && len(listing.Names) == 0:
		return nil, nil, inspect.Absent(dir)
	case listing != nil && listing.Kind == ondisk.Foreign:
		return nil, nil, inspect.Foreign(dir)
	}
	names, err := fs.List(dir)
	if err != nil {
		return nil, nil, inspect.Explain(dir, err)
	}
	lock, err := lockToRead(fs, dir, names)
	if err != nil {
		return nil, nil, err
	}
	found, err := inspect.Directory(fs, dir, inspect.BootID(fs), uint64(format), slices.Contains(names, pidFile))
	if err == nil && found.Listing.Kind == ondisk.Nothing {
		err = inspect.Absent(dir)
	}
	if err == nil {
		var exists bool
		if exists, err = certify(found, fs, dir, o, lock, look); err == nil && !exists {
			err = inspect.Absent(dir)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(inspect.Explain(dir, err), lock.Close())
	}
	return lock, found, nil
}

func startReadOnly(fs vfs.FS, dir string, o Options, lock *pebble.Lock) (*DB, error) {
	h := &health{log: o.Logger, onFatal: o.OnFatal}
	opts := pebbleOptions(fs, o, h, lock)
	opts.ReadOnly, opts.ErrorIfNotExists = true, true
	p, err := openPebble(dir, opts)
	if err != nil {
		return nil, inspect.Explain(dir, inspect.Unsound(err))
	}
	log, _, err := identity(stored{p: p}, dir)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	db := &DB{
		p: p, log: log, readOnly: true, cache: writers.New(o.Heads), health: h, metrics: o.Metrics,
		unlock: lock.Close, writes: pebble.Sync,
	}
	db.tables = func(ctx context.Context) error {
		_, err := checkTables(ctx, fs, dir, o, p, func(int64, int64) {})
		return err
	}
	db.chats = newChats(db)
	db.unwatch = o.Metrics.Watch(db.stats)
	return db, nil
}

// lockToRead takes the directory's lock for reading if there is one to take.
func lockToRead(fs vfs.FS, dir string, names []string) (*pebble.Lock, error) {
	if !slices.Contains(names, lockFile) {
		return pebble.LockDirectory(dir, ondisk.ReadOnly(fs))
	}
	lock, err := opening.LockToRead(dir, fs)
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, inspect.Explain(dir, err)
	case err != nil:
		return nil, inspect.InUse(dir, opening.PID(fs, fs.PathJoin(dir, pidFile)), err)
	}
	return lock, nil
}
