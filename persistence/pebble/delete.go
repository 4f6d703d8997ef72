package pebble

import (
	"context"
	"fmt"
	"time"

	"parley/conversation"
	"parley/persistence/internal/seen"
	"parley/persistence/pebble/internal/erasure"
	"parley/persistence/pebble/internal/usage"
	"parley/persistence/pebble/internal/writers"
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
	root := writers.Root(key)
	tree := db.cache.Use(root)
	defer db.cache.Release(root, tree)
	tree.Tree.Lock() // every writer of the tree is out, and stays out
	defer tree.Tree.Unlock()
	defer db.chats.Lock(key.Tenant)()
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
	err = db.reading(key, func(*writers.Slot) error {
		erased, err = erasure.Has(db.p, key)
		return err
	})
	return erased, wrap("the erasure of", key, err)
}

func (db *DB) erase(key conversation.SessionKey) error {
	h, err := loadHead(db.p, key)
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
	erasure.Bury(b, key, h, gone, time.Now())
	counted := countedFor(db, gone.Sessions)
	if err = db.apply(key, b); err == nil {
		for i, k := range gone.Sessions {
			db.usage.Remove(k, counted[i])
		}
		db.usage.Add(key, -gone.Blobs, false)
	}
	for _, k := range gone.Sessions { // whatever came of it: what was known is not sure any more
		db.forget(k)
	}
	db.upkeep.Ranges(gone.Ranges)
	return err
}

// forget drops the head of a session whose tree is locked.
func (db *DB) forget(key conversation.SessionKey) {
	entry := db.cache.Use(key)
	entry.Mu.Lock()
	entry.Cached = writers.Known{}
	db.cache.SetKeys(key, entry, seen.Keys{})
	entry.Mu.Unlock()
	db.cache.Release(key, entry)
}

// countedFor is what each of the sessions counts for; it is read before they go.
func countedFor(db *DB, keys []conversation.SessionKey) []int64 {
	counted := make([]int64, len(keys))
	if db.usage == nil {
		return counted
	}
	for i, k := range keys {
		if h, err := loadHead(db.p, k); err == nil && h != nil {
			counted[i] = usage.Of(db.p, k, h)
		}
	}
	return counted
}
