package ondisk

import (
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// PrivateFile is the mode of the store's files: everything that was said is in them.
const PrivateFile = 0o600

// Private is the disk's file system with new files for their owner alone. The process's
// umask would do so as well, but programs that it starts would inherit that.
func Private() vfs.FS { return private{vfs.Default} }

type private struct{ vfs.FS }

func (p private) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	return closeToOthers(f, name, err)
}

func (p private) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := p.FS.OpenReadWrite(name, category, opts...)
	return closeToOthers(f, name, err)
}

func (p private) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.ReuseForWrite(oldname, newname, category)
	return closeToOthers(f, newname, err)
}

// Unwrap is for Pebble, which asks which file system is behind one.
func (p private) Unwrap() vfs.FS { return p.FS }

// closeToOthers changes the mode of a file that was just opened. It is no reason to fail:
// some file systems have no modes, and the directory is private as well.
func closeToOthers(f vfs.File, name string, err error) (vfs.File, error) {
	if err == nil {
		_ = os.Chmod(name, PrivateFile)
	}
	return f, err
}
