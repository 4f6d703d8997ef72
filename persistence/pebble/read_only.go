package pebble

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrReadOnly is the answer to a write where the store was opened with OpenReadOnly.
var ErrReadOnly = errors.New("the store is open for reading only")

// lockFile is the name of Pebble's lock.
const lockFile = "LOCK"

// OpenReadOnly opens the store in dir and changes nothing there: no file is made,
// written, renamed or removed. Reads work; Acquire, Commit and Delete fail with
// ErrReadOnly. As long as it is open no process can open the store for writing,
// and a store that a running process has is refused with OpenInUse. A directory
// that was never locked, like that of a checkpoint, is read without a lock.
// Errors are *OpenError; OpenAbsent says that there is no store.
func OpenReadOnly(dir string, o Options) (*DB, error) {
	return openReadOnlyOn(vfs.Default, dir, o)
}

func openReadOnlyOn(fs vfs.FS, dir string, o Options) (*DB, error) {
	o = o.filled()
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, absent(dir)
	}
	if err != nil {
		return nil, openError(dir, err)
	}
	if ours, err := recognise(dir, names); err != nil {
		return nil, err
	} else if !ours {
		return nil, absent(dir)
	}
	lock, err := lockToRead(fs, dir, names)
	if err != nil {
		return nil, err
	}
	db, err := startReadOnly(readOnlyFS{fs}, dir, o, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return db, nil
}

func startReadOnly(fs vfs.FS, dir string, o Options, lock *pebble.Lock) (*DB, error) {
	h := &health{log: o.Logger, onFatal: o.OnFatal}
	opts := pebbleOptions(fs, o, h, lock)
	opts.ReadOnly, opts.ErrorIfNotExists = true, true
	p, err := openPebble(dir, opts)
	if err != nil {
		return nil, openError(dir, err)
	}
	log, found, err := identity(p, dir)
	if err == nil && !found {
		err = foreign(dir)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	db := &DB{
		p: p, log: log, readOnly: true, cache: newWriterCache(o.Heads), health: h, metrics: o.Metrics,
		unlock: lock.Close, writes: pebble.Sync,
	}
	db.unwatch = o.Metrics.Watch(db.stats)
	return db, nil
}

// lockToRead takes the directory's lock if there is one to take.
func lockToRead(fs vfs.FS, dir string, names []string) (*pebble.Lock, error) {
	if !slices.Contains(names, lockFile) {
		return pebble.LockDirectory(dir, readOnlyFS{fs})
	}
	lock, err := pebble.LockDirectory(dir, fs)
	if errors.Is(err, os.ErrPermission) {
		return nil, openError(dir, err)
	}
	if err != nil {
		return nil, inUse(fs, dir, err)
	}
	return lock, nil
}

func absent(dir string) error {
	return &OpenError{Dir: dir, Reason: OpenAbsent, Sentence: fmt.Sprintf("there is no parley store in %s", dir)}
}

// readOnlyFS is a file system in which nothing can be changed. Its locks lock nothing.
type readOnlyFS struct{ vfs.FS }

type noLock struct{}

func (noLock) Close() error { return nil }

func (readOnlyFS) Lock(string) (io.Closer, error) { return noLock{}, nil }

func (readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, ErrReadOnly }

func (readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, ErrReadOnly
}

func (readOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, ErrReadOnly
}

func (readOnlyFS) Link(string, string) error          { return ErrReadOnly }
func (readOnlyFS) Remove(string) error                { return ErrReadOnly }
func (readOnlyFS) RemoveAll(string) error             { return ErrReadOnly }
func (readOnlyFS) Rename(string, string) error        { return ErrReadOnly }
func (readOnlyFS) MkdirAll(string, os.FileMode) error { return ErrReadOnly }
func (f readOnlyFS) Unwrap() vfs.FS                   { return f.FS }
