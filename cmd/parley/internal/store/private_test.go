//go:build unix

package store

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is stored is its owner's alone: the directory 0700, every file 0600, in a new
// store and in one that was wider.
func TestStoreIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, prepare := range []func(){
		func() {}, // new
		func() { // as a volume is made, with the files of an older program
			widen(t, dir, 0o755, 0o644)
		},
	} {
		prepare()
		db, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		private := func(when string) {
			t.Helper()
			err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := e.Info()
				if err == nil && info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s: %s is %#o", when, path, info.Mode().Perm())
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		private("open")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		private("closed")
	}
}

func widen(t *testing.T, dir string, mode, files os.FileMode) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if err := os.Chmod(path, files); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
}

// Doctor says it, and changes nothing; a start says what it cannot change.
func TestWideDirectoryIsSaid(t *testing.T) {
	dir := made(t)
	widen(t, dir, 0o750, 0o600)
	notes, err := Check(dir, func(int64, int64) {})
	if err != nil || !strings.Contains(strings.Join(notes, "\n"), "wide_data: other users of this machine may look into") {
		t.Errorf("%q, %v", notes, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("doctor has changed the mode: %v, %v", info.Mode(), err)
	}
	if os.Geteuid() != 0 {
		return // only root can give a directory away
	}
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if !owned(dir) {
		t.Error("root may change every directory")
	}
	var log bytes.Buffer
	db, err := Open(dir, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if wide(dir) != "" {
		t.Errorf("it is still %s", wide(dir))
	}
}
