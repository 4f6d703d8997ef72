package pebble

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
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
	gone, err := db.below(key)
	if err != nil {
		return err
	}
	gone = append(gone, erasee{key, h})
	b := db.p.NewBatch()
	for _, e := range gone {
		if !e.head.Row.WakeAt.IsZero() {
			_ = b.Delete(layout.KeyDue(nil, e.key, e.head.Row.WakeAt.UnixMilli()), nil)
		}
		if e.head.Row.Claim != nil {
			_ = b.Delete(layout.KeyClaim(nil, e.key, e.head.Row.Claim.Since.UnixMilli()), nil)
		}
		if e.head.Listed {
			_ = b.Delete(layout.KeyActivity(nil, e.key, e.head.Activity), nil)
		}
	}
	if key.Session.Depth() == 0 {
		if err := db.eraseTaskTimes(b, key); err != nil {
			_ = b.Close()
			return err
		}
	}
	for _, prefix := range [][]byte{layout.SessionPrefix(nil, key), layout.SubsPrefix(nil, key)} {
		_ = b.DeleteRange(prefix, layout.After(prefix), nil)
	}
	_ = b.Set(layout.KeyTombstone(nil, key), layout.AppendTombstone(nil, h.Row.Epoch+1, time.Now()), nil)
	_ = b.Set(layout.KeyUncleared(nil, key), nil, nil)
	err = db.apply(b, db.writes)
	for _, e := range gone { // whatever came of it: what was known is not sure any more
		db.forget(e.key)
	}
	return err
}

type erasee struct {
	key  conversation.SessionKey
	head *layout.Head
}

// below lists the sub-sessions of a session.
func (db *DB) below(key conversation.SessionKey) (subs []erasee, err error) {
	prefix := layout.SubsPrefix(nil, key)
	it, err := db.p.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; {
		sub, rest, fits := layout.CutSession(it.Key()[1:])
		if !fits || len(rest) != 1 || rest[0] != layout.KindHead {
			return nil, fmt.Errorf("%w: key %x is not a head", layout.ErrHead, it.Key())
		}
		h, err := layout.DecodeHead(it.Value())
		if err != nil {
			return nil, err
		}
		subs = append(subs, erasee{sub, h})
		ok = it.SeekGE(layout.After(layout.SessionPrefix(nil, sub)))
	}
	return subs, it.Error()
}

// eraseTaskTimes drops the tasks of a session from the list of all tasks.
func (db *DB) eraseTaskTimes(b *pebble.Batch, key conversation.SessionKey) (err error) {
	prefix := append(layout.SessionPrefix(nil, key), layout.KindTask)
	it, err := db.p.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		row, err := wire.DecodeTaskRow(it.Value())
		if err != nil {
			return err
		}
		_ = b.Delete(layout.KeyTaskTime(nil, key.Tenant, row.CreatedAt.UnixMilli(), row.Task), nil)
	}
	return it.Error()
}

// forget drops the head of a session whose tree is locked.
func (db *DB) forget(key conversation.SessionKey) {
	entry := db.cache.acquire(key)
	entry.mu.Lock()
	entry.cached = cachedHead{}
	entry.mu.Unlock()
	db.cache.release(key, entry)
}
