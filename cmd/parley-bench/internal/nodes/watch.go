package nodes

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// watchers are sockets to every node that only look on. A socket ends with its node and
// with nothing else: no outage of the database, no move of a session, no freeze.
type watchers struct {
	over  func(error)
	group sync.WaitGroup
	held  atomic.Int64 // sockets that ended with their node
}

// watch holds a socket to the node's process for as long as it lives.
func (w *watchers) watch(ctx context.Context, n *node, p *process) {
	w.group.Go(func() {
		c, err := load.DialWithin(p.server.Addr, 0)
		if err == nil {
			stop := context.AfterFunc(ctx, c.Close)
			defer stop()
			defer c.Close()
			for err == nil {
				_, err = c.Read()
			}
		}
		if ctx.Err() != nil {
			return
		}
		// The end of a socket may be noticed before the end of its process.
		grace := time.NewTimer(2 * time.Second)
		defer grace.Stop()
		select {
		case <-p.ended:
			w.held.Add(1)
		case <-ctx.Done():
		case <-grace.C:
			n.mu.Lock()
			ending := p.ending
			n.mu.Unlock()
			if !ending {
				w.over(fmt.Errorf("%w: %w", violationf("%s lives and has closed a socket", n.name), err))
			}
		}
	})
}
