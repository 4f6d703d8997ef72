package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"parley/conversation"
	"parley/persistence/pebble"
)

// A Store is the store of a run, with the method that ends it.
type Store interface {
	conversation.Store
	// Health is nil, or why the store needs a person.
	Health() error
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
	return pebble.Open(dir, o)
}

// Check opens the store that is in dir, as a start would, and closes it again;
// where there is none it only looks whether one could be made.
func Check(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		db, err := pebble.Open(dir, Options{})
		if err != nil {
			return err
		}
		return db.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		_, err = os.Stat(dir)
	}
	probe, err := os.MkdirTemp(dir, ".parley-doctor-")
	if err != nil {
		return err
	}
	return os.Remove(probe)
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
