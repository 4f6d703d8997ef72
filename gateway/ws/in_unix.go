//go:build unix

package ws

import (
	"errors"
	"syscall"
)

// canWait says that a socket can be waited for without a buffer.
const canWait = true

// tryRead is one call of the system on a socket that does not block. The result false asks
// to be called again when there is something to read; no buffer is kept meanwhile.
func (f *frames) tryRead(fd uintptr) bool {
	f.acquire()
	for {
		n, err := syscall.Read(int(fd), (*f.buf)[len(*f.buf):cap(*f.buf)])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			f.release()
			return false
		}
		f.took(max(n, 0), err)
		return true
	}
}
