//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package opening

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lockToRead is the reading kind of the lock that Pebble takes for writing.
func lockToRead(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
