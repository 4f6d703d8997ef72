package pebble

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/backup"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/space"
)

type (
	// BackupInfo is what a backup says of itself.
	BackupInfo = backup.Info
	// Restored is what a restore has made.
	Restored = backup.Restored
	// CopyError is why a backup or a restore was not made.
	CopyError = backup.CopyError
)

// The reasons.
const (
	CopyRefused  = backup.CopyRefused
	CopyOccupied = backup.CopyOccupied
	CopyBusy     = backup.CopyBusy
	CopyFull     = backup.CopyFull
)

// Backup writes a copy of the store, as of now, into dest, which must not exist,
// and reads it back before it gets that name. It links files where it can, so it
// takes little time and space on the same disk; writers go on. program is the
// version that is to stand in it. Errors are as Restore's, or ErrClosed.
func (db *DB) Backup(ctx context.Context, dest, program string) (BackupInfo, error) {
	switch {
	case db.readOnly:
		return BackupInfo{}, ErrReadOnly
	case db.dir == "":
		return BackupInfo{}, &CopyError{Reason: CopyRefused, Sentence: "the store is kept in memory only (memory.mode is ephemeral): there is nothing to back up"}
	case !db.copying.TryLock():
		return BackupInfo{}, &CopyError{Reason: CopyBusy, Sentence: "another backup is being made; wait for its end"}
	}
	defer db.copying.Unlock()
	began := time.Now()
	s := backup.Running{Pebble: db.p, FS: db.fs, Dir: db.dir, Log: db.log, Roomy: db.Space().Level == space.OK, Use: func(do func() error) error {
		if err := db.enter(ctx); err != nil {
			return err
		}
		defer db.leave()
		if err := db.writable(); err != nil {
			return err
		}
		return do()
	}}
	defer db.marks.Bind(ctx, dest)()
	info, err := copies.Running(ctx, s, dest, program)
	db.metrics.BackedUp(err == nil, time.Now(), time.Since(began))
	return info, err
}

// BackupStopped is Backup of a store that no process has open. Nothing changes in dir.
func BackupStopped(ctx context.Context, dir, dest, program string) (BackupInfo, error) {
	return copies.Stopped(ctx, vfs.Default, dir, dest, program)
}

// Restore makes the directory dir a copy of the backup, or of the stopped store, in
// src. The copy is read back, and gets a log id of its own, so that clients notice
// that what they saw last may never have happened. It is made beside dir and then
// put into its place: after a crash at any moment there is what was there before, or
// all of the new store, and the next restore tidies up.
//
// dir must be absent or empty. With replace a store may be in it that no process
// has open; it is kept under the name Restored.Before. Errors are *CopyError,
// *OpenError where a directory is to blame, or the context's.
func Restore(ctx context.Context, src, dir string, replace bool) (Restored, error) {
	src, dir, err := backup.Absolute(src, dir)
	if err != nil {
		return Restored{}, err
	}
	return copies.Restore(ctx, vfs.Default, src, dir, replace, time.Now())
}

// ReadBackup is what the backup in dir says of itself; nil = there is none.
func ReadBackup(dir string) (*BackupInfo, error) { return backup.ReadInfo(vfs.Default, dir) }

// RemoveBackup removes the backup of a log in dir; CopyBusy while somebody reads it.
func RemoveBackup(dir string, log conversation.LogID) error {
	return copies.Remove(vfs.Default, dir, log)
}

// The ends of the name of a backup that is being made, and of one that is being removed.
const (
	BackupWriting  = backup.Writing
	BackupRemoving = backup.Removing
)

// Within is true for dir itself and everything below it, symbolic links followed.
func Within(dir, path string) bool { return backup.Within(dir, path) }

// FreeBytes is how much room the disk of dir has; 0 = nobody can say.
func FreeBytes(dir string) uint64 {
	usage, _ := vfs.Default.GetDiskUsage(dir)
	return usage.AvailBytes
}

// copies opens stores for backups and restores.
var copies = backup.Opener{
	Read: func(fs vfs.FS, dir string) (backup.Reader, error) {
		db, err := openReadOnlyOn(fs, dir, Options{CacheBytes: 8 << 20, Heads: 1})
		if err != nil {
			return backup.Reader{}, err
		}
		return backup.Reader{Pebble: db.p, Log: db.log, Tables: db.tables, Close: db.Close}, nil
	},
	Lock: func(fs vfs.FS, dir string) (func() error, error) {
		names, err := fs.List(dir)
		if err != nil {
			return nil, err
		}
		lock, err := lockToRead(fs, dir, names)
		if err != nil {
			return nil, err
		}
		return lock.Close, nil
	},
	NewID: newID,
	Told: func(err error) bool {
		return errors.As(err, new(*OpenError)) || errors.Is(err, conversation.ErrClosed) || errors.Is(err, context.Canceled)
	},
}

// newID gives a store a new log id.
func newID(fs vfs.FS, dir string) (log conversation.LogID, err error) {
	db, err := openAny(fs, dir, Options{OnFatal: func(error) {}}) // which health remembers
	if err != nil {
		return "", err
	}
	log = newLogID()
	err = db.p.Set(layout.KeyLog, []byte(log), pebble.Sync)
	if err = errors.Join(err, db.health.dead(), db.Close()); err != nil {
		return "", fmt.Errorf("give the store in %s a log id of its own: %w", dir, err)
	}
	return log, nil
}
