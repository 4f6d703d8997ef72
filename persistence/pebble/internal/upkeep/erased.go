package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// What an erasure deletes is out of sight at once, but its bytes stay in the log, in
// memory tables and in tables until Pebble has a reason of its own to rewrite them,
// which in a quiet store is never. So each erasure leaves a key in table 07, and a
// clearing follows:
//
//   - It waits for the snapshots that were open at the erasure: a compaction keeps
//     what a snapshot can see, and drops it later only from tables of which it is a
//     tenth or more.
//   - It covers each session with a range tombstone. An erasure deletes key by key, and
//     those deletions name users and their messages; what a range tombstone covers is
//     dropped, deletions too, and itself it names the session only.
//   - It flushes. Keys that a range tombstone of the same memory table covers are
//     not written, and the log of a flushed memory table is removed (DeleteLogs).
//   - It compacts the session's range. That takes the tombstone down to the last
//     level through every table that overlaps the session, so that none is left with
//     the session's keys. Pebble itself deletes only tables that lie in the
//     tombstone as a whole; a session shares its tables with others. Sessions between
//     which little is stored are compacted as one range: each compaction rewrites
//     whole tables, and what writers have put into level 0 meanwhile.
//
// What channels remember of a session lies in a range of its own, to which the same is done.
//
// A table that is not needed any more is removed when the last iterator on it is
// closed; reads hold theirs for a page.

const (
	// coverAtOnce is how many sessions get their range tombstones in one memory table.
	coverAtOnce = 2000

	// apart is how much may be stored between two erased sessions that are compacted
	// together, in bytes: about a table, which each compaction rewrites as a whole.
	apart = 8 << 20

	// mostGaps is how many gaps between erased sessions are measured.
	mostGaps = 4096
)

// keepsContents is for DeleteLogs.
type keepsContents struct{ pebble.ArchiveCleaner }

// DeleteLogs removes files as Pebble does by itself, except that a log which is not
// needed any more is removed too: Pebble would keep up to five of them, with all
// their text, to write the next log over the old one, and leave them behind when it
// is closed. There is no option for that. But Pebble never writes over the files
// of a cleaner that needs their contents, which ArchiveCleaner says of itself by a
// method that is promoted from here. Clean is DeleteCleaner's: it is promoted from
// one level less.
type DeleteLogs struct {
	pebble.DeleteCleaner
	keepsContents
}

// Clear takes the text of erased sessions off the disk: of those that table
// 07 names.
func (u *Upkeep) Clear(ctx context.Context) error {
	keys, err := u.uncleared()
	if err != nil || len(keys) == 0 {
		return err
	}
	if u.Full() {
		return errors.New("the disk is full") // a flush would be tried without end
	}
	u.Views.Lock()   // no snapshot is older than the erasures from here on
	u.Views.Unlock() //nolint:staticcheck // it waits for those that there are
	for some := range slices.Chunk(keys, coverAtOnce) {
		if err := u.cover(some); err != nil {
			return err
		}
		if err := u.flush(ctx); err != nil {
			return err
		}
	}
	cleared := 0
	var failed error // the first one: a damaged table may be in the way of many
	for _, some := range u.neighbors(keys) {
		for len(some) > 0 {
			n := len(some)
			err := u.clearSessions(ctx, some)
			if err != nil && n > 1 && ctx.Err() == nil { // one may be in the way: one by one
				n, err = 1, u.clearSessions(ctx, some[:1])
			}
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil:
				cleared += n
			case failed == nil: // the others are not to keep their text because of this one
				failed = fmt.Errorf("take the text of %s off the disk: %w", some[0], err)
			}
			some = some[n:]
		}
	}
	u.Log.Debug("erased text was taken off the disk", "sessions", cleared, "failed", len(keys)-cleared)
	return failed
}

// cover covers erased sessions with range tombstones. Their ids are taken as long as
// their tombstones are there, and only this goroutine drops those: no session that
// lives is covered.
func (u *Upkeep) cover(keys []conversation.SessionKey) error {
	b := u.Store.NewBatch()
	defer func() { _ = b.Close() }()
	for _, key := range keys {
		_, closer, err := u.Store.Get(layout.KeyTombstone(nil, key))
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := closer.Close(); err != nil {
			return err
		}
		prefixes := [][]byte{layout.SessionPrefix(nil, key), layout.SubsPrefix(nil, key)}
		if chats, err := u.chats(key); err != nil {
			return err
		} else if chats {
			prefixes = append(prefixes, layout.ChatsPrefix(nil, key))
		}
		for _, prefix := range prefixes {
			_ = b.DeleteRange(prefix, layout.After(prefix), nil)
		}
	}
	return u.Store.Apply(b, pebble.NoSync)
}

// flush writes all that is in memory to tables.
func (u *Upkeep) flush(ctx context.Context) error {
	flushed, err := u.Store.AsyncFlush()
	if err != nil {
		return err
	}
	u.ranges.Store(0)
	select {
	case <-flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// neighbors parts sorted sessions where much is stored between two of them.
func (u *Upkeep) neighbors(keys []conversation.SessionKey) (parts [][]conversation.SessionKey) {
	begin, step := 0, (len(keys)+mostGaps-1)/mostGaps
	for i := step; i < len(keys); i += step {
		from, to := layout.After(layout.SessionPrefix(nil, keys[i-1])), layout.SessionPrefix(nil, keys[i])
		if bytes.Compare(from, to) >= 0 {
			continue
		}
		if size, err := u.stored(from, to); err != nil || size > apart {
			parts = append(parts, keys[begin:i])
			begin = i
		}
	}
	return append(parts, keys[begin:])
}

// clearSessions rewrites the tables from the first of these erased sessions to the last
// one, and forgets that it is to be done.
func (u *Upkeep) clearSessions(ctx context.Context, keys []conversation.SessionKey) error {
	type span struct{ from, to []byte }
	var spans []span
	if len(keys) == 1 {
		for _, prefix := range [][]byte{layout.SessionPrefix(nil, keys[0]), layout.SubsPrefix(nil, keys[0])} {
			spans = append(spans, span{prefix, layout.After(prefix)})
		}
	} else {
		all := span{from: layout.SessionPrefix(nil, keys[0])}
		for _, key := range keys { // sub-sessions of "s1" lie behind the session "s1-"
			if to := layout.After(layout.SubsPrefix(nil, key)); bytes.Compare(all.to, to) < 0 {
				all.to = to
			}
		}
		spans = append(spans, all)
	}
	for _, key := range keys {
		if chats, err := u.chats(key); err != nil {
			return err
		} else if !chats {
			continue
		}
		// Those that lie near each other are one span, as the sessions are.
		prefix := layout.ChatsPrefix(nil, key)
		if last := &spans[len(spans)-1]; last.from[0] == layout.TableChats {
			if size, err := u.stored(last.to, prefix); err == nil && size <= apart {
				last.to = layout.After(prefix)
				continue
			}
		}
		spans = append(spans, span{prefix, layout.After(prefix)})
	}
	for _, s := range spans {
		if err := u.compact(ctx, s.from, s.to); err != nil {
			return err
		}
	}
	for _, key := range keys {
		// Not synced: at worst it is done once more.
		if err := u.Store.Delete(layout.KeyUncleared(nil, key), pebble.NoSync); err != nil {
			return err
		}
	}
	return nil
}

// chats is true if channels remembered something of an erased session.
func (u *Upkeep) chats(key conversation.SessionKey) (bool, error) {
	v, closer, err := u.Store.Get(layout.KeyUncleared(nil, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return bytes.Equal(v, layout.UnclearedChats), closer.Close()
}

// uncleared lists the erased sessions whose text may still be on the disk.
func (u *Upkeep) uncleared() (keys []conversation.SessionKey, err error) {
	prefix := []byte{layout.TableUncleared}
	it, err := u.Store.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		key, rest, fits := layout.CutSession(it.Key()[1:])
		if !fits || len(rest) != 0 {
			return nil, fmt.Errorf("key %x of the erased sessions cannot be read", it.Key())
		}
		keys = append(keys, key)
	}
	return keys, it.Error()
}
