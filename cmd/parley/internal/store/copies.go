package store

import (
	"context"
	"errors"
	"io"
	"iter"

	"parley/conversation"
	"parley/conversation/machine"
	"parley/conversation/policy"
	"parley/persistence/pebble"
)

// BackupInfo is what a backup says of itself.
type BackupInfo = pebble.BackupInfo

// Restored is what a restore has made.
type Restored = pebble.Restored

// Report is what Verify has found.
type Report = pebble.VerifyReport

// Backup copies the store in dir, which no process may have open, to dest.
func Backup(ctx context.Context, dir, dest, program string) (BackupInfo, error) {
	return pebble.BackupStopped(ctx, dir, dest, program)
}

// Restore makes the data directory dir of the backup, or stopped store, in src.
func Restore(ctx context.Context, src, dir string, replace bool) (Restored, error) {
	return pebble.Restore(ctx, src, dir, replace)
}

// ReadBackup is what the backup in dir says of itself; nil = it is none.
func ReadBackup(dir string) (*BackupInfo, error) { return pebble.ReadBackup(dir) }

// RemoveBackup removes the backup of a log in dir, and nothing else; not one that somebody
// reads.
func RemoveBackup(dir string, log conversation.LogID) error { return pebble.RemoveBackup(dir, log) }

// The ends of the name of a backup that is being made, and of one that is being removed.
const (
	BackupWriting  = pebble.BackupWriting
	BackupRemoving = pebble.BackupRemoving
)

// Within is true for dir itself and everything below it, symbolic links followed.
func Within(dir, path string) bool { return pebble.Within(dir, path) }

// Writable says why this process could not make files in dir; nil = it can.
func Writable(dir string) error { return writable(dir) }

// Free is how many bytes of the disk of dir are free; 0 = nobody can say.
func Free(dir string) uint64 { return pebble.FreeBytes(dir) }

// InUse says whether err is the refusal of a directory that a process has open.
func InUse(err error) bool {
	var open *pebble.OpenError
	return errors.As(err, &open) && open.Reason == pebble.OpenInUse
}

// RefusalOf is an error of Store.Backup as a client may see it.
func RefusalOf(err error) error {
	var refused *pebble.CopyError
	if !errors.As(err, &refused) {
		return err
	}
	code := conversation.Internal
	switch refused.Reason {
	case pebble.CopyRefused:
		code = conversation.BadRequest
	case pebble.CopyOccupied, pebble.CopyBusy:
		code = conversation.Conflict
	case pebble.CopyFull:
		code = conversation.StorageFull
	}
	return &conversation.Error{Code: code, Message: refused.Sentence, Err: refused.Err}
}

// Verify reads everything in dir, a data directory or a backup, and says where its
// parts contradict each other. It changes nothing.
func Verify(ctx context.Context, dir string, problems int) (r Report, err error) {
	db, err := pebble.OpenReadOnly(dir, pebble.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rules := &policy.Rules{}
	return db.Verify(ctx, pebble.VerifyHow{Keys: conversation.Keys, Limit: problems, Snapshot: func(key conversation.SessionKey, data []byte) (conversation.Seq, error) {
		session, err := machine.Restore(key, rules, data)
		if err != nil {
			return 0, err
		}
		return session.Head(), nil
	}})
}

// Reading is a store that is open for reading.
type Reading interface {
	conversation.Reader
	io.Closer
	LogID() conversation.LogID
	// Everything lists all sessions, each root before what is below it.
	Everything(ctx context.Context) iter.Seq2[conversation.Summary, error]
}

// Read opens the store in dir, a data directory or a backup, and changes nothing.
func Read(dir string) (Reading, error) { return pebble.OpenReadOnly(dir, pebble.Options{}) }
