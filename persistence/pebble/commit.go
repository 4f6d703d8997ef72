package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/internal/seen"
	"parley/persistence/pebble/internal/erasure"
	"parley/persistence/pebble/internal/group"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/readers"
	"parley/persistence/pebble/internal/usage"
	"parley/persistence/pebble/internal/writers"
)

// Acquire implements conversation.Store.
func (db *DB) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	if err := db.enter(ctx); err != nil {
		return conversation.Head{}, err
	}
	defer db.leave()
	if err := db.writable(); err != nil {
		return conversation.Head{}, err
	}
	w := db.cache.Lock(key)
	defer w.Unlock()
	h, err := db.acquire(w, how)
	if err != nil {
		return conversation.Head{}, fmt.Errorf("acquire %s: %w", key, asDamage(err))
	}
	return h, nil
}

func (db *DB) acquire(w writers.Held, how conversation.AcquireHow) (conversation.Head, error) {
	h, err := loadHead(db.p, w.Key)
	if err != nil {
		return conversation.Head{}, err
	}
	made := h == nil
	if made {
		if !how.Create || how.IfEpoch != 0 {
			return conversation.Head{}, conversation.ErrNotFound
		}
		if gone, err := erasure.Covers(db.p, w.Key); err != nil || gone {
			return conversation.Head{}, errors.Join(err, onlyIf(gone, conversation.ErrNotFound))
		}
		if free, err := erasure.InTurn(db.p, w.Key); err != nil || !free {
			return conversation.Head{}, errors.Join(err, onlyIf(!free, conversation.ErrNotFound))
		}
		// A delegation's session is made by work that runs.
		if err := db.Room(w.Key.Session.Depth() > 0); err != nil {
			return conversation.Head{}, err
		}
		if !db.usage.Make(w.Key) {
			db.metrics.QuotaRefused.WithLabelValues("sessions_per_tenant").Inc()
			return conversation.Head{}, conversation.ErrQuota
		}
		h = &layout.Head{}
		h.Row.Stored = usage.Session
	} else {
		if how.IfEpoch != 0 && how.IfEpoch != h.Row.Epoch {
			return conversation.Head{}, conversation.ErrFenced
		}
		if err := db.Room(true); err != nil {
			return conversation.Head{}, err
		}
	}
	h.Row.Epoch++
	b := db.p.NewBatch()
	buf := db.buffer()
	db.putHead(b, buf, w.Key, h)
	db.putBuffer(buf)
	w.Own.Cached = writers.Known{} // until the batch is durable
	apply := db.apply
	if how.Lazy {
		// Who has an older epoch is fenced by what is in memory, and no crash keeps a commit
		// of this one and loses it: it lies before that in the log. All writers are in this
		// process, which holds the directory for as long as it lives.
		apply = db.applyLazily
	}
	if err := apply(w.Key, b); err != nil {
		if made {
			db.usage.Remove(w.Key, usage.Session)
		}
		db.cache.SetKeys(w.Key, w.Own, seen.Keys{})
		return conversation.Head{}, err
	}
	w.Own.Cached.Update(h)
	if made {
		db.cache.SetKeys(w.Key, w.Own, seen.Keys{Complete: true})
	}
	return db.readHead(w.Key, h)
}

func onlyIf(cond bool, err error) error {
	if cond {
		return err
	}
	return nil
}

func (db *DB) countFailure(err error) {
	var dup *conversation.DuplicateError
	code := "unknown"
	switch {
	case errors.As(err, &dup):
		code = "duplicate"
		kind := "message"
		if dup.Key.Source != "" {
			kind = "part"
		}
		db.metrics.Duplicates.WithLabelValues(kind).Inc()
	case errors.Is(err, conversation.ErrFenced):
		code = "fenced"
	case errors.Is(err, conversation.ErrConflict):
		code = "conflict"
	case errors.Is(err, conversation.ErrFull):
		code = "full"
	case errors.Is(err, conversation.ErrUnread), errors.Is(err, conversation.ErrDamaged):
		code = "unread"
	case errors.Is(err, conversation.ErrClosed):
		code = "closed"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		code = "cancelled"
	}
	db.metrics.CommitErrors.WithLabelValues(code).Inc()
}

// writable is ErrClosed with the reason when a failure ended all writing, and
// ErrReadOnly where none was allowed from the start.
func (db *DB) writable() error {
	if db.readOnly {
		return ErrReadOnly
	}
	if err := db.health.dead(); err != nil {
		return fmt.Errorf("%w: %w", conversation.ErrClosed, err)
	}
	return nil
}

// Room implements conversation.Store.
func (db *DB) Room(inner bool) error {
	if db.guard == nil {
		return nil
	}
	return db.guard.Allow(inner)
}

// apply makes a batch durable. It has to be called with the locks of what the
// batch changes. An error means that the outcome is unknown.
func (db *DB) apply(key conversation.SessionKey, b *pebble.Batch) error {
	end := make(ended, 1)
	db.group.Submit(&group.Write{Key: key, Batch: b, End: end})
	return <-end
}

// applyLazily is apply without the wait for the disk: a crash may take the batch back.
func (db *DB) applyLazily(_ conversation.SessionKey, b *pebble.Batch) error {
	db.metrics.WrittenKeys.Add(float64(b.Count()))
	if err := db.p.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	// A failed log write is reported to the logger only: Apply then says nil.
	if err := db.health.dead(); err != nil {
		return err
	}
	return b.Close()
}

// ended tells the end of a write to the one who waits for it.
type ended chan error

// End implements group.Ender.
func (e ended) End(err error) { e <- err }

// waitDurable returns when everything that was visible when it was called is
// durable. Events that a reader of many sessions has seen must not vanish in a crash.
// Without commits in flight it is free, else it shares their sync.
func (db *DB) waitDurable() error {
	if db.inFlight.Load() == 0 {
		return nil
	}
	if err := db.p.LogData(nil, pebble.Sync); err != nil {
		return err
	}
	return db.health.dead()
}

func sameKey(a, b conversation.Key) bool {
	if a.Source != "" || b.Source != "" {
		return a.Source == b.Source && a.Part == b.Part
	}
	return a.Author == b.Author && a.Client == b.Client
}

// seqOf is the event that owns a key, 0 if there is none. A part key without an
// index is part 0.
func (db *DB) seqOf(buf *[]byte, key conversation.SessionKey, k conversation.Key) (conversation.Seq, error) {
	*buf = layout.KeyUnique((*buf)[:0], key, k)
	seq, err := db.seqAt(*buf)
	if err != nil || seq != 0 || k.Source == "" || k.Part != 0 {
		return seq, err
	}
	*buf = layout.KeyLegacyPart((*buf)[:0], key, k.Source)
	return db.seqAt(*buf)
}

func (db *DB) seqAt(at []byte) (conversation.Seq, error) {
	v, closer, err := db.p.Get(at)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	seq, err := cutSeq(v)
	return seq, errors.Join(err, closer.Close())
}

func cutSeq(v []byte) (conversation.Seq, error) {
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: it has %d bytes instead of 8", errSeq, len(v))
	}
	return conversation.Seq(binary.BigEndian.Uint64(v)), nil
}

// fill writes a commit into b and makes h the head after it.
func (db *DB) fill(b *pebble.Batch, buf *[]byte, key conversation.SessionKey, h *layout.Head, c *conversation.Commit) error {
	h.Row.LastCommit = c.ID
	// put encodes key and value side by side into the borrowed buffer. Writing to
	// a batch cannot fail before it is applied.
	size := 0 // of what was put last
	put := func(k func([]byte) []byte, v func([]byte) []byte) {
		at := k((*buf)[:0])
		n := len(at)
		if v != nil {
			at = v(at)
		}
		*buf, size = at, len(at)
		_ = b.Set(at[:n], at[n:], nil)
	}
	drop := func(k []byte) {
		*buf = k
		_ = b.Delete(k, nil)
	}
	seq := func(s conversation.Seq) func([]byte) []byte {
		return func(v []byte) []byte { return layout.AppendU64(v, uint64(s)) }
	}

	if n := len(c.Events); n > 0 {
		h.Row.Last = c.Events[n-1].Seq
		put(func(k []byte) []byte { return layout.KeyRecord(k, key, h.Row.Last) },
			func(v []byte) []byte {
				return wire.AppendRecord(v, conversation.Record{ID: c.ID, Events: c.Events})
			})
		if h.Row.Stored > 0 { // the records are what grows; the rest is in usage.Session
			h.Row.Stored += uint64(size)
		}
	}
	if c.Snapshot != nil {
		h.Row.SnapshotAt = h.Row.Last
		put(func(k []byte) []byte { return layout.KeySnapshot(k, key) },
			func(v []byte) []byte { return append(v, c.Snapshot...) })
	}
	for _, k := range c.Keys {
		put(func(b []byte) []byte { return layout.KeyUnique(b, key, k.Key) }, seq(k.Seq))
	}
	root := key.Session.Depth() == 0
	// A task's CreatedAt never changes, so its entry in the list is only written over.
	for _, row := range c.Tasks {
		row.Key = key
		put(func(k []byte) []byte { return layout.KeyTask(k, key, row.Task) },
			func(v []byte) []byte { return wire.AppendTaskRow(v, row) })
		if root {
			put(func(k []byte) []byte { return layout.KeyTaskTime(k, key.Tenant, row.CreatedAt.UnixMilli(), row.Task) },
				func(v []byte) []byte { return append(append(v, byte(row.Status)), key.Session...) })
		}
	}
	if err := readers.Put(b, db.p, key, c.Cursors); err != nil {
		return err
	}
	if !c.Summary.CreatedAt.IsZero() {
		sum := c.Summary
		sum.Key, sum.Last = key, h.Row.Last
		h.Summary = wire.AppendSummary(make([]byte, 0, 192), sum) // most fit
		if root && h.Moves(sum.Activity.UnixMilli()) {
			if h.Listed {
				drop(layout.KeyActivity((*buf)[:0], key, h.Activity))
			}
			h.Activity, h.Listed = h.Latest, true
			put(func(k []byte) []byte { return layout.KeyActivity(k, key, h.Activity) }, nil)
		}
	}
	if was, is := h.Row.WakeAt, truncated(c.WakeAt); !was.Equal(is) {
		if !was.IsZero() {
			drop(layout.KeyDue((*buf)[:0], key, was.UnixMilli()))
		}
		if !is.IsZero() {
			put(func(k []byte) []byte { return layout.KeyDue(k, key, is.UnixMilli()) }, nil)
		}
		h.Row.WakeAt = is
	}
	was, is := h.Row.Claim, storedClaim(c.Claim)
	if was != nil && (is == nil || !was.Since.Equal(is.Since)) {
		drop(layout.KeyClaim((*buf)[:0], key, was.Since.UnixMilli()))
	}
	if is != nil && (was == nil || !was.Since.Equal(is.Since)) {
		put(func(k []byte) []byte { return layout.KeyClaim(k, key, is.Since.UnixMilli()) }, nil)
	}
	h.Row.Claim = is
	db.putHead(b, buf, key, h)
	return nil
}

// storedClaim is what may be claimed as it is stored; it keeps nothing of c.
func storedClaim(c *conversation.Claimable) *conversation.Claimable {
	if c == nil {
		return nil
	}
	is := *c
	is.Since, is.From = truncated(c.Since), truncated(c.From)
	return &is
}

// truncated is the time as it is stored.
func truncated(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

func (db *DB) putHead(b *pebble.Batch, buf *[]byte, key conversation.SessionKey, h *layout.Head) {
	at := layout.KeyHead((*buf)[:0], key)
	n := len(at)
	at = wire.AppendHead(at, h.Row) // encoded behind the key, then framed behind itself
	m := len(at)
	at = layout.AppendHead(at, h, at[n:m])
	_ = b.Set(at[:n], at[m:], nil)
	*buf = at
}

// lastOf is the last seq of a session whose slot is locked; ok is false if there
// is none.
func (db *DB) lastOf(key conversation.SessionKey, entry *writers.Slot) (last conversation.Seq, ok bool, err error) {
	if entry.Cached.Epoch != 0 {
		return entry.Cached.Last, true, nil
	}
	h, err := loadHead(db.p, key)
	if err != nil || h == nil {
		return 0, false, err
	}
	return h.Row.Last, true, nil
}

func loadHead(from pebble.Reader, key conversation.SessionKey) (*layout.Head, error) {
	v, closer, err := from.Get(layout.KeyHead(nil, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := layout.DecodeHead(v)
	return h, errors.Join(err, closer.Close())
}

// readHead joins a head with its snapshot.
func (db *DB) readHead(key conversation.SessionKey, h *layout.Head) (conversation.Head, error) {
	out := conversation.Head{
		Epoch: h.Row.Epoch, Last: h.Row.Last, LastCommit: h.Row.LastCommit, SnapshotAt: h.Row.SnapshotAt,
	}
	if h.Row.LastCommit == "" { // a new session: there is no need to look
		return out, nil
	}
	v, closer, err := db.p.Get(layout.KeySnapshot(nil, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return conversation.Head{}, err
	}
	out.Snapshot = append([]byte{}, v...)
	return out, closer.Close()
}
