package pebble

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// contents are the files of a store, by name.
func contents(t testing.TB, fs vfs.FS, dir string) map[string][]byte {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	return files
}

// wantUnchanged compares the files of a store with what they were. LOCK and PID
// may differ where mayLock is set.
func wantUnchanged(t testing.TB, fs vfs.FS, dir string, before map[string][]byte, mayLock bool) {
	t.Helper()
	after := contents(t, fs, dir)
	if mayLock {
		for _, name := range []string{lockFile, pidFile} {
			before, after = maps.Clone(before), maps.Clone(after)
			delete(before, name)
			delete(after, name)
		}
	}
	was, is := slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))
	if !slices.Equal(was, is) {
		t.Errorf("the directory held %v\nand holds      %v", was, is)
	}
	for name, b := range before {
		if now, ok := after[name]; ok && !bytes.Equal(now, b) {
			t.Errorf("%s was changed: %d bytes, had %d", name, len(now), len(b))
		}
	}
}

// What a killed process leaves, logs and all, is read whole and left as it is.
func TestOpenReadOnly(t *testing.T) {
	for _, flush := range []bool{false, true} {
		fs := filledStore(t, 50, flush)
		before := contents(t, fs, "store")
		db, err := openReadOnlyOn(fs, "store", testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		k := crashKey(0)
		h, err := db.Head(t.Context(), k)
		if err != nil || db.LogID() == "" {
			t.Fatalf("log id %q, %v", db.LogID(), err)
		}
		if records, err := listOf(db.Records(t.Context(), k, conversation.Range{})); err != nil || len(records) != 50 {
			t.Errorf("%d records, %v", len(records), err)
		}
		_, err = db.Acquire(t.Context(), k, conversation.AcquireHow{})
		for what, err := range map[string]error{
			"acquire": err,
			"commit":  db.Commit(t.Context(), k, crashCommit(k, h.Epoch, h.Last)),
			"delete":  db.Delete(t.Context(), k),
			"backup":  func() error { _, err := db.Backup(t.Context(), "/copy", "v1"); return err }(),
		} {
			if !errors.Is(err, ErrReadOnly) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = openOn(fs, "store", testOptions(t))
		wantOpenError(t, err, OpenInUse, "store is in use")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		wantUnchanged(t, fs, "store", before, false)
		if db, err = openOn(fs, "store", testOptions(t)); err != nil {
			t.Fatal(err)
		}
		_, err = openReadOnlyOn(fs, "store", testOptions(t))
		wantOpenError(t, err, OpenInUse, "store is in use")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A look at a store on a real disk does not change the time of a single file.
func TestOpenReadOnlyKeepsTimes(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Chtimes(filepath.Join(dir, f.Name()), past, past); err != nil {
			t.Fatal(err)
		}
	}
	if db, err = OpenReadOnly(dir, testOptions(t)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		is, err := os.Stat(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !is.ModTime().Equal(past) {
			t.Errorf("%s has another time", f.Name())
		}
	}
}

// Reading refuses what opening refuses, and makes nothing where nothing is.
func TestOpenReadOnlyRefuses(t *testing.T) {
	put := func(t *testing.T, fs vfs.FS, name string) {
		f, err := fs.Create("store/"+name, vfs.WriteCategoryUnspecified)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		make   func(t *testing.T, fs *vfs.MemFS)
		reason OpenReason
	}{
		{"empty", func(*testing.T, *vfs.MemFS) {}, OpenAbsent},
		{"hidden file", func(t *testing.T, fs *vfs.MemFS) { put(t, fs, ".keep") }, OpenAbsent},
		{"foreign file", func(t *testing.T, fs *vfs.MemFS) { put(t, fs, "thesis.tex") }, OpenForeign},
		{"newer format", func(t *testing.T, fs *vfs.MemFS) { put(t, fs, "marker.format-version.000099.026") }, OpenTooNew},
		{"newer layout", func(t *testing.T, fs *vfs.MemFS) {
			db := openMem(t, fs, testOptions(t))
			err := db.p.Set(layout.KeySchema, layout.AppendU32(nil, layout.Version+1), pebble.Sync)
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		}, OpenTooNew},
		{"foreign store", func(t *testing.T, fs *vfs.MemFS) {
			p, err := pebble.Open("store", &pebble.Options{FS: fs, Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.Set([]byte("k"), nil, pebble.Sync), p.Close()); err != nil {
				t.Fatal(err)
			}
		}, OpenForeign},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fs := vfs.NewMem()
			if err := fs.MkdirAll("store", 0o700); err != nil {
				t.Fatal(err)
			}
			test.make(t, fs)
			before := contents(t, fs, "store")
			_, err := openReadOnlyOn(fs, "store", testOptions(t))
			wantOpenError(t, err, test.reason, "store")
			wantUnchanged(t, fs, "store", before, false)
		})
	}
	dir := t.TempDir() + "/none"
	_, err := OpenReadOnly(dir, testOptions(t))
	wantOpenError(t, err, OpenAbsent, "there is no parley store in "+dir)
	if _, err := vfs.Default.List(dir); err == nil {
		t.Error("the directory was made")
	}
}

// A reader on a real disk excludes a writer, and the other way round.
func TestOpenReadOnlyOnDisk(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Acquire(context.Background(), crashKey(0), conversation.AcquireHow{Create: true}); err != nil {
		t.Fatal(err)
	}
	_, err = OpenReadOnly(dir, testOptions(t))
	wantOpenError(t, err, OpenInUse, "in use by another process (pid ")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := contents(t, vfs.Default, dir)
	if db, err = OpenReadOnly(dir, testOptions(t)); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, testOptions(t))
	wantOpenError(t, err, OpenInUse, "in use")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantUnchanged(t, vfs.Default, dir, before, false)
}
