package readers

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// Of is what a user has of a session; zero if nothing is stored.
func Of(from pebble.Reader, key conversation.SessionKey, user conversation.UserID) (conversation.Cursor, error) {
	v, closer, err := from.Get(layout.KeyCursor(nil, key, user))
	if errors.Is(err, pebble.ErrNotFound) {
		return conversation.Cursor{User: user}, nil
	}
	if err != nil {
		return conversation.Cursor{}, err
	}
	c, ok := layout.CutCursor(v)
	if !ok {
		err = fmt.Errorf("%w: what a reader has of a session cannot be read", conversation.ErrDamaged)
	}
	c.User = user
	return c, errors.Join(err, closer.Close())
}

// Put writes what cursors change into b; from is what is stored.
func Put(b *pebble.Batch, from pebble.Reader, key conversation.SessionKey, cursors []conversation.Cursor) error {
	if len(cursors) == 0 {
		return nil
	}
	is := make(map[conversation.UserID]conversation.Cursor, len(cursors))
	for _, cur := range cursors {
		was, known := is[cur.User]
		if !known {
			var err error
			if was, err = Of(from, key, cur.User); err != nil {
				return err
			}
		}
		now := was.Then(cur)
		now.Unset = 0 // only what is set is stored
		if is[cur.User] = now; now != was {
			_ = b.Set(layout.KeyCursor(nil, key, cur.User), layout.AppendCursor(nil, now), nil) // into memory
		}
	}
	return nil
}
