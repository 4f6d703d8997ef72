package verify

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/pebble/internal/layout"
)

// Count reads every key and value and counts them. An error says that something
// cannot be read. pace, if it is not nil, is called for every some hundred keys.
func Count(ctx context.Context, from pebble.Reader, pace func(context.Context) error) (c Counts, err error) {
	it, err := from.NewIter(nil)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if _, err := it.ValueAndErr(); err != nil {
			return c, err
		}
		c.add(it.Key())
		if n++; n%512 == 0 {
			if err := ctx.Err(); err != nil {
				return c, err
			}
			if pace != nil {
				if err := pace(ctx); err != nil {
					return c, err
				}
			}
		}
	}
	return c, it.Error()
}

func (c *Counts) add(k []byte) {
	switch k[0] {
	case layout.TableDue:
		c.Due++
	case layout.TableTombstone:
		c.Tombstones++
	case layout.TableChats:
		if k, ok := layout.CutChat(k); ok && k.Number > 0 {
			c.Entries++
		} else if ok {
			c.Chats++
		}
	case layout.TableSession:
		key, rest, ok := layout.CutSession(k[1:])
		if !ok || len(rest) == 0 {
			return
		}
		switch rest[0] {
		case layout.KindHead:
			if key.Session.Depth() > 0 {
				c.SubSessions++
			} else {
				c.Sessions++
			}
		case layout.KindSnapshot:
			c.Snapshots++
		case layout.KindRecord:
			c.Records++
		case layout.KindPart, layout.KindClient:
			c.Keys++
		case layout.KindTask:
			c.Tasks++
		case layout.KindCursor:
			c.Cursors++
		case layout.KindBlob:
			c.Blobs++
		}
	}
}
