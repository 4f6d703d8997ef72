package backup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/verify"
)

// Stopped copies a store that no process has open. Nothing changes in dir.
func (o Opener) Stopped(ctx context.Context, fs vfs.FS, dir, dest, program string) (Info, error) {
	if err := o.checkDest(fs, dir, dest); err != nil {
		return Info{}, err
	}
	switch info, err := ReadInfo(fs, dir); {
	case err != nil:
		return Info{}, o.failed(err, "cannot back up %s", dir)
	case info != nil:
		return Info{}, refuse(CopyRefused, "%s is a backup itself: copy it with any tool, or restore it", dir)
	}
	db, err := o.Read(fs, dir) // held: no server starts meanwhile
	if err != nil {
		return Info{}, err
	}
	info, err := o.finish(ctx, fs, dest, Info{Log: db.Log, Program: program}, func(stage string) error {
		if err := fs.MkdirAll(stage, 0o700); err != nil {
			return err
		}
		return CopyStore(ctx, fs, dir, stage, true)
	})
	return info, errors.Join(err, db.Close())
}

// checkDest refuses a place that a backup of the store in dir cannot have.
func (o Opener) checkDest(fs vfs.FS, dir, dest string) error {
	if !filepath.IsAbs(dest) {
		return refuse(CopyRefused, "the destination must be an absolute path, not %q", dest)
	}
	if dir, err := filepath.Abs(dir); err != nil || Within(dir, dest) {
		return refuse(CopyRefused, "%s lies inside of the data directory %s: choose a place outside, best on another disk", dest, dir)
	}
	for _, path := range []string{dest, dest + Writing} {
		there, err := Exists(fs, path)
		if err != nil {
			return o.failed(err, "cannot look at %s", path)
		}
		switch {
		case there && path == dest:
			return refuse(CopyOccupied, "%s exists already: a backup is never written over, choose another name", dest)
		case there:
			return refuse(CopyOccupied, "%s is left over from a backup that was broken off: remove it, or choose another name", path)
		}
	}
	parent := fs.PathDir(dest)
	if stat, err := fs.Stat(parent); err != nil || !stat.IsDir() {
		return refuse(CopyRefused, "the directory %s does not exist: make it first", parent)
	}
	return nil
}

// Within is true for dir itself and everything below it, symbolic links followed.
func Within(dir, path string) bool {
	rel, err := filepath.Rel(followed(dir), followed(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// followed is a path without links, as far as it is there.
func followed(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for p, rest := path, ""; ; p, rest = filepath.Dir(p), filepath.Join(filepath.Base(p), rest) {
		if r, err := filepath.EvalSymlinks(p); err == nil || filepath.Dir(p) == p {
			return filepath.Join(r, rest)
		}
	}
}

// Writing is the end of a backup's name until it is whole.
const Writing = ".writing"

// finish lets write fill a directory, reads it back, and gives it its name.
// Whatever fails, nothing is left.
func (o Opener) finish(ctx context.Context, fs vfs.FS, dest string, info Info, write func(stage string) error) (_ Info, err error) {
	stage := dest + Writing
	defer func() {
		if err == nil {
			return
		}
		err = o.failed(err, "no backup was made in %s", dest)
		if left := errors.Join(fs.RemoveAll(stage), SyncParent(fs, stage)); left != nil {
			err = fmt.Errorf("%w; %s could not be removed: %w", err, stage, left)
		}
	}()
	info.Time = time.Now().UTC().Truncate(time.Millisecond)
	if err := write(stage); err != nil {
		return Info{}, err
	}
	if err := o.readBack(ctx, fs, stage, &info); err != nil {
		return Info{}, err
	}
	if info.Bytes, err = Size(fs, stage); err != nil {
		return Info{}, err
	}
	// Whoever reads it locks this file, so that Remove notices.
	if err := WriteFile(fs, stage, lockFile, nil); err != nil {
		return Info{}, err
	}
	if err := WriteInfo(fs, stage, info); err != nil {
		return Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	if err := fs.Rename(stage, dest); err != nil {
		return Info{}, err
	}
	if err := SyncParent(fs, dest); err != nil {
		return Info{}, errors.Join(err, fs.Rename(dest, stage))
	}
	return info, nil
}

// readBack opens a copy and reads all of it, with the checksums of its blocks. Its
// log id has to be that of info, which gets the layout's version and the counts.
func (o Opener) readBack(ctx context.Context, fs vfs.FS, dir string, info *Info) (err error) {
	db, err := o.Read(fs, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if db.Log != info.Log {
		return fmt.Errorf("the copy in %s has the log id %s instead of %s", dir, db.Log, info.Log)
	}
	version, closer, err := db.Pebble.Get(layout.KeySchema)
	if err != nil {
		return err
	}
	info.Layout, info.Format = binary.BigEndian.Uint32(version), uint64(db.Pebble.FormatMajorVersion())
	if err := closer.Close(); err != nil {
		return err
	}
	// A walk over the keys does not read the filters, without which no key is found.
	if err := db.Tables(ctx); err != nil {
		return err
	}
	info.Counts, err = verify.Count(ctx, db.Pebble, nil)
	return err
}
