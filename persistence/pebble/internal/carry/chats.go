package carry

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/persistence/move"
	"parley/persistence/pebble/internal/chatrows"
	"parley/persistence/pebble/internal/layout"
)

// Talk reads and writes what channels remember, as it is.
type Talk struct{ Store *pebble.DB }

// ChatRows is that of move.Installation.
func (c Talk) ChatRows(ctx context.Context) iter.Seq2[chats.Row, error] {
	return chatrows.Everything(ctx, c.Store)
}

// Feeds is that of move.Installation.
func (c Talk) Feeds(ctx context.Context) iter.Seq2[move.FeedEnd, error] {
	return under(ctx, c.Store, []byte{layout.TableFeedEnd}, func(rest, value []byte) (f move.FeedEnd, err error) {
		tenant, left, ok := layout.CutString(rest)
		if !ok || len(left) > 0 {
			return f, fmt.Errorf("%w: the end of a feed", conversation.ErrDamaged)
		}
		f.Tenant = conversation.TenantID(tenant)
		f.Last, err = layout.CutFeedEnd(value)
		return f, err
	})
}

// PutRows is that of move.Installation.
func (c Talk) PutRows(_ context.Context, rows []chats.Row) error {
	b := c.Store.NewBatch()
	defer func() { _ = b.Close() }()
	for _, r := range rows {
		if err := c.lives(r.Tenant, r.Session); err != nil {
			return err
		}
		same, err := c.same(layout.KeyChat(nil, r.Key), layout.AppendChat(nil, r.Revision, r.Session))
		if err == nil && same {
			same, err = c.same(layout.KeyChatRow(nil, r.Key, r.Session), r.Value)
		}
		if err != nil {
			return err
		}
		if !same {
			chatrows.PutRow(b, r)
		}
	}
	return b.Commit(pebble.Sync)
}

// PutFeed is that of move.Installation.
func (c Talk) PutFeed(_ context.Context, end move.FeedEnd, entries []chats.Entry) error {
	b := c.Store.NewBatch()
	defer func() { _ = b.Close() }()
	last := layout.AppendU64(nil, uint64(end.Last))
	if _, err := c.same(layout.KeyFeedEnd(nil, end.Tenant), last); err != nil {
		return err
	}
	_ = b.Set(layout.KeyFeedEnd(nil, end.Tenant), last, nil)
	for _, e := range entries {
		if err := c.lives(end.Tenant, e.Session); err != nil {
			return err
		}
		same, err := c.same(layout.KeyFeed(nil, end.Tenant, e.Number), []byte(e.Session))
		if err == nil && same {
			same, err = c.same(layout.KeyChatEntry(nil, end.Tenant, e.Session, e.Number), layout.AppendChatEntry(nil, e))
		}
		if err != nil {
			return err
		}
		if !same {
			chatrows.Put(b, end.Tenant, e.Number, e)
		}
	}
	return b.Commit(pebble.Sync)
}

// lives is move.ErrOther for an erased session.
func (c Talk) lives(tenant conversation.TenantID, session conversation.SessionID) error {
	gone, err := has(c.Store, layout.KeyTombstone(nil, conversation.SessionKey{Tenant: tenant, Session: session}))
	if err == nil && gone {
		err = move.ErrOther
	}
	return err
}

// same is false if a key is not there, and move.ErrOther if it is with another value.
func (c Talk) same(key, value []byte) (bool, error) {
	there, err := has(c.Store, key)
	if err != nil || !there {
		return false, err
	}
	v, closer, err := c.Store.Get(key)
	if err != nil {
		return false, err
	}
	equal := bytes.Equal(v, value)
	if err := closer.Close(); err != nil {
		return false, err
	}
	if !equal {
		return false, move.ErrOther
	}
	return true, nil
}
