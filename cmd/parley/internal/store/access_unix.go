//go:build unix

package store

import (
	"io/fs"
	"syscall"
)

// writable says whether this user may make files in dir, without making one.
func writable(dir string) error {
	const write, search = 2, 1
	if err := syscall.Access(dir, write|search); err != nil {
		return &fs.PathError{Op: "write to", Path: dir, Err: err}
	}
	return nil
}
