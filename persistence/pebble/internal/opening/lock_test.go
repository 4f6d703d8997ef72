package opening

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockedFS is a file system whose lock another process has, for some tries.
type lockedFS struct {
	vfs.FS
	tries int
	err   error
}

func (f *lockedFS) Lock(name string) (io.Closer, error) {
	if f.tries--; f.tries >= 0 {
		return nil, f.err
	}
	return f.FS.Lock(name)
}

func TestLockOfAnotherProcess(t *testing.T) {
	again := &os.SyscallError{Syscall: "fcntl", Err: syscall.EAGAIN}
	for name, c := range map[string]struct {
		tries int
		err   error
		locks bool
		waits time.Duration // at most
	}{
		"free":                 {0, nil, true, 0},
		"dying":                {3, again, true, time.Second},
		"dying slowly":         {90, again, true, lockWait},
		"alive":                {1 << 30, again, false, lockWait + lockRetry},
		"of this same process": {1, errors.New("lock held by current process"), false, 0},
		"may not be taken":     {1, os.ErrPermission, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs := vfs.NewMem()
				if err := fs.MkdirAll("store", 0o700); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				lock, err := Lock("store", &lockedFS{fs, c.tries, c.err})
				if took := time.Since(start); took > c.waits { // virtual time
					t.Errorf("it took %v", took)
				}
				if c.locks != (err == nil) || err != nil && !errors.Is(err, c.err) {
					t.Errorf("got %v", err)
				}
				if err == nil {
					_ = lock.Close()
				}
			})
		})
	}
}
