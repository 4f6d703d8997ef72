package opening

import (
	"errors"
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrHeld says that this process has the lock already.
var ErrHeld = errors.New("lock held by current process")

// held are the locks of this process.
var held places

type place struct {
	fs   vfs.FS
	path string
}

type places struct {
	mu  sync.Mutex
	all map[place]bool
}

// add is false if it is there.
func (p *places) add(at place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[at] {
		return false
	}
	if p.all == nil {
		p.all = map[place]bool{}
	}
	p.all[at] = true
	return true
}

func (p *places) remove(at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, at)
}

type heldLock struct {
	io.Closer
	at place
}

// Close lets go of the lock.
func (l *heldLock) Close() error {
	err := l.Closer.Close()
	held.remove(l.at)
	return err
}
