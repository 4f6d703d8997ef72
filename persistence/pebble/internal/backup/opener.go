package backup

import (
	"context"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
)

// Reader is a store that is open for reading; no process can open it for writing
// until Close.
type Reader struct {
	Pebble *pebble.DB
	Log    conversation.LogID
	Tables func(context.Context) error // reads each block of the tables, those of filters and indexes too
	Close  func() error
}

// Opener opens stores for this package.
type Opener struct {
	Read  func(fs vfs.FS, dir string) (Reader, error)
	Lock  func(fs vfs.FS, dir string) (unlock func() error, err error) // keeps servers away from a store
	NewID func(fs vfs.FS, dir string) (conversation.LogID, error)      // gives a store a log id of its own, durably
	Told  func(err error) bool                                         // the error is a sentence for people already
}
