package opening

import (
	"errors"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockWait is how long a start waits for another process to give the directory up:
// a process that was killed has its lock until the kernel has taken it down.
const (
	lockWait  = 2 * time.Second
	lockRetry = 20 * time.Millisecond
)

// Lock takes the directory's lock. It waits where another process has it, not where
// this one does: that is a mistake, and would not pass.
//
// The lock is one of fcntl, which belongs to the process: it is gone as soon as the
// process closes the file LOCK, by whatever handle. So nothing else may open it.
func Lock(dir string, fs vfs.FS) (*pebble.Lock, error) {
	again := time.NewTicker(lockRetry)
	defer again.Stop()
	end := time.Now().Add(lockWait)
	for {
		lock, err := pebble.LockDirectory(dir, fs)
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
			return lock, err
		}
		<-again.C
	}
}
