package backup

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/ondisk"
	"parley/persistence/pebble/internal/opening"
)

// lockFile is in a backup, empty: whoever reads the backup locks it for reading. One that a
// version of before backups on a schedule has made has none, and nobody sees who reads it.
const lockFile = ondisk.LockFile

// Removing is the end of the name of a backup that is being removed.
const Removing = ".removing"

// Remove removes the backup in dir, which has to be one of log: nothing else is touched.
// One that somebody reads (restores, verifies, exports) is CopyBusy. It loses its name
// first; what a crash leaves has the end ".removing", and is removed by its own Remove.
func (o Opener) Remove(fs vfs.FS, dir string, log conversation.LogID) error {
	info, err := ReadInfo(fs, dir)
	switch {
	case err != nil:
		return o.failed(err, "cannot remove %s", dir)
	case info == nil && strings.HasSuffix(dir, Removing):
		return o.failed(removeRest(fs, dir), "cannot remove %s", dir)
	case info == nil:
		return refuse(CopyRefused, "%s is not a backup: it stays", dir)
	case info.Log != log:
		return refuse(CopyRefused, "%s is a backup of the log %s, not of %s: it stays", dir, info.Log, log)
	}
	lock, err := opening.Lock(dir, fs)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, opening.ErrHeld) {
		return refuse(CopyBusy, "somebody reads %s: it stays for now", dir)
	}
	if err != nil {
		return o.failed(err, "cannot remove %s", dir)
	}
	err = removeNow(fs, dir)
	return errors.Join(o.failed(err, "cannot remove %s", dir), lock.Close())
}

// removeNow keeps what says that it is a backup until the last.
func removeNow(fs vfs.FS, dir string) error {
	if !strings.HasSuffix(dir, Removing) {
		if err := rename(fs, dir, dir+Removing); err != nil {
			return err
		}
		dir += Removing
	}
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == InfoFile || name == lockFile {
			continue
		}
		if err := fs.RemoveAll(fs.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	if err := fs.Remove(fs.PathJoin(dir, InfoFile)); err != nil {
		return err
	}
	return removeRest(fs, dir)
}

// removeRest removes a directory that has at most the file LOCK in it.
func removeRest(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if rest := slices.DeleteFunc(names, func(name string) bool { return name == lockFile }); len(rest) > 0 {
		return refuse(CopyRefused, "%s holds %s, but not what says that it is a backup: remove it by hand", dir, rest[0])
	}
	if err := fs.Remove(fs.PathJoin(dir, lockFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := fs.Remove(dir); err != nil {
		return err
	}
	return SyncParent(fs, dir)
}
