package pebble

import (
	"context"
	"iter"

	"parley/conversation"
	"parley/conversation/blobs"
	"parley/persistence/move"
	"parley/persistence/pebble/internal/carry"
)

// Installation is a store that is carried to another place, or is a new place for one.
// Between its calls nobody closes the store.
func Installation(db *DB) move.Installation { return movable{db, carry.Talk{Store: db.p}} }

type movable struct {
	*DB
	carry.Talk
}

func (m movable) Awaits(ctx context.Context, key conversation.SessionKey) (move.Awaited, error) {
	if err := m.enter(ctx); err != nil {
		return move.Awaited{}, err
	}
	defer m.leave()
	a, err := carry.Awaits(m.p, key)
	return a, wrap("what is awaited by", key, err)
}

func (m movable) Attached(ctx context.Context, key conversation.SessionKey) iter.Seq2[blobs.Stored, error] {
	return carry.Attached(ctx, m.p, key)
}

func (m movable) Blobs() blobs.Store { return Blobs(m.DB) }

func (m movable) ReadCursors(ctx context.Context, key conversation.SessionKey) iter.Seq2[conversation.Cursor, error] {
	return carry.Cursors(ctx, m.p, key)
}

func (m movable) Tombstones(ctx context.Context) iter.Seq2[move.Tombstone, error] {
	return carry.Tombstones(ctx, m.p)
}

func (m movable) Bury(ctx context.Context, all []move.Tombstone) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.leave()
	return carry.Bury(m.p, all)
}

func (m movable) Adopt(ctx context.Context, log conversation.LogID) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.leave()
	if log == m.log {
		return nil
	}
	if err := carry.Adopt(m.p, log); err != nil {
		return err
	}
	m.log = log
	return nil
}
