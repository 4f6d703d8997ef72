package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/pebble/internal/inspect"
)

// Restoring is a file in a directory that a restore has made, until the restore is
// over. What has it is the new store; what stands beside and has it not is the old one.
const Restoring = "RESTORING"

const restoringNote = "parley restore has made this directory. Where it is called *.restoring, it is not in its place yet: run parley restore again.\n"

// Stage is the name of a restored store until it is whole and in its place.
func Stage(dir string) string { return dir + ".restoring" }

// before is the name that the old store gets when a restore replaces it. Nothing
// has it yet.
func before(fs vfs.FS, dir string, now time.Time) (string, error) {
	first := dir + ".before-" + now.UTC().Format("20060102T150405Z")
	for name, n := first, 2; ; n++ {
		if there, err := Exists(fs, name); err != nil || !there {
			return name, err
		}
		name = fmt.Sprintf("%s-%d", first, n)
	}
}

// Begin makes the directory for a new store and marks it as one that is being made.
// The lock says that its maker is alive.
func Begin(fs vfs.FS, dir string) (lock io.Closer, err error) {
	stage := Stage(dir)
	if err := fs.MkdirAll(stage, 0o700); err != nil {
		return nil, err
	}
	if err := WriteFile(fs, stage, Restoring, []byte(restoringNote)); err != nil {
		return nil, err
	}
	if err := SyncParent(fs, stage); err != nil {
		return nil, err
	}
	return fs.Lock(fs.PathJoin(stage, Restoring))
}

// Abandon removes what Begin has made and what was put into it, and never
// anything without the mark. The mark goes last: what is left after a crash is
// still known as what it is.
func Abandon(fs vfs.FS, dir string) error {
	stage := Stage(dir)
	names, err := fs.List(stage)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(names) > 0 && !slices.Contains(names, Restoring) {
		return fmt.Errorf("%s is not removed: it is not what this restore has made", stage)
	}
	for _, name := range names {
		if name != Restoring {
			if err := fs.RemoveAll(fs.PathJoin(stage, name)); err != nil {
				return err
			}
		}
	}
	if err := SyncDir(fs, stage); err != nil {
		return err
	}
	if err := fs.RemoveAll(stage); err != nil {
		return err
	}
	return SyncParent(fs, stage)
}

// Settle tidies up after a restore into dir that was broken off: a new store that
// did not come into its place is removed, an old one that was taken out of it gets
// the name that it was to have.
func Settle(fs vfs.FS, dir string, now time.Time) error {
	stage := Stage(dir)
	names, err := fs.List(stage)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := settle(fs, dir, names, now); err != nil {
			return err
		}
	}
	return Finish(fs, dir)
}

// ErrRunning says that another process restores to the same directory.
var ErrRunning = errors.New("another restore to it is running")

// settle does it for a stage that holds names.
func settle(fs vfs.FS, dir string, names []string, now time.Time) error {
	stage := Stage(dir)
	switch {
	case len(names) == 0:
		return Abandon(fs, dir)
	case slices.Contains(names, Restoring):
		lock, err := fs.Lock(fs.PathJoin(stage, Restoring))
		if err != nil {
			return ErrRunning
		}
		return errors.Join(Abandon(fs, dir), lock.Close())
	case slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "marker.") }):
		name, err := before(fs, dir, now)
		if err != nil {
			return err
		}
		return rename(fs, stage, name)
	}
	return fmt.Errorf("%s is in the way: it is no store; give it another name", stage)
}

// Place puts the new store into its place. Where a store stands it is kept under
// the name that comes back; "" = there was none.
func Place(fs vfs.FS, dir string, now time.Time) (old string, err error) {
	stage := Stage(dir)
	names, err := fs.List(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", rename(fs, stage, dir)
	case err != nil:
		return "", err
	case len(names) == 0:
		if err := fs.Remove(dir); err != nil {
			return "", fmt.Errorf("%w: is it where a volume is mounted? Restore to a directory in it then, and set data to that", err)
		}
		return "", rename(fs, stage, dir)
	}
	if old, err = before(fs, dir, now); err != nil {
		return "", err
	}
	done, err := exchange(fs, stage, dir)
	if err != nil {
		return "", err
	}
	if done {
		// Both names are durable with one sync; from here on the new store is in
		// its place whatever happens.
		if err := SyncParent(fs, dir); err != nil {
			return stage, err
		}
		return old, rename(fs, stage, old)
	}
	// An error may come after the name has changed, from the sync: what has the
	// name now decides, since there must always be a store in the place.
	if err := rename(fs, dir, old); err != nil {
		if there, _ := Exists(fs, dir); !there {
			err = errors.Join(err, rename(fs, old, dir))
		}
		return "", err
	}
	if err := rename(fs, stage, dir); err != nil {
		if there, _ := Exists(fs, dir); there {
			return old, err
		}
		return "", errors.Join(err, rename(fs, old, dir))
	}
	return old, nil
}

// Finish takes the mark away.
func Finish(fs vfs.FS, dir string) error {
	mark := fs.PathJoin(dir, Restoring)
	if there, err := Exists(fs, mark); err != nil || !there {
		return err
	}
	if err := fs.Remove(mark); err != nil {
		return err
	}
	return SyncDir(fs, dir)
}

// rename gives a directory another name, durably.
func rename(fs vfs.FS, from, to string) error {
	if err := fs.Rename(from, to); err != nil {
		return err
	}
	return SyncParent(fs, to)
}

// exchanger is a file system that can swap two directories in one step.
type exchanger interface{ Exchange(a, b string) error }

// exchange swaps two directories in one step; done is false where that is not
// possible.
func exchange(fs vfs.FS, a, b string) (done bool, err error) {
	if x, ok := fs.(exchanger); ok {
		return true, x.Exchange(a, b)
	}
	if fs == vfs.Default {
		return exchangeOnDisk(a, b)
	}
	return false, nil
}

// Refuse says why a server must not start in dir. On a backup it would go on under
// the log id of the store that it is a copy of, and where a restore was broken off
// it would make an empty store. Errors are *inspect.OpenError.
func Refuse(fs vfs.FS, dir string) error {
	info, err := ReadInfo(fs, dir)
	if err != nil {
		return inspect.Explain(dir, err)
	}
	refuse := func(format string, args ...any) error {
		return &inspect.OpenError{Dir: dir, Reason: inspect.OpenBackup, Sentence: fmt.Sprintf(format, args...)}
	}
	if info != nil {
		return refuse("%s is a backup of %s: make a data directory of it with: parley restore %[1]s --data DIR", dir, info.Time.Format(time.RFC3339))
	}
	names, err := fs.List(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) || len(names) > 0 {
		return nil // who opens it says what is the matter
	}
	if there, err := Exists(fs, Stage(dir)); err == nil && there {
		return refuse("a restore to %s was broken off: run parley restore again, or remove %s to begin with an empty store; "+
			"a store that it was to replace is beside it under the name %s.before-…", dir, Stage(dir), dir)
	}
	return nil
}
