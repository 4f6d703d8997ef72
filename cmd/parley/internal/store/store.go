package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"parley/conversation"
	"parley/conversation/blobs"
	"parley/conversation/chats"
	"parley/conversation/search"
	"parley/persistence/pebble"
	"parley/persistence/postgres"
)

// A Store is the store of a run, with the method that ends it.
type Store interface {
	conversation.Store
	// Health is nil, or why the store needs a person.
	Health() error
	// Backup copies the store into a directory; see persistence/pebble.
	Backup(ctx context.Context, dest, program string) (BackupInfo, error)
	// Chats is what channels to chat platforms remember.
	Chats() chats.Store
	// Close makes what is in memory durable and lets go of the directory. Idempotent.
	Close() error
}

// Options are the store's; their tags are the keys of the configuration.
type Options = pebble.Options

// Auto as a watermark lets the store choose it from the size of the disk.
const Auto = pebble.Auto

// Defaults are the options of a configuration that says nothing.
func Defaults() Options { return pebble.Defaults() }

// Open opens the store in the directory dir and makes one if there is none; with
// dir "" it is kept in memory and gone with the process.
func Open(dir string, o Options) (Store, error) {
	if dir == "" {
		return pebble.OpenEphemeral(o)
	}
	db, err := pebble.Open(dir, o)
	if err != nil {
		return nil, err
	}
	if err := makePrivate(dir); err != nil && o.Logger != nil {
		o.Logger.Warn("the data directory is not private", "code", "wide_data", "dir", dir, "error", err)
	}
	return db, nil
}

// Quota is conversation.ErrQuota while a tenant has stored as much as it may.
func Quota(s Store, tenant conversation.TenantID) error {
	switch db := s.(type) {
	case *pebble.DB:
		return pebble.Quota(db, tenant)
	case *Shared:
		return db.Quota(tenant)
	}
	return nil
}

// Secret is what the nodes that share the sessions know, also after a restart, and nobody else.
func Secret(s Store) []byte {
	switch db := s.(type) {
	case *pebble.DB:
		return pebble.Secret(db)
	case *Shared:
		return postgres.Secret(db.Store)
	}
	return nil
}

// Index keeps what can be found of the sessions of a store; nil = it keeps nothing of it.
func Index(s Store) search.Index {
	switch db := s.(type) {
	case *pebble.DB:
		return pebble.Index(db)
	case *Shared:
		return postgres.Index(db.Store)
	}
	return nil
}

// Blobs is what is attached to messages; nil = this store keeps none.
func Blobs(s Store) blobs.Store {
	switch db := s.(type) {
	case *pebble.DB:
		return pebble.Blobs(db)
	case *Shared:
		return postgres.Blobs(db.Store)
	}
	return nil
}

// Check looks at the store in dir as Open does and reads its tables, and changes
// nothing; where there is none it only looks whether one could be made. notes are
// sentences about a store that would open. progress is told now and then how many
// bytes of tables have been read.
func Check(dir string, progress func(done, total int64)) (notes []string, err error) {
	checked, err := pebble.Check(dir, progress)
	var open *pebble.OpenError
	if errors.As(err, &open) && open.Reason == pebble.OpenAbsent {
		return nil, creatable(dir)
	}
	if err != nil {
		return nil, err
	}
	if err := writable(dir); err != nil {
		return nil, err
	}
	if text := wide(dir); text != "" {
		after := "the next start makes it private"
		if !owned(dir) {
			after = "it is another user's, so a start would only warn: let its owner run chmod 700"
		}
		notes = append(notes, "wide_data: "+text+"; "+after)
	}
	if checked.Lost > 0 {
		notes = append(notes, fmt.Sprintf("the power failed and the end of %s cannot be read: a start would go on without these %d bytes, say so, and let clients read everything anew; copy %s aside first if they matter",
			checked.Where, checked.Lost, dir))
	}
	if checked.Unsure {
		notes = append(notes, fmt.Sprintf("the file SYNCED in %s is damaged: if the end of the log is damaged, too, nobody can see it; the next start makes the file anew", dir))
	}
	if checked.Layout < pebble.LayoutVersion {
		notes = append(notes, fmt.Sprintf("a start would upgrade the store from layout %d to %d: older programs cannot open it afterwards; make a backup first",
			checked.Layout, pebble.LayoutVersion))
	}
	return notes, nil
}

// creatable says whether a store could be made in dir.
func creatable(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return &fs.PathError{Op: "use", Path: dir, Err: errors.New("it is not a directory")}
		case err == nil:
			return writable(dir)
		case !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir:
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// OpenSentence is the sentence for the person at the terminal after Open or Check
// has failed with err; "" if the store has no sentence for it.
func OpenSentence(err error) string {
	var open *pebble.OpenError
	if errors.As(err, &open) {
		return open.Sentence
	}
	return ""
}
