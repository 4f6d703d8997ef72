package pebble

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/pebble/internal/inspect"
	"parley/persistence/pebble/internal/ondisk"
	"parley/persistence/pebble/internal/synced"
)

// certify opens Pebble for reading, to know that it is content with manifest and
// tables, and checks that the store is one of ours that this program knows. The
// logs are hidden from it: they have been read, and to replay them twice would
// double the time of a start. found is false if nothing was ever stored.
func certify(f *inspect.Findings, fs vfs.FS, dir string, o Options, lock *pebble.Lock) (found bool, err error) {
	h := &health{log: o.Logger, onFatal: o.OnFatal}
	opts := pebbleOptions(ondisk.WithoutLogs(fs), o, h, lock)
	opts.ReadOnly, opts.ErrorIfNotExists = true, true
	p, err := openPebble(dir, opts)
	if err != nil {
		return false, openError(dir, unsound(err))
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	_, found, err = identity(stored{p: p, logged: f.Meta, some: f.Some}, dir)
	if err == nil && !found && f.Marks != nil && f.Marks.Phase != synced.Creating {
		err = openError(dir, &ondisk.Damage{File: "the store", What: "is empty, and was not"})
	}
	return found, err
}

// unsound marks what Pebble says of tables that are missing or have another size
// than the manifest says: it gives no kind to these errors.
func unsound(err error) error {
	text := err.Error()
	for _, phrase := range []string{"object size mismatch", "unknown to the objstorage provider", "could not open manifest", "inconsistent"} {
		if strings.Contains(text, phrase) {
			return &ondisk.Damage{File: "a table", What: "is missing or has the wrong size (" + oneLine(err) + ")"}
		}
	}
	return err
}
