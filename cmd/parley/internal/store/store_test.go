package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/conversation"
)

// made is a store that was closed.
func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Acquire(t.Context(), conversation.SessionKey{Tenant: "acme", Session: "s"}, conversation.AcquireHow{Create: true})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// files are the bytes of all files below a directory, and the directories.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all[path], err = os.ReadFile(path)
		} else {
			all[path] = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Check says what a start would meet, and leaves everything as it is.
func TestCheck(t *testing.T) {
	tests := []struct {
		name  string
		dir   func(t *testing.T) string
		wrong string // "" = well
	}{
		{"a store", made, ""},
		{"nothing", func(t *testing.T) string { return filepath.Join(t.TempDir(), "a", "b") }, ""},
		{"an empty directory", func(t *testing.T) string { return t.TempDir() }, ""},
		{"a hidden file", func(t *testing.T) string {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ".keep"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return dir
		}, ""},
		{"an audit log", func(t *testing.T) string { // of keys that were made before the first start
			dir := t.TempDir()
			for _, name := range []string{"audit.log", "audit-000001.log"} {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return dir
		}, ""},
		{"certificates", func(t *testing.T) string { // they may come before the store is made
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "acme"), 0o700); err != nil {
				t.Fatal(err)
			}
			return dir
		}, ""},
		{"a foreign file", func(t *testing.T) string {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return dir
		}, "is not a parley data directory"},
		{"a file instead of a directory", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "a")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(path, "b")
		}, "not a directory"},
		{"a flipped bit in a table", func(t *testing.T) string {
			dir := made(t)
			tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			if err != nil || len(tables) == 0 {
				t.Fatalf("%v, %v", tables, err)
			}
			for _, path := range tables {
				b, err := os.ReadFile(path)
				if err == nil {
					b[10] ^= 1 // of the first data block
					err = os.WriteFile(path, b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return dir
		}, "is damaged"},
		{"no marker", func(t *testing.T) string {
			dir := made(t)
			markers, err := filepath.Glob(filepath.Join(dir, "marker.manifest.*"))
			if err != nil || len(markers) != 1 {
				t.Fatalf("%v, %v", markers, err)
			}
			if err := os.Remove(markers[0]); err != nil {
				t.Fatal(err)
			}
			return dir
		}, "is damaged"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := test.dir(t)
			root := dir // the nearest that is there
			for info, err := os.Stat(root); err != nil || !info.IsDir(); info, err = os.Stat(root) {
				root = filepath.Dir(root)
			}
			before := files(t, root)
			notes, err := Check(dir, func(int64, int64) {})
			switch {
			case test.wrong == "" && (err != nil || len(notes) > 0):
				t.Errorf("%v, %q", err, notes)
			case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong) || strings.Contains(err.Error(), "\n")):
				t.Errorf("got %v, want %s", err, test.wrong)
			}
			after := files(t, root)
			if len(after) != len(before) {
				t.Errorf("there were %d files, there are %d", len(before), len(after))
			}
			for path, b := range before {
				if !bytes.Equal(after[path], b) {
					t.Errorf("%s was changed", path)
				}
			}
		})
	}
}
