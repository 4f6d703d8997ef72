//go:build unix

package auth

import (
	"os"
	"syscall"
)

// lockFile waits until no other process has locked the file; its end, or Close, unlocks it.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
