package synced

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/pebble/internal/ondisk"
)

// FS is the file system under Pebble.
type FS struct {
	vfs.FS
	dir  string
	root vfs.File // the directory

	mu    sync.Mutex
	out   vfs.File
	state State
	slots map[File]int // which slot a file has
	free  []int        // slots without a file
	next  int
	ended bool

	naming uint64 // the manifest of a marker that is not durable yet; 0 = none

	bound atomic.Pointer[bound] // see Bind
}

// Start writes the state anew, durable when it returns, and returns the file
// system that keeps it. Close must follow.
func Start(fs vfs.FS, dir string, s State) (*FS, error) {
	f := &FS{FS: fs, dir: dir, state: s, slots: map[File]int{}}
	b := s.header()
	for file, length := range s.Files {
		var slot [slotSize]byte
		b = append(b, slotOf(&slot, file, length)...)
		f.slots[file] = f.next
		f.next++
	}
	// Room for more, so that a full disk does not keep a length from being written.
	if n := len(b); n < roomSize {
		b = append(b, make([]byte, roomSize-n)...)
	}
	var err error
	if f.root, err = fs.OpenDir(dir); err != nil {
		return nil, err
	}
	if err = f.replace(b); err == nil {
		f.out, err = fs.OpenReadWrite(f.path(), vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return nil, errors.Join(err, f.root.Close())
	}
	return f, nil
}

func (f *FS) path() string { return f.PathJoin(f.dir, ondisk.SyncedFile) }

// replace puts the file in the place of the one that is there.
func (f *FS) replace(b []byte) error {
	fresh := f.PathJoin(f.dir, ondisk.SyncedNew)
	out, err := f.FS.Create(fresh, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := f.FS.Rename(fresh, f.path()); err != nil {
		return err
	}
	return f.root.Sync()
}

// State is what is kept now.
func (f *FS) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	s.Files = map[File]int64{}
	for file, length := range f.state.Files {
		s.Files[file] = length
	}
	return s
}

// Settle says that the store has a new identity for what was lost.
func (f *FS) Settle() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Lost = 0
	return f.writeHeader()
}

// Close ends the keeping; closed says that Pebble was closed in order. Idempotent.
func (f *FS) Close(closed bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil
	}
	f.ended = true
	var err error
	if closed {
		f.state.Phase = Closed
		err = f.writeHeader()
	}
	return errors.Join(err, f.out.Close(), f.root.Close())
}

func (f *FS) writeHeader() error {
	if _, err := f.out.WriteAt(f.state.header(), 0); err != nil {
		return err
	}
	return f.out.Sync()
}

// keep writes down how much of a file is synced.
func (f *FS) keep(file File, length int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slot, ok := f.slots[file]
	if !ok {
		if n := len(f.free); n > 0 {
			slot, f.free = f.free[n-1], f.free[:n-1]
		} else {
			slot = f.next
			f.next++
		}
		f.slots[file] = slot
	}
	f.state.Files[file] = length
	var b [slotSize]byte
	_, err := f.out.WriteAt(slotOf(&b, file, length), headerSize+int64(slot)*slotSize)
	return err
}

// forget drops the entry of a file that is to be removed.
func (f *FS) forget(file File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slot, ok := f.slots[file]
	if !ok {
		return nil
	}
	delete(f.slots, file)
	delete(f.state.Files, file)
	f.free = append(f.free, slot)
	_, err := f.out.WriteAt(make([]byte, slotSize), headerSize+int64(slot)*slotSize)
	return err
}

// here says whether a path is that of a file in the directory.
func (f *FS) here(path string) bool { return f.PathDir(path) == f.PathDir(f.path()) }

// fileOf says whether a path is that of a file whose length is kept.
func (f *FS) fileOf(path string) (File, bool) {
	if !f.here(path) {
		return File{}, false
	}
	name := f.PathBase(path)
	if num, ok := ondisk.ManifestNumber(name); ok {
		return File{Manifest, num}, true
	}
	if num, ok := ondisk.LogNumber(name); ok {
		return File{Log, num}, true
	}
	return File{}, false
}

// Create implements vfs.FS.
func (f *FS) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	out, err := f.FS.Create(path, category)
	if num, ok := ondisk.MarkedManifest(f.PathBase(path)); ok && err == nil && f.here(path) {
		f.mu.Lock()
		f.naming = num
		f.mu.Unlock()
	}
	file, kept := f.fileOf(path)
	if b := f.bound.Load(); b != nil && err == nil && !f.here(path) && strings.HasPrefix(path, b.prefix) {
		return &boundFile{out, b.ctx}, nil
	}
	if err != nil || !kept {
		return out, err
	}
	// A log that is there counts even before its first sync: one that is gone later
	// is missed.
	if err = f.keep(file, 0); err == nil && file.Type == Log {
		err = f.out.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &keptFile{File: out, fs: f, file: file}, nil
}

// ReuseForWrite implements vfs.FS. Nothing is used again: see the package comment.
func (f *FS) ReuseForWrite(old, path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	out, err := f.Create(path, category)
	if err != nil {
		return nil, err
	}
	if err := f.Remove(old); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// OpenDir implements vfs.FS.
func (f *FS) OpenDir(path string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(path)
	if err != nil || !f.here(f.PathJoin(path, "a file")) {
		return dir, err
	}
	return &keptDir{File: dir, fs: f}, nil
}

// keptDir is a handle of the directory. A sync of it makes a new marker durable, and
// from then on one that names an older manifest is damage.
type keptDir struct {
	vfs.File
	fs *FS
}

func (d *keptDir) Sync() error {
	f := d.fs
	f.mu.Lock()
	num := f.naming
	f.mu.Unlock()
	if err := d.File.Sync(); err != nil || num == 0 {
		return err
	}
	state := f.State()
	before := state.Named()
	if err := f.keep(File{Marker, num}, 0); err != nil {
		return err
	}
	if before != 0 && before != num {
		if err := f.forget(File{Marker, before}); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.naming == num {
		f.naming = 0
	}
	return nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(path string) error {
	if file, kept := f.fileOf(path); kept {
		if err := f.forget(file); err != nil {
			return err
		}
	}
	return f.FS.Remove(path)
}

// Bind lets the writes of files that are made from now on below, or beside, a path whose name
// begins with prefix fail once ctx has ended, until release. Pebble copies whole tables to
// another disk without asking whether it still should. f may be nil.
func (f *FS) Bind(ctx context.Context, prefix string) (release func()) {
	if f == nil {
		return func() {}
	}
	f.bound.Store(&bound{ctx, prefix})
	return func() { f.bound.Store(nil) }
}

type bound struct {
	ctx    context.Context //nolint:containedctx // a file's calls have none
	prefix string
}

// boundFile is a file of which nothing more is written once ctx has ended.
type boundFile struct {
	vfs.File
	ctx context.Context //nolint:containedctx // a file's calls have none
}

func (b *boundFile) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.File.Write(p)
}

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// keptFile is a log or a manifest that is being written.
type keptFile struct {
	vfs.File
	fs      *FS
	file    File
	written atomic.Int64
	named   bool // its name is durable

	// Of a log. Only the one goroutine that writes it touches them.
	wanted   int64 // up to here Pebble wants room reserved
	reserved int64 // up to here it is
}

const (
	firstRoom = 1 << 20
	mostRoom  = 16 << 20
)

// Preallocate implements vfs.File. Pebble reserves for a log a tenth more than a
// memory table at once, 141 MiB as a rule, however little will be in it. A log gets
// it in steps instead: as much again as it has, from 1 MiB on, 16 MiB at most.
func (k *keptFile) Preallocate(offset, length int64) error {
	if k.file.Type != Log {
		return k.File.Preallocate(offset, length)
	}
	k.wanted = offset + length
	k.reserve(1)
	return nil
}

// reserve reserves room for n more bytes. That it fails is no reason not to write.
func (k *keptFile) reserve(n int64) {
	end := k.written.Load() + n
	if end <= k.reserved || k.reserved >= k.wanted {
		return
	}
	to := max(end, k.reserved+min(max(k.reserved, firstRoom), mostRoom))
	to = min(to, k.wanted)
	_ = k.File.Preallocate(k.reserved, to-k.reserved)
	k.reserved = to
}

func (k *keptFile) Write(b []byte) (int, error) {
	k.reserve(int64(len(b)))
	n, err := k.File.Write(b)
	k.written.Add(int64(n))
	return n, err
}

func (k *keptFile) Sync() error     { return k.synced(k.File.Sync) }
func (k *keptFile) SyncData() error { return k.synced(k.File.SyncData) }

func (k *keptFile) SyncTo(length int64) (all bool, err error) {
	written := k.written.Load()
	all, err = k.File.SyncTo(length)
	if err == nil && all {
		err = k.kept(written)
	}
	return all, err
}

func (k *keptFile) synced(sync func() error) error {
	written := k.written.Load()
	if err := sync(); err != nil {
		return err
	}
	return k.kept(written)
}

func (k *keptFile) kept(length int64) error {
	if err := k.fs.keep(k.file, length); err != nil {
		return err
	}
	if k.file.Type != Manifest {
		return nil
	}
	// Pebble syncs the directory only after it has made the marker that names the
	// manifest: a power cut between the two could leave a marker of nothing.
	if !k.named {
		if err := k.fs.root.Sync(); err != nil {
			return err
		}
		k.named = true
	}
	return k.fs.out.Sync()
}
