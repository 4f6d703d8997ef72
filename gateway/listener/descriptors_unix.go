//go:build unix

package listener

import "syscall"

// descriptors is how many files and connections the process may have open; 0 = unknown.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<20)) //nolint:unconvert // it is signed on some systems
}
