package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/living"
	"parley/persistence/pebble/internal/layout"
)

// A tombstone keeps the id of an erased session taken: a writer of before stays
// out, and the next session of that name gets another id. Both end some time, so
// tombstones older than Needs.Keep are dropped, a bounded number in an hour. One
// stays as long as there is a next session of the name, or a tombstone of it: the
// way from a name to its session goes over the tombstones.
//
// A clock cannot be trusted alone: it may be wrong when a machine starts, and jump
// later. The store has been open for an hour before the first look, and the newest
// time that is stored, with the time since the start on top, is a limit as well:
// while a machine is off nothing gets older.

const (
	collectEvery = time.Hour
	collectMost  = 10_000 // in one hour
)

// collect drops old tombstones.
func (u *Upkeep) collect(ctx context.Context, now time.Time, running time.Duration) (n int, err error) {
	if u.Keep <= 0 || u.Full() {
		return 0, nil
	}
	newest, err := u.newest()
	if err != nil {
		return 0, err
	}
	if limit := newest.Add(running); limit.Before(now) {
		now = limit
	}
	var failed error
	err = u.tombstones(func(key []byte, at time.Time) bool {
		if !at.IsZero() && at.Before(now.Add(-u.Keep)) {
			var dropped bool
			if dropped, failed = u.drop(key); dropped {
				n++
			}
		}
		return failed == nil && n < collectMost && ctx.Err() == nil
	})
	if n > 0 {
		failed = errors.Join(failed, u.Store.LogData(nil, pebble.Sync))
	}
	return n, errors.Join(err, failed)
}

// drop drops a tombstone, unless the next session of its name still needs it.
func (u *Upkeep) drop(tombstone []byte) (dropped bool, err error) {
	erased, rest, fits := layout.CutSession(tombstone[1:])
	if !fits || len(rest) != 0 {
		return false, fmt.Errorf("key %x of the tombstones cannot be read", tombstone)
	}
	next := conversation.SessionKey{Tenant: erased.Tenant, Session: living.Next(erased.Session)}
	err = u.Hold(next, func() error { // it may be about to be made
		for _, needed := range [][]byte{layout.KeyTombstone(nil, next), layout.KeyHead(nil, next)} {
			_, closer, err := u.Store.Get(needed)
			if err == nil {
				return closer.Close()
			}
			if !errors.Is(err, pebble.ErrNotFound) {
				return err
			}
		}
		dropped = true
		return u.Store.Delete(tombstone, pebble.NoSync)
	})
	return dropped && err == nil, err
}

// newest is the newest time that the store knows of: of an activity or an erasure.
func (u *Upkeep) newest() (newest time.Time, err error) {
	err = u.tombstones(func(_ []byte, at time.Time) bool {
		if at.After(newest) {
			newest = at
		}
		return true
	})
	if err != nil {
		return newest, err
	}
	prefix := []byte{layout.TableActivity}
	it, err := u.Store.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return newest, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; { // the first entry of a tenant is its newest
		key, ms, fits := layout.CutActivity(it.Key())
		if !fits {
			break
		}
		if at := time.UnixMilli(ms); at.After(newest) {
			newest = at
		}
		ok = it.SeekGE(layout.After(layout.TenantPrefix(nil, layout.TableActivity, key.Tenant)))
	}
	return newest, it.Error()
}

// tombstones calls see for each one, until it says no. at is zero in a store of
// layout 1.
func (u *Upkeep) tombstones(see func(key []byte, at time.Time) (more bool)) (err error) {
	prefix := []byte{layout.TableTombstone}
	it, err := u.Store.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		_, at, _ := layout.CutTombstone(it.Value())
		if !see(bytes.Clone(it.Key()), at) {
			break
		}
	}
	return it.Error()
}
