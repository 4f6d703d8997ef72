package pebble

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	crdb "github.com/cockroachdb/errors"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// format is the version of Pebble's file formats that a store is written in. It
// is named here and never left to the library: Pebble's own default (13) accepts
// a write-ahead log with damage in its middle and silently forgets everything
// behind it, which formats from 20 on refuse; and "the newest" would make a
// library upgrade a one-way change of users' data. Raising it is a release of
// its own: older programs cannot open the store afterwards.
const format = pebble.FormatValueSeparation

// Files of ours beside Pebble's.
const (
	pidFile     = "PID"
	ballastFile = "BALLAST"
)

// OpenReason says why a store could not be opened.
type OpenReason uint8

// The reasons.
const (
	OpenFailed     OpenReason = iota // something else
	OpenInUse                        // by another process, or twice by this one
	OpenPermission                   // the process may not write there
	OpenTooNew                       // written by a newer program; wraps conversation.ErrTooNew
	OpenCorrupt                      // damaged
	OpenForeign                      // holds something else
	OpenAbsent                       // there is none, and none was to be made
)

// OpenError is why Open failed: one sentence for the person at the terminal, the
// reason for programs.
type OpenError struct {
	Dir      string
	Reason   OpenReason
	Sentence string
	Err      error // the cause, for the log
}

func (e *OpenError) Error() string { return e.Sentence }
func (e *OpenError) Unwrap() error { return e.Err }

// Open opens the store in dir, or makes one if dir is absent or empty. The
// directory belongs to the store alone. Errors are *OpenError.
func Open(dir string, o Options) (*DB, error) {
	return openOn(vfs.Default, dir, o)
}

// OpenEphemeral makes an empty store in memory, for memory.mode=ephemeral: the
// same code, and nothing left after Close.
func OpenEphemeral(o Options) (*DB, error) {
	o = o.filled()
	h := &health{log: o.Logger, onFatal: o.OnFatal}
	return start(vfs.NewMem(), "store", o, h, nil, nil, func() error { return nil })
}

// openOn opens a store on any file system.
func openOn(fs vfs.FS, dir string, o Options) (*DB, error) {
	o = o.filled()
	if err := prepare(fs, dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(fs, dir)
	if err != nil {
		return nil, err
	}
	unlock := func() error {
		_ = fs.Remove(fs.PathJoin(dir, pidFile))
		return lock.Close()
	}
	db, err := openLocked(fs, dir, o, lock, unlock)
	if err != nil {
		_ = unlock()
		return nil, err
	}
	return db, nil
}

func openLocked(fs vfs.FS, dir string, o Options, lock *pebble.Lock, unlock func() error) (*DB, error) {
	read := func() (free, total uint64, err error) {
		u, err := fs.GetDiskUsage(dir)
		return u.AvailBytes, u.TotalBytes, err
	}
	if o.FreeSpace != nil {
		read = func() (free, total uint64, err error) { return o.FreeSpace(dir) }
	}
	g := &guard{
		log: o.Logger, read: read, every: o.CheckEvery,
		ballastFS: fs, ballastPath: fs.PathJoin(dir, ballastFile),
	}
	_ = fs.Remove(g.ballastPath) // of the process before; made again if there is room
	o.MemTableBytes = g.first(o)
	h := &health{log: o.Logger, onFatal: o.OnFatal}
	return start(vfs.OnDiskFull(fs, g.dropBallast), dir, o, h, g, lock, unlock)
}

// start opens Pebble, checks that what is there is ours, and begins to watch the
// disk if there is one (g is not nil).
func start(fs vfs.FS, dir string, o Options, h *health, g *guard, lock *pebble.Lock, unlock func() error) (*DB, error) {
	p, err := openPebble(dir, pebbleOptions(fs, o, h, lock))
	if err != nil {
		return nil, openError(dir, err)
	}
	log, created, err := identify(p, dir)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if created {
		// The first log of a new directory is written without the marks that
		// distinguish damage in its middle from its end; the second one has them.
		if err := p.Close(); err != nil {
			return nil, openError(dir, err)
		}
		if p, err = openPebble(dir, pebbleOptions(fs, o, h, lock)); err != nil {
			return nil, openError(dir, err)
		}
	}
	db := &DB{p: p, log: log, cache: newWriterCache(o.Heads), health: h, guard: g, metrics: o.Metrics, unlock: unlock, writes: pebble.Sync}
	if g != nil {
		g.start()
	}
	db.unwatch = o.Metrics.Watch(db.stats)
	return db, nil
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
	log, found, err := identity(p, dir)
	if err != nil || found {
		return log, false, err
	}
	log = newLogID()
	b := p.NewBatch()
	_ = b.Set(layout.KeySchema, layout.AppendU32(nil, layout.Version), nil)
	_ = b.Set(layout.KeyLog, []byte(log), nil)
	if err := p.Apply(b, pebble.Sync); err != nil {
		return "", false, openError(dir, err)
	}
	return log, true, nil
}

// identity reads the layout's version and the log id; found is false if there is
// nothing at all in the store.
func identity(p *pebble.DB, dir string) (log conversation.LogID, found bool, err error) {
	value, closer, err := p.Get(layout.KeySchema)
	if errors.Is(err, pebble.ErrNotFound) {
		empty, err := isEmpty(p)
		if err != nil {
			return "", false, openError(dir, err)
		}
		if !empty {
			return "", false, foreign(dir)
		}
		return "", false, nil
	}
	if err != nil {
		return "", false, openError(dir, err)
	}
	version := uint32(0)
	if len(value) == 4 {
		version = binary.BigEndian.Uint32(value)
	}
	if err := closer.Close(); err != nil {
		return "", false, openError(dir, err)
	}
	if version > layout.Version {
		return "", false, tooNew(dir, "layout", uint64(version), layout.Version)
	}
	id, closer, err := p.Get(layout.KeyLog)
	if err != nil || version == 0 {
		return "", false, openError(dir, errors.Join(err, errors.New("its schema or log key is damaged")))
	}
	log = conversation.LogID(id)
	return log, true, closer.Close()
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

// prepare makes the directory and refuses one that holds something else.
func prepare(fs vfs.FS, dir string) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return openError(dir, err)
	}
	names, err := fs.List(dir)
	if err != nil {
		return openError(dir, err)
	}
	_, err = recognise(dir, names)
	return err
}

// recognise says whether the files of a directory are those of a store, and
// refuses what holds something else or was written by a newer program.
func recognise(dir string, names []string) (ours bool, err error) {
	version := uint64(0)
	for _, name := range names {
		ours = ours || strings.HasPrefix(name, "marker.")
		if v, ok := strings.CutPrefix(name, "marker.format-version."); ok {
			if _, v, ok = strings.Cut(v, "."); ok {
				if n, err := strconv.ParseUint(v, 10, 32); err == nil {
					version = max(version, n)
				}
			}
		}
	}
	if version > uint64(format) {
		return false, tooNew(dir, "format", version, uint64(format))
	}
	other := func(name string) bool {
		return !strings.HasPrefix(name, ".") && !slices.Contains([]string{"lost+found", lockFile, pidFile, ballastFile}, name) &&
			!strings.HasPrefix(name, "MANIFEST-") && !strings.HasPrefix(name, "OPTIONS-")
	}
	if !ours && slices.ContainsFunc(names, other) {
		return false, foreign(dir)
	}
	return ours, nil
}

// lockDir takes the directory for this process and leaves its id for the next
// one to name.
func lockDir(fs vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, openError(dir, err)
		}
		return nil, inUse(fs, dir, err)
	}
	f, err := fs.Create(fs.PathJoin(dir, pidFile), vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, errors.Join(openError(dir, err), lock.Close())
	}
	return lock, nil
}

func readPID(fs vfs.FS, dir string) string {
	f, err := fs.Open(fs.PathJoin(dir, pidFile))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 32)
	n, _ := f.Read(b)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

func inUse(fs vfs.FS, dir string, err error) error {
	return &OpenError{Dir: dir, Reason: OpenInUse, Err: err, Sentence: fmt.Sprintf(
		"data directory %s is in use by another process%s", dir, readPID(fs, dir))}
}

func foreign(dir string) error {
	return &OpenError{Dir: dir, Reason: OpenForeign, Sentence: fmt.Sprintf(
		"%s is not a parley data directory: it holds other files; name an empty or a new one", dir)}
}

func tooNew(dir, what string, found, known uint64) error {
	return &OpenError{Dir: dir, Reason: OpenTooNew, Err: conversation.ErrTooNew, Sentence: fmt.Sprintf(
		"%s was written by a newer version (%s %d > %d)", dir, what, found, known)}
}

// openError puts an error of the file system or of Pebble into a sentence.
func openError(dir string, err error) error {
	var already *OpenError
	if errors.As(err, &already) {
		return err
	}
	e := &OpenError{Dir: dir, Err: err}
	switch {
	case errors.Is(err, os.ErrPermission):
		e.Reason = OpenPermission
		e.Sentence = fmt.Sprintf("cannot write to %s: permission denied, running as uid %d", dir, os.Getuid())
	case crdb.Is(err, pebble.ErrCorruption): // a mark, which the standard library does not see
		e.Reason = OpenCorrupt
		where := strings.Join(strings.Fields(crdb.FlattenDetails(err)), " ")
		if where != "" {
			where = " (" + where + ")"
		}
		e.Sentence = fmt.Sprintf("%s is damaged: %v%s; nothing was changed: restore a backup, or copy the directory aside before trying anything else", dir, err, where)
	default:
		e.Sentence = fmt.Sprintf("cannot open %s: %v", dir, err)
	}
	return e
}
