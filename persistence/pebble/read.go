package pebble

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/activity"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/readers"
	"parley/persistence/pebble/internal/writers"
)

// Reads are done in pages: between two pages nothing of the engine is held, so a
// caller may take its time in the loop, call the store, or Close it. Nothing is
// ever preallocated by a limit that a caller names.
const (
	pageRecords = 128
	pageBytes   = 1 << 20
	pageRows    = 256

	// mostAhead bounds the sessions of a list that are read at once where many were active
	// within the same second: each time, the heads of that second are read.
	mostAhead = 4096
)

var (
	errGap    = errors.New("the log has a gap")
	errSeq    = errors.New("a stored seq cannot be read")
	errCursor = conversation.Errorf(conversation.BadRequest, "the page cursor is not one of this server's")
)

// reading begins a read of one session: the view that open makes is durable,
// because it is made while no commit of the session is in flight.
func (db *DB) reading(key conversation.SessionKey, open func(entry *writers.Slot) error) error {
	entry := db.cache.Use(key)
	defer db.cache.Release(key, entry)
	entry.Mu.RLock()
	defer entry.Mu.RUnlock()
	return open(entry)
}

// Head implements conversation.Store.
func (db *DB) Head(ctx context.Context, key conversation.SessionKey) (conversation.Head, error) {
	if err := db.enter(ctx); err != nil {
		return conversation.Head{}, err
	}
	defer db.leave()
	defer db.metrics.Read("head", time.Now())
	var out conversation.Head
	err := db.reading(key, func(*writers.Slot) error {
		h, err := loadHead(db.p, key)
		if err != nil {
			return err
		}
		if h == nil {
			return conversation.ErrNotFound
		}
		out, err = db.readHead(key, h)
		return err
	})
	return out, wrap("head of", key, err)
}

func wrap(what string, key conversation.SessionKey, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", what, key, asDamage(err))
}

// Find implements conversation.Store.
func (db *DB) Find(ctx context.Context, key conversation.SessionKey, keys []conversation.Key) ([]conversation.Seq, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	defer db.metrics.Read("find", time.Now())
	found := make([]conversation.Seq, len(keys))
	buf := db.buffer()
	defer db.putBuffer(buf)
	err := db.reading(key, func(*writers.Slot) error {
		for i, k := range keys {
			var err error
			if found[i], err = db.seqOf(buf, key, k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, wrap("keys of", key, err)
	}
	return found, nil
}

// Records implements conversation.Store.
func (db *DB) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		left := r.Limit
		if left <= 0 {
			left = math.MaxInt
		}
		scan := recordScan{key: key, after: r.After, before: r.Before, reverse: r.Reverse}
		for left > 0 && !scan.done {
			page, err := db.recordPage(ctx, &scan, min(left, pageRecords))
			for _, rec := range page {
				if !yield(rec, nil) {
					return
				}
			}
			if err != nil {
				yield(conversation.Record{}, wrap("records of", key, err))
				return
			}
			left -= len(page)
		}
	}
}

// recordScan is the position of a walk over a session's records. It checks that the
// log is gapless on its way: each record has to begin where the one before ended.
type recordScan struct {
	key           conversation.SessionKey
	after, before conversation.Seq
	reverse       bool

	begun bool
	next  conversation.Seq // the event that the next record has to hold
	end   conversation.Seq // the last event that is wanted, in the direction of the walk
	done  bool
}

// recordPage reads the next records of a walk. Records that were read before an
// error are returned with it.
func (db *DB) recordPage(ctx context.Context, s *recordScan, limit int) (page []conversation.Record, err error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	if !s.begun {
		defer db.metrics.Read("records", time.Now())
	}
	var it *pebble.Iterator
	err = db.reading(s.key, func(entry *writers.Slot) error {
		if !s.begun {
			last, ok, err := db.lastOf(s.key, entry)
			if err != nil {
				return err
			}
			s.begin(last, ok)
		}
		if s.done {
			return nil
		}
		prefix := append(layout.SessionPrefix(nil, s.key), layout.KindRecord)
		it, err = db.p.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
		return err
	})
	if err != nil || s.done {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()

	bytes := 0
	ok := it.SeekGE(layout.KeyRecord(nil, s.key, s.next))
	for ; ok && !s.done && len(page) < limit && bytes < pageBytes; ok = s.step(it) {
		rec, err := wire.DecodeRecord(it.Value())
		if err != nil {
			return page, err
		}
		if err := s.took(rec); err != nil {
			return page, err
		}
		page = append(page, rec)
		bytes += len(it.Value())
	}
	if err := it.Error(); err != nil {
		return page, err
	}
	if !ok && !s.done {
		return page, db.missing(s)
	}
	return page, nil
}

func (s *recordScan) step(it *pebble.Iterator) bool {
	if s.reverse {
		return it.Prev()
	}
	return it.Next()
}

// begin fixes the ends of the walk by the head of its first moment.
func (s *recordScan) begin(last conversation.Seq, ok bool) {
	s.begun = true
	if !ok {
		s.done = true
		return
	}
	first := s.after + 1
	if s.before != 0 {
		last = min(last, s.before-1)
	}
	s.done = first > last
	s.next, s.end = first, last
	if s.reverse {
		s.next, s.end = last, first
	}
}

// took moves the walk behind a record, which has to hold s.next.
func (s *recordScan) took(rec conversation.Record) error {
	first, last := rec.Events[0].Seq, rec.Events[len(rec.Events)-1].Seq
	if s.next < first || s.next > last {
		return fmt.Errorf("%w: seq %d is missing", errGap, s.next)
	}
	if s.reverse {
		s.done, s.next = first <= s.end, first-1
	} else {
		s.done, s.next = last >= s.end, last+1
	}
	return nil
}

// missing says why a walk found less than its head promised.
func (db *DB) missing(s *recordScan) error {
	h, err := loadHead(db.p, s.key)
	if err != nil {
		return err
	}
	if h == nil {
		return conversation.ErrNotFound // erased meanwhile
	}
	return fmt.Errorf("%w: seq %d is missing", errGap, s.next)
}

// Summary implements conversation.Store.
func (db *DB) Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error) {
	if err := db.enter(ctx); err != nil {
		return conversation.Summary{}, err
	}
	defer db.leave()
	defer db.metrics.Read("summary", time.Now())
	var out conversation.Summary
	err := db.reading(key, func(*writers.Slot) error {
		h, err := loadHead(db.p, key)
		if err != nil {
			return err
		}
		if h == nil || h.Summary == nil {
			return conversation.ErrNotFound
		}
		out, err = readSummary(key, h)
		return err
	})
	return out, wrap("summary of", key, err)
}

func readSummary(key conversation.SessionKey, h *layout.Head) (conversation.Summary, error) {
	s, err := wire.DecodeSummary(h.Summary)
	s.Key, s.Last = key, h.Row.Last
	return s, err
}

// Task implements conversation.Store.
func (db *DB) Task(ctx context.Context, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error) {
	if err := db.enter(ctx); err != nil {
		return conversation.TaskRow{}, err
	}
	defer db.leave()
	defer db.metrics.Read("task", time.Now())
	var row conversation.TaskRow
	err := db.reading(key, func(*writers.Slot) error {
		var err error
		row, err = taskRow(db.p, key, task)
		return err
	})
	return row, wrap("task "+string(task)+" of", key, err)
}

func taskRow(from pebble.Reader, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error) {
	v, closer, err := from.Get(layout.KeyTask(nil, key, task))
	if errors.Is(err, pebble.ErrNotFound) {
		return conversation.TaskRow{}, conversation.ErrNotFound
	}
	if err != nil {
		return conversation.TaskRow{}, err
	}
	row, err := wire.DecodeTaskRow(v)
	return row, errors.Join(err, closer.Close())
}

// pages yields the items of a list page by page; next returns less than asked
// for when there are no more.
func pages[T any](limit int, next func(n int) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := limit
		if left <= 0 {
			left = math.MaxInt
		}
		for left > 0 {
			want := min(left, pageRows)
			items, err := next(want)
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			if len(items) < want {
				return
			}
			left -= len(items)
		}
	}
}

// view runs read on a snapshot of everything, and returns when all that it saw
// is durable.
func (db *DB) view(ctx context.Context, op string, read func(s *pebble.Snapshot) error) (err error) {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	defer db.metrics.Read(op, time.Now())
	if err := db.onSnapshot(read); err != nil {
		return fmt.Errorf("%s: %w", op, asDamage(err))
	}
	return db.waitDurable()
}

func (db *DB) onSnapshot(read func(s *pebble.Snapshot) error) error {
	db.views.RLock()
	defer db.views.RUnlock()
	s := db.p.NewSnapshot()
	return errors.Join(read(s), s.Close())
}

// Sessions implements conversation.Store. A session that moves in the list while
// it is read may be seen twice or not at all. Activity is the one that the list
// is ordered by, in milliseconds.
func (db *DB) Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error] {
	if p.Only != "" {
		p.Cursor, p.Limit = "", 1
	}
	from, id, err := parseCursor(p.Cursor)
	return func(yield func(conversation.Summary, error) bool) {
		if err != nil {
			yield(conversation.Summary{}, err)
			return
		}
		at := activity.Entry{Key: conversation.SessionKey{Tenant: p.Tenant, Session: conversation.SessionID(id)}, Activity: from}
		db.sessions(ctx, p, at)(yield)
	}
}

func (db *DB) sessions(ctx context.Context, p conversation.Page, at activity.Entry) iter.Seq2[conversation.Summary, error] {
	begun := p.Cursor != ""
	var ahead []conversation.Summary // read, and not yielded yet
	rows, ended := pageRows, false   // how many are read at once, and whether there are no more
	return pages(p.Limit, func(n int) ([]conversation.Summary, error) {
		var err error
		if len(ahead) < n && !ended {
			err = db.view(ctx, "sessions", func(s *pebble.Snapshot) error {
				want := n
				if p.Limit <= 0 {
					want = rows
				}
				extra := 0 // heads of sessions that were active near the ends of what was wanted
				for !ended && len(ahead) < want && ctx.Err() == nil {
					found, heads, err := db.sessionsBehind(s, p, at, begun, want-len(ahead))
					if err != nil {
						return err
					}
					ended, extra = len(found) < want-len(ahead), extra+heads-len(found)
					for _, f := range found {
						at, begun = f.Entry, true
						sum, err := db.listEntry(s, f, p.For)
						switch {
						case err == nil:
							ahead = append(ahead, sum)
						case !db.health.leftOut(f.Key, err):
							return err
						}
					}
				}
				rows = min(max(pageRows, extra), mostAhead)
				return ctx.Err()
			})
		}
		items := ahead[:min(n, len(ahead))]
		ahead = ahead[len(items):]
		return items, err
	})
}

// sessionsBehind reads the next n sessions of a list.
func (db *DB) sessionsBehind(s *pebble.Snapshot, p conversation.Page, at activity.Entry, begun bool, n int) ([]activity.Found, int, error) {
	if p.Only != "" {
		return activity.One(s, conversation.SessionKey{Tenant: p.Tenant, Session: p.Only})
	}
	if p.Oldest {
		return activity.Oldest(s, at, begun, n)
	}
	return activity.Newest(s, at, begun, n)
}

func (db *DB) listEntry(from *pebble.Snapshot, f activity.Found, reader conversation.UserID) (conversation.Summary, error) {
	if f.Err != nil {
		return conversation.Summary{}, f.Err
	}
	sum, err := readSummary(f.Key, f.Head)
	if err != nil {
		return conversation.Summary{}, err
	}
	sum.Activity = time.UnixMilli(f.Activity).UTC()
	if reader == "" {
		return sum, nil
	}
	has, err := readers.Of(from, f.Key, reader)
	sum.Seen, sum.Marks = has.Seq, has.Set
	return sum, err
}

// walk calls each for every key in [lower, upper) until it says no.
func walk(from pebble.Reader, lower, upper []byte, each func(k, v []byte) (more bool, err error)) (err error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		more, err := each(it.Key(), it.Value())
		if err != nil || !more {
			return err
		}
	}
	return it.Error()
}

// Tasks implements conversation.Store. With a Session it lists that session's
// rows, a sub-session's too.
func (db *DB) Tasks(ctx context.Context, f conversation.TaskFilter) iter.Seq2[conversation.TaskRow, error] {
	from, id, err := parseCursor(f.Cursor)
	return func(yield func(conversation.TaskRow, error) bool) {
		if err != nil {
			yield(conversation.TaskRow{}, err)
			return
		}
		prefix := layout.TenantPrefix(nil, layout.TableTasks, f.Tenant)
		start := layout.KeyTaskTime(nil, f.Tenant, from, conversation.TaskID(id))
		if f.Session != "" {
			key := conversation.SessionKey{Tenant: f.Tenant, Session: f.Session}
			prefix = append(layout.SessionPrefix(nil, key), layout.KindTask)
			start = layout.KeyTask(nil, key, conversation.TaskID(id))
		}
		lower := prefix
		if f.Cursor != "" {
			lower = append(start, 0)
		}
		db.tasks(ctx, f, lower, layout.After(prefix))(yield)
	}
}

func (db *DB) tasks(ctx context.Context, f conversation.TaskFilter, lower, upper []byte) iter.Seq2[conversation.TaskRow, error] {
	return pages(f.Limit, func(n int) (items []conversation.TaskRow, _ error) {
		err := db.view(ctx, "tasks", func(s *pebble.Snapshot) error {
			return walk(s, lower, upper, func(k, v []byte) (bool, error) {
				row, ok, err := pickTask(s, f, k, v)
				if err != nil && (f.Session != "" || !db.health.leftOut(row.Key, err)) {
					return false, err
				}
				if ok {
					items = append(items, row)
					lower = append(append(lower[:0:0], k...), 0)
				}
				return len(items) < n, ctx.Err()
			})
		})
		return items, err
	})
}

// pickTask reads the row that a key of table 05, or of a session's rows, leads
// to, if the filter wants it.
func pickTask(from *pebble.Snapshot, f conversation.TaskFilter, k, v []byte) (row conversation.TaskRow, ok bool, err error) {
	if f.Session != "" {
		row, err = wire.DecodeTaskRow(v)
		return row, err == nil && (f.Status == 0 || row.Status == f.Status), err
	}
	task, created, fits := layout.CutTaskTime(k)
	if !fits || len(v) == 0 {
		return row, false, fmt.Errorf("key %x is not one of the list of tasks", k)
	}
	if f.Status != 0 && conversation.TaskStatus(v[0]) != f.Status {
		return row, false, nil
	}
	key := conversation.SessionKey{Tenant: f.Tenant, Session: conversation.SessionID(v[1:])}
	row, err = taskRow(from, key, task)
	if errors.Is(err, conversation.ErrNotFound) {
		return row, false, nil // an index entry that leads nowhere must not spoil the list
	}
	row.Key = key
	return row, err == nil && row.CreatedAt.UnixMilli() == created, err
}

// Due implements conversation.Store.
func (db *DB) Due(ctx context.Context, until time.Time, _ conversation.Member) iter.Seq2[conversation.SessionKey, error] {
	return func(yield func(conversation.SessionKey, error) bool) {
		lower := []byte{layout.TableDue}
		upper := layout.AppendU64([]byte{layout.TableDue}, layout.Ordered(until.UnixMilli())+1)
		pages(0, func(n int) (items []conversation.SessionKey, _ error) {
			err := db.view(ctx, "due", func(s *pebble.Snapshot) error {
				return walk(s, lower, upper, func(k, _ []byte) (bool, error) {
					key, _, ok := layout.CutDue(k)
					if !ok {
						return false, fmt.Errorf("key %x is not one of the list of what is due", k)
					}
					items = append(items, key)
					lower = append(append(lower[:0:0], k...), 0)
					return len(items) < n, nil
				})
			})
			return items, err
		})(yield)
	}
}

// Claimable implements conversation.Store. An unreadable session is left out.
func (db *DB) Claimable(ctx context.Context, tenant conversation.TenantID) iter.Seq2[conversation.ClaimableAt, error] {
	return func(yield func(conversation.ClaimableAt, error) bool) {
		lower := layout.TenantPrefix(nil, layout.TableClaims, tenant)
		upper := layout.After(lower)
		pages(0, func(n int) (items []conversation.ClaimableAt, _ error) {
			err := db.view(ctx, "claimable", func(s *pebble.Snapshot) error {
				return walk(s, lower, upper, func(k, _ []byte) (bool, error) {
					lower = append(append(lower[:0:0], k...), 0)
					key, since, ok := layout.CutClaim(k)
					if !ok {
						return false, fmt.Errorf("key %x is not one of the list of what may be claimed", k)
					}
					h, err := loadHead(s, key)
					if err != nil {
						if db.health.leftOut(key, err) {
							return true, nil
						}
						return false, err
					}
					if h != nil && h.Row.Claim != nil && h.Row.Claim.Since.UnixMilli() == since {
						items = append(items, conversation.ClaimableAt{Key: key, Claimable: *h.Row.Claim})
					}
					return len(items) < n, ctx.Err()
				})
			})
			return items, err
		})(yield)
	}
}

// parseCursor reads "<milliseconds>.<id>".
func parseCursor(cursor string) (ms int64, id string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	digits, id, ok := strings.Cut(cursor, ".")
	ms, err = strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil {
		return 0, "", errCursor
	}
	return ms, id, nil
}
