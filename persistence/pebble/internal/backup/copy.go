package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// own are the names in a store's directory that belong to the process that has it,
// or to the directory itself, and not to the store.
var own = []string{"LOCK", "PID", "BALLAST", "lost+found", InfoFile, Restoring}

// belongs says whether a file of a store's directory is a part of the store.
func belongs(name string) bool {
	return !strings.HasPrefix(name, ".") && !slices.Contains(own, name)
}

// CopyStore copies the files of a store that nobody writes to into dest, which
// exists, durably. With link the tables, which never change, are linked where the
// file system can do it.
func CopyStore(ctx context.Context, fs vfs.FS, src, dest string, link bool) error {
	names, err := fs.List(src)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if !belongs(name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		from, to := fs.PathJoin(src, name), fs.PathJoin(dest, name)
		if link && strings.HasSuffix(name, ".sst") && fs.Link(from, to) == nil {
			continue
		}
		if err := copyFile(ctx, fs, from, to); err != nil {
			return err
		}
	}
	return SyncDir(fs, dest)
}

func copyFile(ctx context.Context, fs vfs.FS, from, to string) (err error) {
	in, err := fs.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if stat, err := in.Stat(); err != nil || stat.IsDir() {
		return err
	}
	out, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, reader{ctx, in}); err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// reader is a file that ends with its context, and is nothing but a reader: the
// file system of tests copies nothing in a way of its own.
type reader struct {
	ctx context.Context
	f   vfs.File
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.f.Read(p)
}

// Size is the number of bytes of the files of a store.
func Size(fs vfs.FS, dir string) (bytes int64, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		stat, err := fs.Stat(fs.PathJoin(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if belongs(name) && !stat.IsDir() {
			bytes += stat.Size()
		}
	}
	return bytes, nil
}

// Exists says whether there is something at path.
func Exists(fs vfs.FS, path string) (bool, error) {
	_, err := fs.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
