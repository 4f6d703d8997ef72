//go:build unix

package ws

import (
	"errors"
	"syscall"
)

// write is one call of the system on a socket that does not block. It never asks to
// be called again when there is room: the result true.
func (o *out) write(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), o.data)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return true
		}
		o.n, o.err = max(n, 0), err
		return true
	}
}
