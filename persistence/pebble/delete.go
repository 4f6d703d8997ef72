package pebble

import (
	"context"
	"fmt"
	"time"

	"parley/conversation"
	"parley/persistence/pebble/internal/erasure"
)

// Delete implements conversation.Store.
func (db *DB) Delete(ctx context.Context, key conversation.SessionKey) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	if err := db.writable(); err != nil {
		return err
	}
	root := rootOf(key)
	tree := db.cache.acquire(root)
	defer db.cache.release(root, tree)
	tree.tree.Lock() // every writer of the tree is out, and stays out
	defer tree.tree.Unlock()
	defer db.upkeep.Wake()
	if err := db.erase(key); err != nil {
		return fmt.Errorf("erase %s: %w", key, asDamage(err))
	}
	return nil
}

// Erased implements conversation.Store.
func (db *DB) Erased(ctx context.Context, key conversation.SessionKey) (erased bool, err error) {
	if err := db.enter(ctx); err != nil {
		return false, err
	}
	defer db.leave()
	err = db.reading(key, func(*cacheEntry) error {
		erased, err = tombstone(db.p, key)
		return err
	})
	return erased, wrap("the erasure of", key, err)
}

func (db *DB) erase(key conversation.SessionKey) error {
	h, err := db.loadHead(db.p, key)
	if err != nil {
		return err
	}
	if h == nil {
		return conversation.ErrNotFound
	}
	b := db.p.NewBatch()
	gone, err := erasure.Fill(b, db.p, key, h, erasure.Points)
	if err != nil {
		_ = b.Close()
		return err
	}
	erasure.Bury(b, key, h, time.Now())
	err = db.apply(b, db.writes)
	for _, k := range gone.Sessions { // whatever came of it: what was known is not sure any more
		db.forget(k)
	}
	db.upkeep.Ranges(gone.Ranges)
	return err
}

// forget drops the head of a session whose tree is locked.
func (db *DB) forget(key conversation.SessionKey) {
	entry := db.cache.acquire(key)
	entry.mu.Lock()
	entry.cached = cachedHead{}
	entry.mu.Unlock()
	db.cache.release(key, entry)
}
