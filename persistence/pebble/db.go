package pebble

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/metrics"
	"parley/persistence/pebble/internal/blobrows"
	"parley/persistence/pebble/internal/chatrows"
	"parley/persistence/pebble/internal/findable"
	"parley/persistence/pebble/internal/group"
	"parley/persistence/pebble/internal/space"
	"parley/persistence/pebble/internal/synced"
	"parley/persistence/pebble/internal/upkeep"
	"parley/persistence/pebble/internal/usage"
	"parley/persistence/pebble/internal/writers"
)

// DB is a store on Pebble. Open, OpenReadOnly and OpenEphemeral make one.
type DB struct {
	noOwners
	p        *pebble.DB
	log      conversation.LogID
	secret   []byte
	readOnly bool
	cache    *writers.Cache
	health   *health
	guard    *space.Guard   // nil: no disk to watch
	upkeep   *upkeep.Upkeep // nil: read only
	group    *group.Several // nil: read only
	usage    *usage.Tenants // nil: nothing is counted
	chats    *chatrows.Chats
	said     *findable.Index
	blobs    *blobrows.Blobs
	metrics  *metrics.Persistence
	marks    *synced.FS // nil: in memory, or for reading only
	unwatch  func()
	unlock   func() error                // gives the directory up
	tables   func(context.Context) error // of a store that is only read: reads each block of its tables
	fs       vfs.FS                      // of dir
	dir      string                      // "" for a store in memory or one that is only read
	copying  sync.Mutex                  // held while a backup is made

	// life is held for reading while a call touches p, and never while a caller's
	// code runs, so that Close waits for calls and not for loops.
	life     sync.RWMutex
	closed   bool
	closing  sync.Once
	closeErr error

	views    sync.RWMutex         // held for reading while a snapshot is open
	writes   *pebble.WriteOptions // pebble.Sync; the control of the crash tests takes it away
	inFlight atomic.Int64         // batches that may be visible and are not durable yet
	scratch  sync.Pool            // *[]byte
}

var _ conversation.Store = (*DB)(nil)

// LogID implements conversation.Store.
func (db *DB) LogID() conversation.LogID { return db.log }

// Health is nil, or why the store needs a person or a new process.
func (db *DB) Health() error { return db.health.err() }

// Space is the disk as of a check of its free space.
type Space = space.Space

// Space returns the free space of the disk, as of the last check.
func (db *DB) Space() Space {
	if db.guard == nil {
		return Space{}
	}
	return db.guard.Space()
}

// Secret is what the store of a directory alone knows, at every start. A store that is open for
// reading may have none.
func Secret(db *DB) []byte { return db.secret }

// Quota is ErrQuota while a tenant has stored as much as it may.
func Quota(db *DB, tenant conversation.TenantID) error {
	if !db.usage.Full(tenant) {
		return nil
	}
	db.metrics.QuotaRefused.WithLabelValues("stored_bytes_per_tenant").Inc()
	return conversation.ErrQuota
}

// full says that nothing can be written now.
func (db *DB) full() bool { return db.Space().Level == space.Hard }

// enter begins a call; leave must follow if it returns nil.
func (db *DB) enter(ctx context.Context) error {
	db.life.RLock()
	if db.closed {
		db.life.RUnlock()
		return conversation.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		db.life.RUnlock()
		return err
	}
	return nil
}

func (db *DB) leave() { db.life.RUnlock() }

// buffer lends a byte slice for keys and values; Pebble copies what it is given.
func (db *DB) buffer() *[]byte {
	if b, ok := db.scratch.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, 1024)
	return &b
}

func (db *DB) putBuffer(b *[]byte) {
	if cap(*b) <= 64<<10 {
		*b = (*b)[:0]
		db.scratch.Put(b)
	}
}

// clearAtClose is how long Close may take to take erased text off the disk; the
// next Open goes on.
const clearAtClose = 2 * time.Second

// Close waits for calls to end, flushes, so that the next Open has no log to
// replay, and gives the directory up. Idempotent.
func (db *DB) Close() error {
	db.closing.Do(func() {
		db.life.Lock()
		db.closed = true
		db.life.Unlock()
		db.closeErr = db.closeNow()
	})
	return db.closeErr
}

func (db *DB) closeNow() error {
	db.unwatch() // waits for a scrape, which may be in a call: not under db.life
	if db.guard != nil {
		db.guard.Close()
	}
	db.usage.Close()
	if db.upkeep != nil {
		db.upkeep.Close()
		db.group.Close()
	}
	if err := db.health.dead(); err != nil {
		return errors.Join(err, db.unlock()) // what Pebble would still write is not to be trusted
	}
	var err error
	if !db.readOnly && !db.full() { // on a full disk a flush would be tried without end
		ctx, cancel := context.WithTimeout(context.Background(), clearAtClose)
		if left := db.upkeep.Clear(ctx); left != nil {
			db.health.log.Warn("erased text stays on the disk until the next start", "error", left)
		}
		cancel()
		err = db.p.Flush()
	}
	err = errors.Join(err, db.p.Close())
	if db.marks != nil {
		err = errors.Join(err, db.marks.Close(err == nil))
	}
	err = errors.Join(err, db.unlock())
	if err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
