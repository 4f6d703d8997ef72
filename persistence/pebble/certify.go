package pebble

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/pebble/internal/backup"
	"parley/persistence/pebble/internal/inspect"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/ondisk"
	"parley/persistence/pebble/internal/synced"
	"parley/persistence/pebble/internal/upgrade"
)

// certify opens Pebble for reading, to know that it is content with manifest and
// tables, and checks that the store is one of ours that this program knows. The
// logs are hidden from it: they have been read, and to replay them twice would
// double the time of a start. found is false if nothing was ever stored. look may
// be nil; it sees Pebble if all is well.
func certify(f *inspect.Findings, fs vfs.FS, dir string, o Options, lock *pebble.Lock, look func(*pebble.DB) error) (found bool, err error) {
	h := &health{log: o.Logger, onFatal: o.OnFatal}
	opts := pebbleOptions(ondisk.WithoutLogs(fs), o, h, lock)
	opts.ReadOnly, opts.ErrorIfNotExists = true, true
	p, err := openPebble(dir, opts)
	if err != nil {
		return false, inspect.Explain(dir, inspect.Unsound(err))
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	_, found, err = identity(stored{p: p, logged: f.Meta, some: f.Some}, dir)
	if err == nil && !found && f.Marks != nil && f.Marks.Phase != synced.Creating {
		err = inspect.Explain(dir, &ondisk.Damage{File: "the store", What: "is empty, and was not"})
	}
	if err == nil && found && look != nil {
		err = look(p)
	}
	return found, err
}

// Checked is what Check has found in a store that would open.
type Checked struct {
	Tables int
	Bytes  int64  // of the tables
	Lost   int64  // bytes of a log that cannot be read after a power failure; the next Open says so
	Where  string // the file that lost them
	Unsure bool   // a loss at the end of a log could not be seen; the next Open says so
	Layout uint32 // an older one than LayoutVersion would be upgraded
}

// Check looks at the store in dir as Open does, reads each block of its tables, and
// changes nothing. progress is told how many bytes of tables have been read. An
// error is *OpenError: either Open would refuse the store, or a table is damaged
// and reads of it would fail.
func Check(dir string, progress func(done, total int64)) (Checked, error) {
	o, fs := Options{}.filled(), vfs.Default
	var c Checked
	if err := backup.Refuse(fs, dir); err != nil {
		return c, err
	}
	lock, found, err := inspectToRead(fs, dir, o, func(p *pebble.DB) (err error) {
		if c, err = checkTables(context.Background(), fs, dir, o, p, progress); err == nil {
			c.Layout, err = upgrade.Layout(p)
		}
		return err
	})
	if err != nil {
		return c, err
	}
	c.Lost, c.Where, c.Unsure = found.Lost, found.Where, found.Unsure
	if v, ok := found.Meta[string(layout.KeySchema)]; ok { // still in a log
		c.Layout = upgrade.Version(v)
	}
	return c, lock.Close()
}

func checkTables(ctx context.Context, fs vfs.FS, dir string, o Options, p *pebble.DB, progress func(done, total int64)) (c Checked, err error) {
	opts := pebbleOptions(fs, o, &health{}, nil)
	opts.EnsureDefaults()
	c.Tables, c.Bytes, err = ondisk.CheckTables(ctx, fs, dir, p, opts.MakeReaderOptions(), progress)
	if damage := new(ondisk.Damage); errors.As(err, &damage) {
		err = inspect.Explain(dir, err)
	}
	return c, err
}
