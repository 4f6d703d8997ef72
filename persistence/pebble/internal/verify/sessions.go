package verify

import (
	"context"
	"errors"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
)

// Sessions lists every session of a store that nobody writes to, sub-sessions too,
// each root before what is below it. One that was acquired and never committed to
// has no summary and is left out.
func Sessions(ctx context.Context, from pebble.Reader) iter.Seq2[conversation.Summary, error] {
	return func(yield func(conversation.Summary, error) bool) {
		prefix := []byte{layout.TableSession}
		it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
		if err != nil {
			yield(conversation.Summary{}, err)
			return
		}
		for ok := it.First(); ok; {
			s, stored, next, err := summaryAt(it)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				_ = it.Close()
				yield(conversation.Summary{}, err)
				return
			}
			if stored && !yield(s, nil) {
				_ = it.Close()
				return
			}
			ok = it.SeekGE(next)
		}
		if err := errors.Join(it.Error(), it.Close()); err != nil {
			yield(conversation.Summary{}, err)
		}
	}
}

// summaryAt reads the summary of the session whose first key the iterator is at.
func summaryAt(it *pebble.Iterator) (s conversation.Summary, stored bool, next []byte, err error) {
	key, rest, ok := layout.CutSession(it.Key()[1:])
	if !ok || len(rest) != 1 || rest[0] != layout.KindHead {
		return s, false, nil, layout.ErrHead
	}
	next = layout.After(layout.SessionPrefix(nil, key))
	v, err := it.ValueAndErr()
	if err != nil {
		return s, false, nil, err
	}
	h, err := layout.DecodeHead(v)
	if err != nil || h.Summary == nil {
		return s, false, next, err
	}
	s, err = wire.DecodeSummary(h.Summary)
	s.Key, s.Last = key, h.Row.Last
	return s, true, next, err
}
