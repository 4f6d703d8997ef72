package pebble

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/persistence/pebble/internal/backup"
)

// A backup of this log is removed, and nothing else is.
func TestRemoveBackup(t *testing.T) {
	fs := vfs.NewMem()
	db := onDisks(t, fs)
	for _, name := range []string{"/backups/a", "/backups/b"} {
		if _, err := db.Backup(t.Context(), name, "v1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := copies.Remove(fs, "/backups/a", "log_other"); err == nil {
		t.Error("a backup of another log was removed")
	} else {
		wantCopyError(t, err, CopyRefused, "not of log_other: it stays")
	}
	wantCopyError(t, copies.Remove(fs, "/data/store", db.LogID()), CopyRefused, "is not a backup")
	if err := copies.Remove(fs, "/backups/a", db.LogID()); err != nil {
		t.Fatal(err)
	}
	if left, _ := fs.List("/backups"); len(left) != 1 || left[0] != "b" {
		t.Errorf("left: %v", left)
	}
	if _, err := openReadOnlyOn(fs, "/data/store", testOptions(t)); err == nil {
		t.Error("the store is not held any more")
	}
	writeSome(t, db, 1)
}

// A removal may end at any of its changes: what is left is removed by the next one, and is
// never a backup that has its name and is not whole.
func TestRemoveBackupIsBrokenOff(t *testing.T) {
	for n := 1; ; n++ {
		mem := vfs.NewMem()
		b := &breaker{at: 1 << 30, below: []string{"/backups"}}
		fs := errorfs.Wrap(mem, b)
		db := onDisks(t, fs)
		if _, err := db.Backup(t.Context(), "/backups/b", "v1"); err != nil {
			t.Fatal(err)
		}
		b.at = n
		err := copies.Remove(fs, "/backups/b", db.LogID())
		if !b.fired {
			if err != nil || n < 5 {
				t.Fatal(n, err)
			}
			return
		}
		if err == nil {
			t.Errorf("change %d failed, and nobody said so", n)
		}
		if there, _ := backup.Exists(mem, "/backups/b"); there {
			if report, err := openReadOnlyOn(mem, "/backups/b", testOptions(t)); err != nil {
				t.Errorf("change %d: %v", n, err)
			} else if err := errors.Join(whole(report, true), report.Close()); err != nil {
				t.Errorf("change %d: %v", n, err)
			}
			err = copies.Remove(mem, "/backups/b", db.LogID())
		} else {
			err = copies.Remove(mem, "/backups/b.removing", db.LogID())
		}
		if left, _ := mem.List("/backups"); err != nil || len(left) > 0 {
			t.Errorf("after change %d: %v, left: %v", n, err, left)
		}
		_ = db.Close()
	}
}

// A backup that another process reads is not removed under it.
func TestRemoveBackupThatIsRead(t *testing.T) {
	if dir := os.Getenv("PARLEY_TEST_HOLD"); dir != "" { // the other process
		db, err := OpenReadOnly(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("held\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		_ = db.Close()
		return
	}
	root := t.TempDir()
	db, err := Open(filepath.Join(root, "a"), testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	dest := filepath.Join(root, "b")
	if _, err := db.Backup(t.Context(), dest, "v1"); err != nil {
		t.Fatal(err)
	}
	reader := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRemoveBackupThatIsRead$")
	reader.Env = append(os.Environ(), "PARLEY_TEST_HOLD="+dest)
	in, err := reader.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := out.Read(b); err != nil || string(b) != "held\n" {
		t.Fatalf("%q, %v", b, err)
	}
	wantCopyError(t, RemoveBackup(dest, db.LogID()), CopyBusy, "somebody reads")
	if info, err := ReadBackup(dest); info == nil || err != nil {
		t.Errorf("%v, %v", info, err)
	}
	if err := errors.Join(in.Close(), reader.Wait()); err != nil {
		t.Fatal(err)
	}
	if err := RemoveBackup(dest, db.LogID()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dest); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// noLinks is a file system that is another disk for each file, and tells when a table is
// being copied.
type noLinks struct {
	vfs.FS
	copying func()
}

func (f noLinks) Unwrap() vfs.FS { return f.FS }

func (f noLinks) Link(string, string) error { return errors.New("another disk") }

func (f noLinks) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(path, ".sst") && strings.HasPrefix(path, "/backups") {
		f.copying()
	}
	return f.FS.Create(path, c)
}

// Nobody waits for a copy to another disk that is not wanted any more.
func TestBackupIsGivenUpWhileTablesAreCopied(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	copied := 0
	fs := noLinks{vfs.NewMem(), func() { copied++; cancel() }}
	db := onDisks(t, fs)
	for range 3 { // a table each
		writeSome(t, db, 1)
		if err := db.p.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := db.Backup(ctx, "/backups/b", "v1")
	if !errors.Is(err, context.Canceled) || copied != 1 {
		t.Errorf("%v; %d tables were begun", err, copied)
	}
	if left, _ := fs.List("/backups"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	writeSome(t, db, 1)
	if _, err := db.Backup(t.Context(), "/backups/b", "v1"); err != nil {
		t.Error(err)
	}
}
