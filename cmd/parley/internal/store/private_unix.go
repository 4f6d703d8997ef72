//go:build unix

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// wide says in words what is wrong with the mode of a data directory; "" = nothing:
// it is its owner's alone, and that is this process's user.
func wide(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Sprintf("other users of this machine may look into %s (its mode is %#o, not 0700)", dir, mode)
	}
	return ""
}

// owned is true if this process's user may change the mode of dir.
func owned(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (os.Geteuid() == 0 || int(stat.Uid) == os.Geteuid())
}

// makePrivate gives a data directory and its files to their owner alone, where this
// process may; files that are not its own stay as they are.
func makePrivate(dir string) error {
	if wide(dir) != "" {
		if !owned(dir) {
			return errors.New(wide(dir) + ", and it is another user's: let its owner run chmod 700")
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			_ = os.Chmod(filepath.Join(dir, e.Name()), info.Mode().Perm()&0o700)
		}
	}
	return nil
}
