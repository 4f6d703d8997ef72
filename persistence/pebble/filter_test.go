package pebble

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Any block of a table may be damaged, also one that a walk over all keys does not
// read, like that of the filter: a backup or a restore of such a store fails, and
// Verify says so.
func TestDamageOfAnyBlockIsFound(t *testing.T) {
	for part := range 24 {
		fs := filledStore(t, 300, true)
		name := flip(t, fs, ".sst", func(size int) int { return (size - 60) * part / 23 })
		if db, err := openReadOnlyOn(fs, "store", testOptions(t)); err == nil {
			r, err := db.Verify(t.Context(), VerifyHow{})
			if err != nil || r.All() == 0 || !strings.Contains(r.Problems[0].Sentence, name) {
				t.Errorf("damage at %d/23 of %s: verify found %v, %v", part, name, r.Problems, err)
			}
			_ = db.Close()
		}
		if _, err := copies.Restore(t.Context(), fs, "store", "copy", false, time.Now()); err == nil {
			t.Errorf("damage at %d/23 of %s: restored", part, name)
		}
		if there, err := exists(fs, "copy"); there || err != nil {
			t.Errorf("damage at %d/23 of %s: a copy is there, %v", part, name, err)
		}
	}
}

func exists(fs vfs.FS, name string) (bool, error) {
	_, err := fs.Stat(name)
	if err != nil && strings.Contains(err.Error(), "not exist") {
		return false, nil
	}
	return err == nil, err
}
