package carry

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/move"
	"parley/persistence/pebble/internal/layout"
)

// under shows every key with a prefix, its rest behind the prefix.
func under[T any](ctx context.Context, p *pebble.DB, prefix []byte, item func(rest, value []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		it, err := p.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = it.Close() }()
		for ok := it.First(); ok; ok = it.Next() {
			value, err := it.ValueAndErr()
			var one T
			if err == nil {
				one, err = item(it.Key()[len(prefix):], value)
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				yield(none, err)
				return
			}
			if !yield(one, nil) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(none, err)
		}
	}
}

// Cursors lists how far the users of a session have read.
func Cursors(ctx context.Context, p *pebble.DB, key conversation.SessionKey) iter.Seq2[conversation.Cursor, error] {
	prefix := append(layout.SessionPrefix(nil, key), layout.KindCursor)
	return under(ctx, p, prefix, func(rest, value []byte) (c conversation.Cursor, err error) {
		user, left, ok := layout.CutString(rest)
		c, fits := layout.CutCursor(value)
		if !ok || len(left) > 0 || !fits {
			return c, fmt.Errorf("%w: a read cursor", conversation.ErrDamaged)
		}
		c.User = conversation.UserID(user)
		return c, nil
	})
}

// Tombstones lists the erased sessions.
func Tombstones(ctx context.Context, p *pebble.DB) iter.Seq2[move.Tombstone, error] {
	return under(ctx, p, []byte{layout.TableTombstone}, func(rest, value []byte) (t move.Tombstone, err error) {
		key, left, ok := layout.CutSession(rest)
		epoch, at, fits := layout.CutTombstone(value)
		if !ok || !fits || len(left) > 0 {
			return t, fmt.Errorf("%w: the note of an erased session", conversation.ErrDamaged)
		}
		return move.Tombstone{Key: key, Epoch: epoch, Erased: at}, nil
	})
}

// Awaits is what a session waits for.
func Awaits(p *pebble.DB, key conversation.SessionKey) (move.Awaited, error) {
	v, closer, err := p.Get(layout.KeyHead(nil, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return move.Awaited{}, conversation.ErrNotFound
	}
	if err != nil {
		return move.Awaited{}, err
	}
	h, err := layout.DecodeHead(v)
	if err = errors.Join(err, closer.Close()); err != nil {
		return move.Awaited{}, err
	}
	return move.Awaited{WakeAt: h.Row.WakeAt, Claim: h.Row.Claim}, nil
}

// Bury writes the tombstones of sessions that are not there.
func Bury(p *pebble.DB, all []move.Tombstone) error {
	b := p.NewBatch()
	defer func() { _ = b.Close() }()
	for _, t := range all {
		if there, err := has(p, layout.KeyHead(nil, t.Key)); err != nil {
			return err
		} else if there {
			return fmt.Errorf("session %s: %w", t.Key, move.ErrDiffers)
		}
		if there, err := has(p, layout.KeyTombstone(nil, t.Key)); err != nil {
			return err
		} else if there {
			continue
		}
		value := layout.AppendU64(nil, uint64(t.Epoch)) // as layout 1 had it: without a time it is kept
		if !t.Erased.IsZero() {
			value = layout.AppendTombstone(nil, t.Epoch, t.Erased)
		}
		_ = b.Set(layout.KeyTombstone(nil, t.Key), value, nil)
	}
	return b.Commit(pebble.Sync)
}

func has(p *pebble.DB, key []byte) (bool, error) {
	_, closer, err := p.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, closer.Close()
}

// Adopt changes the identity of a store that holds nothing.
func Adopt(p *pebble.DB, log conversation.LogID) (err error) {
	it, err := p.NewIter(&pebble.IterOptions{LowerBound: []byte{layout.TableMeta + 1}})
	if err != nil {
		return err
	}
	some := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	if some {
		return move.ErrOccupied
	}
	return p.Set(layout.KeyLog, []byte(log), pebble.Sync)
}
