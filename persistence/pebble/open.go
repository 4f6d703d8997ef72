package pebble

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/backup"
	"parley/persistence/pebble/internal/inspect"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/ondisk"
	"parley/persistence/pebble/internal/opening"
	"parley/persistence/pebble/internal/upgrade"
	"parley/persistence/pebble/internal/upkeep"
)

// Files of ours beside Pebble's.
const (
	lockFile    = ondisk.LockFile
	pidFile     = ondisk.PIDFile
	ballastFile = ondisk.BallastFile
)

// format is the version of Pebble's file formats that a store is written in. It
// is named here and never left to the library: Pebble's own default (13) accepts
// a write-ahead log with damage in its middle and silently forgets everything
// behind it, which formats from 20 on refuse; and "the newest" would make a
// library upgrade a one-way change of users' data. Raising it is a release of
// its own: older programs cannot open the store afterwards.
const format = pebble.FormatValueSeparation

// OpenError is why Open failed: a sentence for the person at the terminal, the
// reason for programs.
type OpenError = inspect.OpenError

// OpenReason says why a store could not be opened.
type OpenReason = inspect.OpenReason

// The reasons; package inspect explains them.
const (
	OpenFailed     = inspect.OpenFailed
	OpenInUse      = inspect.OpenInUse
	OpenPermission = inspect.OpenPermission
	OpenTooNew     = inspect.OpenTooNew
	OpenCorrupt    = inspect.OpenCorrupt
	OpenForeign    = inspect.OpenForeign
	OpenAbsent     = inspect.OpenAbsent
	OpenBackup     = inspect.OpenBackup
)

// Open opens the store in dir, or makes one if dir is absent or empty. The
// directory belongs to the store alone. Errors are *OpenError.
func Open(dir string, o Options) (*DB, error) {
	return openOn(ondisk.Private(), dir, o)
}

// OpenEphemeral makes an empty store in memory, for memory.mode=ephemeral: the
// same code, and nothing left after Close.
func OpenEphemeral(o Options) (*DB, error) {
	o = o.filled()
	s := &starting{
		fs: vfs.NewMem(), dir: "store", o: o, health: &health{log: o.Logger, onFatal: o.OnFatal, failing: make(chan error, 1)},
		unlock: func() error { return nil },
	}
	return s.start()
}

// openOn opens a store on any file system. Until it is known that the store will be
// opened, nothing in the directory is changed but the lock and the process's id.
func openOn(fs vfs.FS, dir string, o Options) (*DB, error) {
	if err := backup.Refuse(fs, dir); err != nil {
		return nil, err
	}
	return openAny(fs, dir, o)
}

// openAny opens what is in dir for writing, a backup too.
func openAny(fs vfs.FS, dir string, o Options) (*DB, error) {
	o = o.filled()
	// A running process changes its files while they are listed, so only what is
	// no store at all can be refused before there is the lock.
	listing, err := ondisk.Look(fs, dir, ondisk.Unknown)
	switch {
	case listing != nil && listing.Kind == ondisk.Foreign:
		return nil, inspect.Foreign(dir)
	case listing == nil && !errors.As(err, new(*ondisk.Damage)):
		return nil, inspect.Explain(dir, err)
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return nil, inspect.Explain(dir, err)
	}
	left := listing != nil && listing.Has(pidFile)
	lock, err := lockDir(fs, dir)
	if err != nil {
		return nil, err
	}
	db, err := openLocked(fs, dir, o, lock, left)
	if err != nil {
		if !left { // that a process did not end in order is said as long as it counts
			_ = fs.Remove(fs.PathJoin(dir, pidFile))
		}
		return nil, errors.Join(err, lock.Close())
	}
	db.fs, db.dir = fs, dir
	return db, nil
}

// openLocked looks at the directory, and opens it if nothing speaks against it.
func openLocked(fs vfs.FS, dir string, o Options, lock *pebble.Lock, left bool) (*DB, error) {
	found, err := inspect.Directory(fs, dir, inspect.BootID(fs), uint64(format), left)
	if err != nil {
		return nil, inspect.Explain(dir, err)
	}
	exists := false
	if found.Listing.Kind == ondisk.Store {
		if exists, err = certify(found, fs, dir, o, lock, nil); err != nil {
			return nil, err
		}
	}
	if found.Unsure {
		o.Logger.Error("the file that says how much of the log was synced is damaged: if the end of the log is damaged, too, nobody can see it",
			"file", ondisk.SyncedFile, "dir", dir)
	}
	s := &starting{dir: dir, o: o, health: &health{log: o.Logger, onFatal: o.OnFatal, failing: make(chan error, 1)}, lock: lock}
	s.watch(fs)
	if err := s.prepare(found, exists, inspect.BootID(fs)); err != nil {
		return nil, inspect.Explain(dir, err)
	}
	s.unlock = func() error {
		_ = fs.Remove(fs.PathJoin(dir, pidFile))
		return lock.Close()
	}
	return s.start()
}

// openPebble opens Pebble, which panics when a directory cannot be synced: while
// opening that is a disk to report, not a bug to crash with.
func openPebble(dir string, opts *pebble.Options) (p *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("the disk failed: %v", r)
		}
	}()
	return pebble.Open(dir, opts)
}

func pebbleOptions(fs vfs.FS, o Options, h *health, lock *pebble.Lock) *pebble.Options {
	opts := &pebble.Options{
		FS:                 fs,
		Lock:               lock,
		FormatMajorVersion: format,
		Logger:             pebbleLogger{h},
		EventListener:      h.listener(),
		Cleaner:            upkeep.DeleteLogs{},
		MemTableSize:       uint64(o.MemTableBytes),
		CacheSize:          o.CacheBytes,
		// Two tables may be full while the third is written to and the first is
		// flushed; beyond that writers wait.
		MemTableStopWritesThreshold: 4,
		// A burst may pile up tables in level 0: reads get a little dearer for a
		// while, which is better than that every session stands still.
		L0StopWritesThreshold: 64,
		// WALMinSyncInterval stays 0: waiting for company made a lone writer eight
		// times slower and was no gain for many, since syncs are shared anyway.
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // most look-ups are for keys that must not be there
	}
	return opts
}

// identify reads the store's log id, and makes it and the layout's version if the
// store is new.
func identify(p *pebble.DB, dir string) (log conversation.LogID, created bool, err error) {
	log, found, err := identity(stored{p: p}, dir)
	if err != nil || found {
		return log, false, err
	}
	log = newLogID()
	b := p.NewBatch()
	_ = b.Set(layout.KeySchema, layout.AppendU32(nil, layout.Version), nil)
	_ = b.Set(layout.KeyLog, []byte(log), nil)
	_ = b.Set(layout.KeySecret, upgrade.NewSecret(), nil)
	if err := p.Apply(b, pebble.Sync); err != nil {
		return "", false, inspect.Explain(dir, err)
	}
	return log, true, nil
}

// stored is what is stored in Pebble, and in logs that were hidden from it.
type stored struct {
	p      *pebble.DB
	logged map[string][]byte // under the keys of table 00; it is newer than what p has
	some   bool              // the logs hold something
}

func (s stored) get(key []byte) ([]byte, error) {
	if value, ok := s.logged[string(key)]; ok {
		return value, nil
	}
	value, closer, err := s.p.Get(key)
	if err != nil {
		return nil, err
	}
	value = slices.Clone(value)
	return value, closer.Close()
}

// identity reads the layout's version and the log id; found is false if there is
// nothing at all in the store.
func identity(s stored, dir string) (log conversation.LogID, found bool, err error) {
	value, err := s.get(layout.KeySchema)
	if errors.Is(err, pebble.ErrNotFound) {
		empty, err := isEmpty(s.p)
		if err != nil {
			return "", false, inspect.Explain(dir, err)
		}
		if !empty || s.some {
			return "", false, inspect.Foreign(dir)
		}
		return "", false, nil
	}
	if err != nil {
		return "", false, inspect.Explain(dir, err)
	}
	version := upgrade.Version(value)
	if version > layout.Version {
		return "", false, inspect.TooNew(dir, "layout", uint64(version), layout.Version)
	}
	id, err := s.get(layout.KeyLog)
	if err != nil || version == 0 {
		return "", false, inspect.Explain(dir, errors.Join(err, errors.New("its schema or log key is damaged")))
	}
	return conversation.LogID(id), true, nil
}

func newLogID() conversation.LogID {
	return conversation.LogID(strings.ToLower(rand.Text()[:16]))
}

func isEmpty(p *pebble.DB) (empty bool, err error) {
	it, err := p.NewIter(nil)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	empty = !it.First()
	return empty, it.Error()
}

// lockDir takes the directory for this process and leaves its id for the next
// one to name.
func lockDir(fs vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := opening.Lock(dir, fs)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, inspect.Explain(dir, err)
		}
		return nil, inspect.InUse(dir, opening.PID(fs, fs.PathJoin(dir, pidFile)), err)
	}
	f, err := fs.Create(fs.PathJoin(dir, pidFile), vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, errors.Join(inspect.Explain(dir, err), lock.Close())
	}
	return lock, nil
}
