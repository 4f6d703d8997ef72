package pebble

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/persistencetest"
)

// withLegacy can write what stores of before part indexes held.
type withLegacy struct{ *DB }

func (db withLegacy) PutLegacyPart(key conversation.SessionKey, source conversation.SourceID, seq conversation.Seq) error {
	db.forget(key) // such a session is never one that this process made
	return db.p.Set(layout.KeyLegacyPart(nil, key, source), layout.AppendU64(nil, uint64(seq)), pebble.Sync)
}

// sick is a store whose disk can be told to read no table.
type sick struct {
	withLegacy
	t      *testing.T
	broken *atomic.Bool
}

// newSick has a cache that holds nothing: each look-up comes to the disk.
func newSick(t *testing.T) sick {
	broken := &atomic.Bool{}
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
			return errors.New("the disk is sick")
		}
		return nil
	}))
	o := testOptions(t)
	o.CacheBytes = 1
	return sick{withLegacy{clean(t, openMem(t, fs, o))}, t, broken}
}

// FailReads has everything lie in tables first, and forgets what the process knows
// of the session.
func (s sick) FailReads(key conversation.SessionKey, err error) {
	if err := s.p.Flush(); err != nil {
		s.t.Fatal(err)
	}
	s.forget(key)
	s.broken.Store(err != nil)
}

// testOptions are small, and say which process a failure would have ended.
func testOptions(t testing.TB) Options {
	o := Options{MemTableBytes: 4 << 20, CacheBytes: 4 << 20}
	if os.Getenv("PARLEY_TEST_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	o.OnFatal = func(err error) { t.Errorf("the process would have ended: %v", err) }
	return o
}

func openMem(t testing.TB, fs vfs.FS, o Options) *DB {
	t.Helper()
	db, err := openOn(fs, "store", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestStore(t *testing.T) {
	t.Run("memory file system", func(t *testing.T) {
		persistencetest.Run(t, func(t *testing.T) conversation.Store {
			return newSick(t)
		})
	})
	// With room for few heads every commit finds its session forgotten.
	t.Run("one head in memory", func(t *testing.T) {
		persistencetest.Run(t, func(t *testing.T) conversation.Store {
			o := testOptions(t)
			o.Heads = 1
			return withLegacy{clean(t, openMem(t, vfs.NewMem(), o))}
		})
	})
	t.Run("several committers", func(t *testing.T) {
		persistencetest.Run(t, func(t *testing.T) conversation.Store {
			o := testOptions(t)
			o.Committers = 3
			return withLegacy{clean(t, openMem(t, vfs.NewMem(), o))}
		})
	})
	t.Run("disk", func(t *testing.T) {
		persistencetest.Run(t, func(t *testing.T) conversation.Store {
			db, err := Open(t.TempDir(), testOptions(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return withLegacy{clean(t, db)}
		})
	})
	// nothing is left of an ephemeral store.
	t.Run("ephemeral", func(t *testing.T) {
		persistencetest.Run(t, func(t *testing.T) conversation.Store {
			db, err := OpenEphemeral(testOptions(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return withLegacy{clean(t, db)}
		})
	})
}

// quiet takes the words of a Pebble that is not a store's.
func quiet() pebble.Logger {
	return pebbleLogger{&health{log: slog.New(slog.DiscardHandler)}}
}
