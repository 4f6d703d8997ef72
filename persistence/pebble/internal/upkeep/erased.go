package upkeep

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// An erasure is one range tombstone. What it covers is out of sight at once, but
// its bytes stay in the log, in memory tables and in tables until Pebble has a
// reason of its own to rewrite them, which in a quiet store is never. So each
// erasure leaves a key in table 07, and a clearing follows:
//
//   - It waits for the snapshots that were open at the erasure: a compaction keeps
//     what a snapshot can see, and drops it later only from tables of which it is a
//     tenth or more.
//   - It flushes. Keys that a range tombstone of the same memory table covers are
//     not written, and the log of a flushed memory table is removed (DeleteLogs).
//   - It compacts the session's range. That takes the tombstone down to the last
//     level through every table that overlaps the session, so that none is left with
//     the session's keys. Pebble itself deletes only tables that lie in the
//     tombstone as a whole; a session shares its tables with others.
//
// A table that is not needed any more is removed when the last iterator on it is
// closed; reads hold theirs for a page.

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
	flushed, err := u.Store.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
	case <-ctx.Done():
		return ctx.Err()
	}
	cleared := 0
	var failed error // the first one: a damaged table may be in the way of many
	for _, key := range keys {
		err := u.clearSession(ctx, key)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			cleared++
		case failed == nil: // the others are not to keep their text because of this one
			failed = fmt.Errorf("take the text of %s off the disk: %w", key, err)
		}
	}
	u.Log.Debug("erased text was taken off the disk", "sessions", cleared, "failed", len(keys)-cleared)
	return failed
}

// clearSession rewrites the tables of one erased session, and forgets that it is to
// be done.
func (u *Upkeep) clearSession(ctx context.Context, key conversation.SessionKey) error {
	for _, prefix := range [][]byte{layout.SessionPrefix(nil, key), layout.SubsPrefix(nil, key)} {
		if err := u.compact(ctx, prefix, layout.After(prefix)); err != nil {
			return err
		}
	}
	// Not synced: at worst it is done once more.
	return u.Store.Delete(layout.KeyUncleared(nil, key), pebble.NoSync)
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
