package opening

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
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

// Lock takes the directory's lock for writing. It waits where another process has
// it, not where this one does: that is a mistake, and would not pass.
//
// The lock is one of fcntl, which belongs to the process: it is gone as soon as the
// process closes the file LOCK, by whatever handle. So nothing else may open it.
func Lock(dir string, fs vfs.FS) (*pebble.Lock, error) {
	again := time.NewTicker(lockRetry)
	defer again.Stop()
	end := time.Now().Add(lockWait)
	for {
		lock, err := pebble.LockDirectory(dir, locks{fs, fs.Lock})
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
			return lock, err
		}
		<-again.C
	}
}

// LockToRead takes the directory's lock for reading, without changing so much as the
// time of the file LOCK, which must be there. It does not wait. Many processes may
// read at once; as long as one does, none gets the lock for writing.
func LockToRead(dir string, fs vfs.FS) (*pebble.Lock, error) {
	lock := fs.Lock
	if vfs.Root(fs) == vfs.Default {
		lock = lockToRead
	}
	return pebble.LockDirectory(dir, locks{fs, lock})
}

// locks is a file system whose locks are taken with lock, each once in this process:
// to close a second one would let go of the first.
type locks struct {
	vfs.FS
	lock func(name string) (io.Closer, error)
}

// Lock implements vfs.FS.
func (l locks) Lock(name string) (io.Closer, error) {
	at := place{vfs.Root(l.FS), name}
	if !held.add(at) {
		return nil, ErrHeld
	}
	lock, err := l.lock(name)
	if err != nil {
		held.remove(at)
		return nil, err
	}
	return &heldLock{Closer: lock, at: at}, nil
}

// Unwrap implements vfs.FS.
func (l locks) Unwrap() vfs.FS { return l.FS }

// PID reads who has left its number in a file, for a sentence; "" = not known.
func PID(fs vfs.FS, path string) string {
	f, err := fs.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 32)
	n, _ := f.Read(b)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}
