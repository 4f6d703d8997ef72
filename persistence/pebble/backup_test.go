package pebble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/backup"
)

// wantCopyError checks the sentence that a person gets to read.
func wantCopyError(t *testing.T, err error, reason backup.CopyReason, sentence string) {
	t.Helper()
	var e *CopyError
	if !errors.As(err, &e) || e.Reason != reason || !strings.Contains(e.Error(), sentence) || strings.Contains(e.Error(), "\n") {
		t.Errorf("got %v\nwant reason %d: %s", err, reason, sentence)
	}
}

// M-31: a backup taken while writers go on has everything that was acknowledged
// before; what is made of it has another log id.
func TestBackupAndRestore(t *testing.T) {
	root := t.TempDir()
	db, err := Open(filepath.Join(root, "a"), testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	a := &acks{want: 50, at: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- crashWrite(db, crashKey(0), func(last conversation.Seq) { a.add(0, last) })
	}()
	<-a.at
	acked := a.now()
	dest := filepath.Join(root, "backup")
	info, err := db.Backup(t.Context(), dest, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if info.Log != db.LogID() || info.Program != "v1" || info.Counts.Sessions != 1 || info.Counts.Records < 50 || info.Bytes == 0 || info.Time.IsZero() {
		t.Errorf("the backup says %+v", info)
	}
	_, err = db.Backup(t.Context(), dest, "v1")
	wantCopyError(t, err, CopyOccupied, "exists already")
	log := db.LogID()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, conversation.ErrClosed) {
		t.Errorf("the writer ended with %v", err)
	}

	_, err = Open(dest, testOptions(t))
	wantOpenError(t, err, OpenBackup, "parley restore "+dest)
	looked, err := OpenReadOnly(dest, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(whole(looked, true), looked.Close()); err != nil {
		t.Errorf("the backup: %v", err)
	}

	dir := filepath.Join(root, "b")
	r, err := Restore(t.Context(), dest, dir, false)
	if err != nil || r.Log == log || r.From.Log != log || r.Before != "" {
		t.Fatalf("restored %+v, %v", r, err)
	}
	restored, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = restored.Close() }()
	if err := verify(restored, acked, false); err != nil {
		t.Error(err)
	}
	if restored.LogID() != r.Log {
		t.Errorf("log id %s, the restore said %s", restored.LogID(), r.Log)
	}

	// On the disk, too, the old store is kept.
	r, err = Restore(t.Context(), dest, filepath.Join(root, "a"), true)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := OpenReadOnly(r.Before, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if kept.LogID() != log {
		t.Errorf("%s has the log id %s", r.Before, kept.LogID())
	}
	_ = kept.Close()
	left, _ := os.ReadDir(root)
	if len(left) != 4 { // a, a.before, b, backup
		t.Errorf("left over: %v", left)
	}
}

// onDisks is a store in /data/store with a few sessions, and room for backups.
func onDisks(t *testing.T, fs vfs.FS) *DB {
	t.Helper()
	for _, dir := range []string{"/data", "/backups"} {
		if err := errors.Join(fs.MkdirAll(dir, 0o700), backup.SyncDir(fs, "/")); err != nil {
			t.Fatal(err)
		}
	}
	db, err := openOn(fs, "/data/store", testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	writeSome(t, db, 3)
	return db
}

// writeSome commits n times to each of three sessions.
func writeSome(t *testing.T, db *DB, n int) {
	t.Helper()
	for s := range 3 {
		k := crashKey(s)
		h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, h.Last)); err != nil {
				t.Fatal(err)
			}
			h.Last = following(h.Last)
		}
	}
}

func TestBackupRefused(t *testing.T) {
	for _, c := range []struct {
		name, dest string
		before     func(t *testing.T, fs *vfs.MemFS, db *DB)
		reason     backup.CopyReason
		says       string
	}{
		{"relative", "backups/b", nil, CopyRefused, "absolute path"},
		{"no parent", "/nowhere/b", nil, CopyRefused, "/nowhere does not exist"},
		{"in the data directory", "/data/store/b", nil, CopyRefused, "inside of the data directory"},
		{"the data directory", "/data/store", nil, CopyRefused, "inside of the data directory"},
		{"in the data directory by a detour", "/data/../data/store/x/../b", nil, CopyRefused, "inside of the data directory"},
		{"exists", "/backups", nil, CopyOccupied, "/backups exists already"},
		{"left over", "/backups/b", func(t *testing.T, fs *vfs.MemFS, _ *DB) { _ = fs.MkdirAll("/backups/b.writing", 0o700) }, CopyOccupied, "/backups/b.writing is left over"},
		{"another one", "/backups/b", func(t *testing.T, _ *vfs.MemFS, db *DB) { db.copying.Lock() }, CopyBusy, "another backup"},
		{"no room", "/backups/b", func(t *testing.T, fs *vfs.MemFS, _ *DB) { fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 20}) }, CopyFull, "1 MiB free"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 41})
			db := onDisks(t, fs)
			if c.before != nil {
				c.before(t, fs, db)
			}
			before, _ := fs.List("/backups")
			_, err := db.Backup(t.Context(), c.dest, "v1")
			wantCopyError(t, err, c.reason, c.says)
			if after, _ := fs.List("/backups"); len(after) != len(before) {
				t.Errorf("left over: %v, before %v", after, before)
			}
			writeSome(t, db, 1) // the store goes on
		})
	}
	t.Run("in memory", func(t *testing.T) {
		db, err := OpenEphemeral(testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		_, err = db.Backup(t.Context(), "/backups/b", "v1")
		wantCopyError(t, err, CopyRefused, "memory.mode is ephemeral")
	})
	t.Run("closed, and nobody waits any more", func(t *testing.T) {
		db := onDisks(t, vfs.NewMem())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := db.Backup(ctx, "/backups/b", "v1"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		_ = db.Close()
		if _, err := db.Backup(t.Context(), "/backups/b", "v1"); !errors.Is(err, conversation.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// What the copy does not hold as it should is found when it is read back, and the
// copy is not left there to be trusted.
func TestBackupIsReadBack(t *testing.T) {
	fs := vfs.NewMem()
	db := onDisks(t, fs)
	if err := db.p.Flush(); err != nil {
		t.Fatal(err)
	}
	names, _ := fs.List("/data/store")
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			breakFile(t, fs, "/data/store/"+name)
		}
	}
	if _, err := db.Backup(t.Context(), "/backups/b", "v1"); err == nil || !strings.Contains(err.Error(), "/backups/b") {
		t.Errorf("a damaged table was backed up: %v", err)
	}
	if left, _ := fs.List("/backups"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// breakFile changes a byte in the first quarter of a file, where data is.
func breakFile(t *testing.T, fs *vfs.MemFS, path string) {
	t.Helper()
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	b := []byte{0}
	if _, err := f.ReadAt(b, 100); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b, 100); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

// breaker fails the n-th change of a file system below one of some paths, or calls
// moment instead: that is the moment at which the process dies.
type breaker struct {
	mu     sync.Mutex
	at     int // counted down; the change that makes it 0 is meant
	moment func()
	below  []string
	fired  bool
	opened bool // Pebble has the new store open
}

func (b *breaker) String() string { return "breaker" }

func (b *breaker) MaybeError(op errorfs.Op) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch { // while Pebble writes to the new store a failure ends the process: that is a death
	case op.Kind == errorfs.OpLock && strings.HasSuffix(op.Path, ".restoring/LOCK"):
		b.opened = true
	case op.Kind == errorfs.OpRemove && strings.HasSuffix(op.Path, backup.InfoFile):
		b.opened = false
	}
	if b.opened && b.moment == nil {
		return nil
	}
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead || op.Kind == errorfs.OpFileClose ||
		!slices.ContainsFunc(b.below, func(p string) bool { return strings.HasPrefix(op.Path, p) }) {
		return nil
	}
	if b.at--; b.at != 0 {
		return nil
	}
	b.fired = true
	if b.moment != nil {
		b.moment()
		return nil
	}
	return errBroken
}

var errBroken = errors.New("broken by the test")

// Every change that a backup makes may fail: nothing is left, and the store goes
// on. The next backup is whole.
func TestBackupFails(t *testing.T) {
	for n := 1; ; n++ {
		mem := vfs.NewMem()
		b := &breaker{at: 1 << 30, below: []string{"/backups"}}
		db := onDisks(t, errorfs.Wrap(mem, b))
		b.at = n
		_, err := db.Backup(t.Context(), "/backups/b", "v1")
		if !b.fired {
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d changes failed, one at a time", n-1)
			if n < 10 {
				t.Error("the backup did too little to show anything")
			}
			return
		}
		if left, _ := mem.List("/backups"); err == nil || len(left) > 0 {
			t.Errorf("change %d failed: %v; left over: %v", n, err, left)
		}
		writeSome(t, db, 1)
		if _, err := db.Backup(t.Context(), "/backups/b", "v1"); err != nil {
			t.Errorf("change %d failed, and the next backup: %v", n, err)
		}
		_ = db.Close()
	}
}

// A stopped store is copied, and nothing in it changes.
func TestBackupStopped(t *testing.T) {
	fs := vfs.NewMem()
	db := onDisks(t, fs)
	_, err := copies.Stopped(t.Context(), fs, "/data/store", "/backups/b", "v1")
	wantOpenError(t, err, OpenInUse, "/data/store is in use")
	log := db.LogID()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := content(t, fs, "/data/store")
	info, err := copies.Stopped(t.Context(), fs, "/data/store", "/backups/b", "v1")
	if err != nil || info.Log != log || info.Counts.Records != 9 {
		t.Fatalf("%+v, %v", info, err)
	}
	if after := content(t, fs, "/data/store"); after != before {
		t.Errorf("the store was\n%s\nand is\n%s", before, after)
	}
	_, err = copies.Stopped(t.Context(), fs, "/backups/b", "/backups/c", "v1")
	wantCopyError(t, err, CopyRefused, "a backup itself")
	_, err = copies.Stopped(t.Context(), fs, "/backups", "/data/c", "v1")
	wantOpenError(t, err, OpenForeign, "/backups")
	if _, err = copies.Restore(t.Context(), fs, "/backups/b", "/data/again", false, time.Now()); err != nil {
		t.Error(err)
	}
}

// Where the data directory is a link, the link stays, and the store is where it leads.
func TestRestoreThroughLink(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	db, err := Open(at("source"), testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(at("disk"), 0o700), os.Mkdir(at("disk/data"), 0o700), os.Symlink(at("disk/data"), at("link"))); err != nil {
		t.Fatal(err)
	}
	for _, replace := range []bool{false, true} {
		if _, err := Restore(t.Context(), at("source"), at("link"), replace); err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(at("link")); err != nil || to != at("disk/data") {
			t.Errorf("the link leads to %q, %v", to, err)
		}
		if _, err := os.Stat(at("disk/data/SYNCED")); err != nil {
			t.Error(err)
		}
	}
}

// content is the names and bytes of a directory.
func content(t *testing.T, fs vfs.FS, dir string) string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var all strings.Builder
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		stat, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, stat.Size())
		if _, err := f.ReadAt(b, 0); err != nil && len(b) > 0 {
			t.Fatal(err)
		}
		_ = f.Close()
		fmt.Fprintf(&all, "%s %x\n", name, b)
	}
	return all.String()
}
