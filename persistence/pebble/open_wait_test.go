package pebble

import (
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// releasedFS tells when the directory's lock is given up.
type releasedFS struct {
	vfs.FS
	released chan struct{}
}

func (f releasedFS) Lock(name string) (io.Closer, error) {
	lock, err := f.FS.Lock(name)
	return closeFunc(func() error {
		defer close(f.released)
		return lock.Close()
	}), err
}

type closeFunc func() error

func (f closeFunc) Close() error { return f() }

// A disk without room for the tables that the log is written into: Pebble's Open
// would wait for ever. Ours says that it waits, goes on when there is room, and
// gives up with a sentence when there is none for too long.
func TestOpenWithoutSpace(t *testing.T) {
	for _, c := range []struct {
		name  string
		wait  time.Duration
		opens bool
	}{
		{"room in time", time.Hour, true},
		{"no room", time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := filledStore(t, 100, false)
			var full atomic.Bool
			full.Store(true)
			fs := releasedFS{errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if full.Load() && strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					return syscall.ENOSPC
				}
				return nil
			})), make(chan struct{})}
			waits := make(chan string, 1)
			o := testOptions(t)
			o.OpenWait = c.wait
			o.Logger = slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
				if strings.Contains(string(line), "opening waits") {
					if waits <- string(line); c.opens {
						full.Store(false)
					}
				}
				return len(line), nil
			}), &slog.HandlerOptions{Level: slog.LevelError}))

			db, err := openOn(fs, "store", o)
			if said := <-waits; !strings.Contains(said, "the disk is full, opening waits") {
				t.Errorf("it said %s", said)
			}
			if !c.opens {
				wantOpenError(t, err, OpenFailed, "cannot open store: the disk is full, and what the log holds could not be written into tables for 1ms; nothing is lost: make room")
				select {
				case <-fs.released:
					t.Error("the lock is free while Pebble still writes")
				default:
				}
				full.Store(false) // what was abandoned comes to an end and gives the directory up
				<-fs.released
				// The file is let go of first, this process' own note of it a moment later.
				var refused *OpenError
				for db, err = openOn(disk, "store", testOptions(t)); errors.As(err, &refused) && refused.Reason == OpenInUse; {
					runtime.Gosched()
					db, err = openOn(disk, "store", testOptions(t))
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			h, err := db.Head(t.Context(), crashKey(0))
			if err != nil || h.Last == 0 {
				t.Errorf("head %+v, %v", h, err)
			}
			if err := verifySession(db, crashKey(0), h, true, 100); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
