package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
)

// health remembers the first failure of each kind.
type health struct {
	log     *slog.Logger
	onFatal func(error)
	fatal   atomic.Pointer[error] // a commit cannot be made durable: nothing works any more
	broken  atomic.Pointer[error] // a table is damaged: what can be read is served

	background  atomic.Int64 // failed flushes and compactions
	stalls      atomic.Int64
	stallNanos  atomic.Int64
	stallMu     sync.Mutex
	stallBegan  time.Time
	failing     chan error // gets a failed flush or compaction while Open waits; may be nil
	corruptions limit
	backgrounds limit
	waits       limit
	lists       limit
}

// err is the failure that the store cannot recover from by itself, or nil.
func (h *health) err() error {
	for _, p := range []*error{h.fatal.Load(), h.broken.Load()} {
		if p != nil {
			return *p
		}
	}
	return nil
}

// dead is the failure after which nothing can be written.
func (h *health) dead() error {
	if p := h.fatal.Load(); p != nil {
		return *p
	}
	return nil
}

// leftOut reports that a list goes on without a session because of err; false: err
// is none that belongs to that session alone.
func (h *health) leftOut(key conversation.SessionKey, err error) bool {
	switch {
	case damaged(err):
		damage := fmt.Errorf("what is stored of %s is damaged: %w; bring back a backup (parley restore)", key, err)
		h.broken.CompareAndSwap(nil, &damage)
	case !errors.Is(err, conversation.ErrTooNew):
		return false
	}
	if n, ok := h.lists.take(time.Now()); ok {
		h.log.Error("a list goes on without a session that cannot be read", "session", key.Session, "tenant", key.Tenant, "error", err, "times", n)
	}
	return true
}

// pebbleLogger takes Pebble's own words: it would print them, and exit, by itself.
type pebbleLogger struct{ h *health }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.h.log.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.h.log.Warn("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf is called when a log write or sync failed. Pebble counts on it not to
// return; with an OnFatal that does, the store refuses everything from here on.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := errors.New("the store failed: " + fmt.Sprintf(format, args...))
	if l.h.fatal.CompareAndSwap(nil, &err) {
		l.h.log.Error("the store cannot write any more, the process has to end", "error", err)
		l.h.onFatal(err)
	}
}

// listener watches what happens in the background. Every handler may run very
// often on a sick disk (failed flushes were seen 30,000 times a second), so each
// kind of message is written once a second at most.
func (h *health) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			h.background.Add(1)
			select {
			case h.failing <- err:
			default: // nobody waits for it, or one is there already
			}
			if n, ok := h.backgrounds.take(time.Now()); ok {
				h.log.Warn("a flush or compaction failed and is tried again", "error", err, "times", n)
			}
		},
		// A damaged table does not make the log unsafe, and a restart would not
		// repair it: the store goes on and reports it until an operator acts.
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			err := fmt.Errorf("damaged table file %s: %w; bring back a backup (parley restore)", info.Path, info.Details)
			h.broken.CompareAndSwap(nil, &err)
			if n, ok := h.corruptions.take(time.Now()); ok {
				h.log.Error("data corruption", "error", err, "times", n)
			}
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			h.stalls.Add(1)
			h.stallMu.Lock()
			h.stallBegan = time.Now()
			h.stallMu.Unlock()
			if n, ok := h.waits.take(time.Now()); ok {
				h.log.Warn("writes wait for the disk", "reason", info.Reason, "times", n)
			}
		},
		WriteStallEnd: func() {
			h.stallMu.Lock()
			took := time.Since(h.stallBegan)
			h.stallMu.Unlock()
			h.stallNanos.Add(int64(took))
			h.log.Debug("writes go on", "waited", took)
		},
	}
}

// limit lets one message a second through and counts the others.
type limit struct {
	mu     sync.Mutex
	last   time.Time
	missed int
}

// take says whether to write now, and how many messages the line stands for.
func (l *limit) take(now time.Time) (n int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed++
	if now.Sub(l.last) < time.Second {
		return 0, false
	}
	n, l.missed, l.last = l.missed, 0, now
	return n, true
}
