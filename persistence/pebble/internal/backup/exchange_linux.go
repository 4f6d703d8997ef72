package backup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func exchangeOnDisk(a, b string) (done bool, err error) {
	err = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		return false, nil // this file system, or this kernel, cannot
	}
	return false, &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
}
