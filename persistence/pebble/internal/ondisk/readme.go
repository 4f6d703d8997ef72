package ondisk

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ReadmeFile explains the directory to whoever looks into it.
const ReadmeFile = "README.txt"

const readme = `This is the data directory of a parley server: everything that was said is in here.
It belongs to one process at a time. Change nothing here by hand.

*.sst, *.log, MANIFEST-*, OPTIONS-*, marker.*
             the store (Pebble). The empty marker files count: they say by their
             names which other files do.
SYNCED       how much of each log and manifest is surely on the disk; it tells what
             a power failure tore from what was damaged later.
LOCK, PID    the process that has the directory. Left behind by a killed process
             they do no harm.
audit*.log   what administrators did, a JSON object a line; the server only appends.
BALLAST      reserved room that is given up when the disk is full all the same, so
             that what is in memory can be written (storage.ballast).

Backups      Never copy this directory while the server runs: the copy would not
             open. Use "parley backup", or stop the server first, and keep the
             empty files.
Disk space   Below storage.soft_free of free space new messages are refused, below
             storage.hard_free all work stops until there is room; see config.toml.
             To make room, erase sessions or make the disk larger; deleting a file
             here destroys the store.
Damage       "parley doctor" says what is the matter and changes nothing.

docs/OPERATIONS.md of the program says more. This file is written at each start if
it is missing or was changed.
`

// WriteReadme writes the file that explains the directory, unless it is there as it
// should be.
func WriteReadme(fs vfs.FS, dir string) error {
	path := fs.PathJoin(dir, ReadmeFile)
	if f, err := fs.Open(path); err == nil {
		b, err := io.ReadAll(io.LimitReader(f, int64(len(readme))+1))
		if err = errors.Join(err, f.Close()); err == nil && string(b) == readme {
			return nil
		}
	}
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, readme)
	return errors.Join(err, f.Close())
}
