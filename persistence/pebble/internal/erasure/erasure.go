package erasure

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
)

// Points is how many keys a session and what is below it may have to be deleted key by
// key. A range tombstone is one key however much it covers, but Pebble sorts all range
// tombstones of a memory table anew at the first read after each new one. So with two
// of them for each erased session, each read of anybody cost time for all
// sessions that were erased since the last flush. Deleting key by key costs the eraser
// about a microsecond for each, and others nothing.
const Points = 4096

// Erasure is what an erasure deletes.
type Erasure struct {
	Sessions []conversation.SessionKey // that are gone: the session, and those below it
	Ranges   int                       // range tombstones; 0 if every key was deleted by itself
	Chats    bool                      // with what channels remember of it
	Blobs    int64                     // bytes of what was attached to its messages
}

// Fill writes the deletion of a session with the head h, and of all below it, into b.
// Up to points keys are deleted one by one, more by ranges.
func Fill(b *pebble.Batch, from pebble.Reader, key conversation.SessionKey, h *layout.Head, points int) (e Erasure, err error) {
	e.Sessions = append(e.Sessions, key)
	unlist(b, key, h)
	err = below(from, key, func(sub conversation.SessionKey, h *layout.Head) {
		e.Sessions = append(e.Sessions, sub)
		unlist(b, sub, h)
	})
	if err != nil {
		return e, err
	}
	if key.Session.Depth() == 0 {
		if err := taskTimes(b, from, key); err != nil {
			return e, err
		}
	}
	if e.Blobs, err = unlistBlobs(b, from, key); err != nil {
		return e, err
	}
	ranges := [][]byte{layout.SessionPrefix(nil, key), layout.SubsPrefix(nil, key)}
	if e.Chats, err = unlistChats(b, from, key); err != nil {
		return e, err
	}
	if e.Chats {
		ranges = append(ranges, layout.ChatsPrefix(nil, key))
	}
	_ = b.Delete(layout.KeyGate(nil, key), nil)
	sieves := layout.SievesPrefix(nil, key)
	if _, none := few(from, [][]byte{sieves}, 0); !none {
		ranges = append(ranges, sieves)
	}
	keys, few := few(from, ranges, points)
	if few {
		for _, k := range keys {
			_ = b.Delete(k, nil)
		}
		return e, nil
	}
	for _, prefix := range ranges {
		_ = b.DeleteRange(prefix, layout.After(prefix), nil)
		e.Ranges++
	}
	return e, nil
}

// unlist takes one session out of the lists of sessions.
func unlist(b *pebble.Batch, key conversation.SessionKey, h *layout.Head) {
	if !h.Row.WakeAt.IsZero() {
		_ = b.Delete(layout.KeyDue(nil, key, h.Row.WakeAt.UnixMilli()), nil)
	}
	if h.Row.Claim != nil {
		_ = b.Delete(layout.KeyClaim(nil, key, h.Row.Claim.Since.UnixMilli()), nil)
	}
	if h.Listed {
		_ = b.Delete(layout.KeyActivity(nil, key, h.Activity), nil)
	}
}

// below shows the sub-sessions of a session.
func below(from pebble.Reader, key conversation.SessionKey, see func(conversation.SessionKey, *layout.Head)) (err error) {
	prefix := layout.SubsPrefix(nil, key)
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; {
		sub, rest, fits := layout.CutSession(it.Key()[1:])
		if !fits || len(rest) != 1 || rest[0] != layout.KindHead {
			return fmt.Errorf("%w: key %x is not a head", layout.ErrHead, it.Key())
		}
		h, err := layout.DecodeHead(it.Value())
		if err != nil {
			return err
		}
		see(sub, h)
		ok = it.SeekGE(layout.After(layout.SessionPrefix(nil, sub)))
	}
	return it.Error()
}

// taskTimes drops the tasks of a session from the list of all tasks.
func taskTimes(b *pebble.Batch, from pebble.Reader, key conversation.SessionKey) (err error) {
	prefix := append(layout.SessionPrefix(nil, key), layout.KindTask)
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
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

// unlistChats takes what channels remember of a session out of the lists of it.
func unlistChats(b *pebble.Batch, from pebble.Reader, key conversation.SessionKey) (some bool, err error) {
	prefix := layout.ChatsPrefix(nil, key)
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		k, fits := layout.CutChat(it.Key())
		switch {
		case !fits:
			return some, fmt.Errorf("%w: key %x of what channels remember cannot be read", conversation.ErrDamaged, it.Key())
		case k.Number > 0:
			_ = b.Delete(layout.KeyFeed(nil, key.Tenant, k.Number), nil)
		default:
			_ = b.Delete(layout.KeyChat(nil, k.Row), nil)
		}
		some = true
	}
	return some, it.Error()
}

// unlistBlobs takes what is attached to the messages of a session out of the lists of it.
func unlistBlobs(b *pebble.Batch, from pebble.Reader, key conversation.SessionKey) (bytes int64, err error) {
	prefix := layout.BlobsPrefix(nil, key)
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		hash, _, fits := layout.CutBlob(it.Key()[len(prefix)-1:])
		is, err := layout.CutBlobValue(hash, it.Value())
		if !fits || err != nil {
			return bytes, fmt.Errorf("%w: key %x of an attachment cannot be read", conversation.ErrDamaged, it.Key())
		}
		bytes += is.Size
		_ = b.Delete(layout.KeyHolder(nil, key, hash), nil)
		_ = b.Delete(layout.KeyLoan(nil, is.At, key, hash), nil)
	}
	return bytes, it.Error()
}

// few lists all keys with the prefixes. ok is false if there are more than most, or if
// they cannot all be read: a session with a damaged record can be erased, too.
func few(from pebble.Reader, prefixes [][]byte, most int) (keys [][]byte, ok bool) {
	for _, prefix := range prefixes {
		it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
		if err != nil {
			return nil, false
		}
		for more := it.First(); more && len(keys) <= most; more = it.Next() {
			keys = append(keys, append([]byte(nil), it.Key()...))
		}
		if errors.Join(it.Error(), it.Close()) != nil || len(keys) > most {
			return nil, false
		}
	}
	return keys, true
}

// Bury leaves the tombstone that keeps the id of an erased session taken, and
// the note that its text may still be on the disk.
func Bury(b *pebble.Batch, key conversation.SessionKey, h *layout.Head, e Erasure, now time.Time) {
	_ = b.Set(layout.KeyTombstone(nil, key), layout.AppendTombstone(nil, h.Row.Epoch+1, now), nil)
	var left []byte
	if e.Chats {
		left = layout.UnclearedChats
	}
	_ = b.Set(layout.KeyUncleared(nil, key), left, nil)
}
