package ondisk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckTables reads each block of the tables that p has in dir, until ctx ends. A table that
// is not as its checksums say is *Damage. progress is told how many bytes have been read.
func CheckTables(ctx context.Context, fs vfs.FS, dir string, p *pebble.DB, o sstable.ReaderOptions, progress func(done, total int64)) (n int, bytes int64, err error) {
	levels, err := p.SSTables()
	if err != nil {
		return 0, 0, err
	}
	tables := map[string]int64{} // two tables may be parts of one file
	for _, level := range levels {
		for _, t := range level {
			tables[fmt.Sprintf("%06d.sst", uint64(t.BackingSSTNum))] = int64(t.Size)
		}
	}
	for _, size := range tables {
		bytes += size
	}
	done := int64(0)
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if err := ctx.Err(); err != nil {
			return n, bytes, err
		}
		if err := checkTable(fs, fs.PathJoin(dir, name), o); err != nil {
			return n, bytes, &Damage{File: name, What: "is damaged: " + err.Error()}
		}
		n++
		done += tables[name]
		progress(done, bytes)
	}
	return n, bytes, nil
}

// checkTable reads each block of a table and compares it with its checksum.
func checkTable(fs vfs.FS, path string, o sstable.ReaderOptions) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, o)
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}
