package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/ondisk"
)

// Restored is what a restore has made.
type Restored struct {
	Log    conversation.LogID // the new one
	From   Info               // what was restored; Time is zero if that was no backup but a stopped store
	Before string             // where the old store is now; "" = there was none
}

// Absolute makes the two paths of a restore absolute. A link in the place of dir
// stays, and what it names is replaced: it may lead to another disk.
func Absolute(src, dir string) (string, string, error) {
	src, err := filepath.Abs(src)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", "", err
	}
	if named, err := filepath.EvalSymlinks(dir); err == nil {
		dir = named
	}
	return src, dir, nil
}

// Restore makes dir a copy of src, as persistence/pebble says.
func (o Opener) Restore(ctx context.Context, fs vfs.FS, src, dir string, replace bool, now time.Time) (r Restored, err error) {
	if Within(src, dir) || Within(dir, src) {
		return r, refuse(CopyRefused, "%s and %s lie in each other: restore to a directory beside", src, dir)
	}
	// The source is held for reading, the store to be replaced for nobody.
	from, err := o.Read(fs, src)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	info, err := ReadInfo(fs, src)
	if err != nil {
		return r, o.failed(err, "cannot restore %s", src)
	}
	if info == nil {
		info = &Info{Log: from.Log}
	}
	if info.Log != from.Log {
		return r, refuse(CopyRefused, "%s says that it is a backup of the log %s, but holds the log %s", src, info.Log, from.Log)
	}
	if err := Settle(fs, dir, now); err != nil {
		return r, o.failed(err, "cannot tidy up after an earlier restore to %s", dir)
	}
	unlock, err := o.claim(fs, dir, replace)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r.From = *info
	alive, err := Begin(fs, dir)
	if err != nil {
		return r, errors.Join(o.failed(err, "nothing was restored to %s", dir), Abandon(fs, dir))
	}
	defer func() { err = errors.Join(err, alive.Close()) }()
	if r.Log, err = o.build(ctx, fs, src, dir, *info); err != nil {
		return r, errors.Join(o.failed(err, "nothing was restored to %s", dir), Abandon(fs, dir))
	}
	if r.Before, err = Place(fs, dir, now); err != nil {
		err = o.failed(err, "cannot put the restored store into its place %s", dir)
		if r.Before == "" {
			err = errors.Join(err, Abandon(fs, dir))
		}
		return r, err
	}
	return r, o.failed(Finish(fs, dir), "the store is restored, but the file %s in %s could not be removed", Restoring, dir)
}

// claim looks at what is in the place of a restored store, and keeps servers away
// from it until unlock.
func (o Opener) claim(fs vfs.FS, dir string, replace bool) (unlock func() error, err error) {
	parent := fs.PathDir(dir)
	if stat, err := fs.Stat(parent); err != nil || !stat.IsDir() {
		return nil, refuse(CopyRefused, "the directory %s does not exist: make it first", parent)
	}
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(names) == 0 {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, o.failed(err, "cannot look at %s", dir)
	}
	// A damaged store is one, too: it is what a restore is for.
	listing, err := ondisk.Look(fs, dir, ondisk.Unknown)
	if listing == nil && !errors.As(err, new(*ondisk.Damage)) {
		return nil, o.failed(err, "cannot look at %s", dir)
	}
	info, err := ReadInfo(fs, dir)
	switch {
	case err != nil:
		return nil, o.failed(err, "cannot look at %s", dir)
	case info != nil:
		return nil, refuse(CopyOccupied, "%s is a backup: name the directory that the server is to use", dir)
	case listing != nil && listing.Kind == ondisk.Foreign:
		return nil, refuse(CopyOccupied, "%s is neither empty nor a store: name another directory", dir)
	case !replace:
		return nil, refuse(CopyOccupied, "there is a store in %s: with --replace it is kept as %s.before-… and the restored one takes its place", dir, dir)
	}
	return o.Lock(fs, dir)
}

// build makes the new store in the stage of dir: it is copied, read back, given its
// log id, and no backup any more.
func (o Opener) build(ctx context.Context, fs vfs.FS, src, dir string, info Info) (conversation.LogID, error) {
	stage := Stage(dir)
	// Until the log id is a new one the copy is a backup, on which no server starts.
	if err := WriteInfo(fs, stage, info); err != nil {
		return "", err
	}
	if err := CopyStore(ctx, fs, src, stage, false); err != nil {
		return "", err
	}
	was := info.Counts
	if err := o.readBack(ctx, fs, stage, &info); err != nil {
		return "", err
	}
	if !info.Time.IsZero() && info.Counts != was {
		return "", refuse(CopyRefused, "%s is not whole: when the backup was made it held %+v, now it holds %+v", src, was, info.Counts)
	}
	log, err := o.NewID(fs, stage)
	if err != nil {
		return "", err
	}
	if err := fs.Remove(fs.PathJoin(stage, InfoFile)); err != nil {
		return "", err
	}
	return log, SyncDir(fs, stage)
}
