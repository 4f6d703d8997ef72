package pebble

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The operator's table of layouts has each of them.
func TestLayoutsAreDescribed(t *testing.T) {
	doc, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= LayoutVersion; version++ {
		if !strings.Contains(string(doc), fmt.Sprintf("\n| %d | ", version)) {
			t.Errorf("docs/OPERATIONS.md does not say what is new in layout %d", version)
		}
	}
}

// The directory explains itself: the file is there after a start, also if somebody
// changed it, and not after one that was refused.
func TestReadme(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "README.txt")
	for _, before := range []string{"absent", "changed", "as it is"} {
		if before == "changed" {
			if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		db, err := Open(dir, testOptions(t))
		if err != nil {
			t.Fatal(before, err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"PID", "LOCK", "BALLAST", "SYNCED", "parley backup", "storage.soft_free", "parley doctor"} {
			if !strings.Contains(string(b), word) {
				t.Errorf("%s: nothing is said of %s", before, word)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(dir, func(int64, int64) {}); err != nil {
		t.Error(err)
	}
	db, err := OpenReadOnly(dir, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it was written where nothing may be: %v", err)
	}

	// Somebody's own, in a directory without a store.
	dir = t.TempDir()
	path = filepath.Join(dir, "README.txt")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, testOptions(t))
	wantOpenError(t, err, OpenForeign, "it holds other files")
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("%s, %v", b, err)
	}
}
