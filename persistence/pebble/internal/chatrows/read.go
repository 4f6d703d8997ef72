package chatrows

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/persistence/pebble/internal/layout"
)

// What is read at once: between two pages nothing of the store is held.
const (
	pageRows  = 64
	pageBytes = 1 << 20
)

// get reads a value; nil = the key is not there.
func get(from pebble.Reader, k []byte) ([]byte, error) {
	v, closer, err := from.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, v...), closer.Close()
}

// scan calls see for each key between two, until it says no.
func scan(from pebble.Reader, lower, upper []byte, see func(k, v []byte) (more bool, err error)) (err error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if more, err := see(it.Key(), v); err != nil || !more {
			return err
		}
	}
	return it.Error()
}

func placeOf(from pebble.Reader, k chats.Key) (p place, err error) {
	v, err := get(from, layout.KeyChat(nil, k))
	if v == nil || err != nil {
		return p, err
	}
	p.rev, p.session, err = layout.CutChatValue(v)
	return p, err
}

func lastOf(from pebble.Reader, tenant conversation.TenantID) (chats.Number, error) {
	v, err := get(from, layout.KeyFeedEnd(nil, tenant))
	if v == nil || err != nil {
		return 0, err
	}
	return layout.CutFeedEnd(v)
}

// rowAt reads the row whose place is known.
func rowAt(from pebble.Reader, k chats.Key, at place) (chats.Row, error) {
	v, err := get(from, layout.KeyChatRow(nil, k, at.session))
	if err == nil && v == nil {
		err = fmt.Errorf("%w: the row of chat %s is not where it should be", conversation.ErrDamaged, k.Chat)
	}
	return chats.Row{Key: k, Revision: at.rev, Session: at.session, Value: v}, err
}

// Load implements chats.Store.
func (c *Chats) Load(ctx context.Context, k chats.Key) (chats.Row, error) {
	row := chats.Row{Key: k}
	err := c.View(ctx, "chat", func(s *pebble.Snapshot) error {
		at, err := placeOf(s, k)
		if err == nil && at.rev > 0 {
			row, err = rowAt(s, k, at)
		}
		return err
	})
	return row, err
}

// Rows implements chats.Store.
func (c *Chats) Rows(ctx context.Context, tenant conversation.TenantID, channel chats.Channel) iter.Seq2[chats.Row, error] {
	return func(yield func(chats.Row, error) bool) {
		lower := layout.ChannelPrefix(nil, tenant, channel)
		upper := layout.After(lower)
		for more := true; more; {
			var page []chats.Row
			more = false
			err := c.View(ctx, "chats", func(s *pebble.Snapshot) error {
				size := 0
				return scan(s, lower, upper, func(k, v []byte) (bool, error) {
					row, err := listed(s, k, v)
					if err != nil {
						return false, err
					}
					page = append(page, row)
					lower = append(append(lower[:0:0], k...), 0)
					size += len(row.Value)
					more = len(page) == pageRows || size >= pageBytes
					return !more, nil
				})
			})
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
			if err != nil {
				yield(chats.Row{}, err)
				return
			}
		}
	}
}

// listed reads the row that a key of table 0a and its value name.
func listed(from pebble.Reader, k, v []byte) (chats.Row, error) {
	key, ok := layout.CutChatRow(k)
	if !ok {
		return chats.Row{}, fmt.Errorf("%w: key %x of the rows of chats cannot be read", conversation.ErrDamaged, k)
	}
	rev, session, err := layout.CutChatValue(v)
	if err != nil {
		return chats.Row{}, err
	}
	return rowAt(from, key, place{rev, session})
}

// Everything lists the rows of all channels and tenants of a store that nobody writes to.
func Everything(ctx context.Context, from pebble.Reader) iter.Seq2[chats.Row, error] {
	return func(yield func(chats.Row, error) bool) {
		prefix, stopped := []byte{layout.TableChatRows}, false
		err := scan(from, prefix, layout.After(prefix), func(k, v []byte) (bool, error) {
			row, err := listed(from, k, v)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return false, err
			}
			stopped = !yield(row, nil)
			return !stopped, nil
		})
		if err != nil && !stopped {
			yield(chats.Row{}, err)
		}
	}
}

// Feed implements chats.Store.
func (c *Chats) Feed(ctx context.Context, tenant conversation.TenantID) (f chats.Feed, err error) {
	err = c.View(ctx, "feed", func(s *pebble.Snapshot) (err error) {
		if f.Last, err = lastOf(s, tenant); err != nil {
			return err
		}
		f.First = f.Last + 1
		prefix := layout.TenantPrefix(nil, layout.TableFeed, tenant)
		return scan(s, prefix, layout.After(prefix), func(k, _ []byte) (bool, error) {
			_, n, ok := layout.CutFeed(k)
			if !ok {
				return false, fmt.Errorf("%w: key %x of a feed cannot be read", conversation.ErrDamaged, k)
			}
			f.First = n
			return false, nil
		})
	})
	return f, err
}

// Entries implements chats.Store.
func (c *Chats) Entries(ctx context.Context, tenant conversation.TenantID, after chats.Number, limit int) (all []chats.Entry, err error) {
	upper := layout.After(layout.TenantPrefix(nil, layout.TableFeed, tenant))
	for more := true; more; {
		more = false
		err := c.View(ctx, "entries", func(s *pebble.Snapshot) error {
			if after+1 == 0 || limit <= len(all) {
				return nil
			}
			size := 0
			return scan(s, layout.KeyFeed(nil, tenant, after+1), upper, func(k, v []byte) (bool, error) {
				_, n, ok := layout.CutFeed(k)
				if !ok {
					return false, fmt.Errorf("%w: key %x of a feed cannot be read", conversation.ErrDamaged, k)
				}
				e, err := entryAt(s, tenant, conversation.SessionID(v), n)
				if err != nil {
					return false, err
				}
				all = append(all, e)
				after = n
				size += len(e.Value)
				more = size >= pageBytes
				return !more && len(all) < limit, nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// entryAt reads the entry whose session is known.
func entryAt(from pebble.Reader, tenant conversation.TenantID, session conversation.SessionID, n chats.Number) (e chats.Entry, err error) {
	v, err := get(from, layout.KeyChatEntry(nil, tenant, session, n))
	if err == nil && v == nil {
		err = fmt.Errorf("%w: entry %d of a feed is not where it should be", conversation.ErrDamaged, n)
	}
	if err != nil {
		return e, err
	}
	e.Number, e.Session = n, session
	e.At, e.Value, err = layout.CutChatEntry(v)
	return e, err
}
