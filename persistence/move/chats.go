package move

import (
	"context"
	"fmt"
	"time"

	"parley/conversation/chats"
)

// What is written at once of what channels remember, so many or so many bytes.
const (
	chatsMost     = 64
	chatBytesMost = 1 << 20
)

// waitingChats are rows, or entries of one feed, that wait to be written.
type waitingChats struct {
	rows    []chats.Row
	feed    *FeedEnd // nil = none
	entries []chats.Entry
	size    int
}

// full says whether all that waits has to be written before a frame of a kind is read: it is
// much, or the frame is of something else.
func (w *waitingChats) full(kind byte) bool {
	most := len(w.rows) >= chatsMost || len(w.entries) >= chatsMost || w.size >= chatBytesMost
	return most || len(w.rows) > 0 && kind != kindChatRow || w.feed != nil && kind != kindEntry
}

func (w *waitingChats) add(kind byte, body []byte) error {
	w.size += len(body)
	switch kind {
	case kindChatRow:
		r, err := read[chatRowFrame](body)
		w.rows = append(w.rows, chats.Row{Key: chats.Key{Tenant: r.Tenant, Channel: r.Channel, Chat: r.Chat}, Revision: r.Revision, Session: r.Session, Value: append([]byte{}, r.Value...)})
		return err
	case kindFeed:
		end, err := read[FeedEnd](body)
		w.feed = &end
		return err
	default:
		e, err := read[entryFrame](body)
		w.entries = append(w.entries, chats.Entry{Number: e.Number, At: time.UnixMilli(e.At).UTC(), Session: e.Session, Value: append([]byte{}, e.Value...)})
		return err
	}
}

// putChats writes what waits, before a frame of a kind. A feed stays open for its entries.
func (i *in) putChats(ctx context.Context, before byte) error {
	w := &i.chats
	var err error
	if len(w.rows) > 0 {
		err = i.to.PutRows(ctx, w.rows)
	}
	if err == nil && w.feed != nil {
		err = i.to.PutFeed(ctx, *w.feed, w.entries)
	}
	if err != nil {
		return fmt.Errorf("the chats: %w", err)
	}
	i.tally(func(done *Totals) {
		done.Chats += len(w.rows)
		done.Entries += len(w.entries)
		i.progress(*done)
	})
	w.rows, w.entries, w.size = nil, nil, 0
	if before != kindEntry {
		w.feed = nil
	}
	return nil
}
