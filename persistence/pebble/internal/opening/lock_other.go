//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package opening

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockToRead takes the lock for writing: this system has no other.
func lockToRead(name string) (io.Closer, error) { return vfs.Default.Lock(name) }
