package ondisk

import (
	"errors"
	"io"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrReadOnly is the answer to a change where nothing may be changed.
var ErrReadOnly = errors.New("the store is open for reading only")

// ReadOnly is a file system in which nothing can be changed. Its locks lock nothing.
func ReadOnly(fs vfs.FS) vfs.FS { return readOnly{fs} }

// WithoutLogs is ReadOnly, and lists no logs.
func WithoutLogs(fs vfs.FS) vfs.FS { return withoutLogs{readOnly{fs}} }

type readOnly struct{ vfs.FS }

type noLock struct{}

func (noLock) Close() error { return nil }

func (readOnly) Lock(string) (io.Closer, error) { return noLock{}, nil }

func (readOnly) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, ErrReadOnly }

func (readOnly) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, ErrReadOnly
}

func (readOnly) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, ErrReadOnly
}

func (readOnly) Link(string, string) error          { return ErrReadOnly }
func (readOnly) Remove(string) error                { return ErrReadOnly }
func (readOnly) RemoveAll(string) error             { return ErrReadOnly }
func (readOnly) Rename(string, string) error        { return ErrReadOnly }
func (readOnly) MkdirAll(string, os.FileMode) error { return ErrReadOnly }
func (f readOnly) Unwrap() vfs.FS                   { return f.FS }

type withoutLogs struct{ readOnly }

func (fs withoutLogs) List(dir string) ([]string, error) {
	names, err := fs.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool {
		_, isLog := LogNumber(name)
		return isLog
	}), err
}
