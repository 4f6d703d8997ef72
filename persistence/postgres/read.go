package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/conversation/wire"
)

// Reads are done in pages: between two of them nothing of the database is held.
const (
	pageRecords = 64
	pageRows    = 256
)

var errGap = errors.New("the log has a gap")

// asDamage makes conversation.ErrDamaged of what says of stored bytes that they are not
// what was written.
func asDamage(err error) error {
	if errors.Is(err, wire.ErrCorrupt) || errors.Is(err, errGap) {
		return fmt.Errorf("%w: %w", conversation.ErrDamaged, err)
	}
	return err
}

// absent makes conversation.ErrNotFound of no row.
func absent(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return conversation.ErrNotFound
	}
	return asDamage(err)
}

// row asks for one row of a session.
func (s *Store) row(ctx context.Context, what string, key conversation.SessionKey, sql string, args []any, scan func(row pgx.Row) error) error {
	return s.read(ctx, what, func(ctx context.Context) error {
		if !storable(key) {
			return conversation.ErrNotFound
		}
		return absent(scan(s.reading.QueryRow(ctx, sql, append([]any{string(key.Tenant), string(key.Session)}, args...)...)))
	})
}

// Head implements conversation.Store.
func (s *Store) Head(ctx context.Context, key conversation.SessionKey) (h conversation.Head, err error) {
	err = s.row(ctx, "head", key, `select s.epoch, s.last_seq, s.last_commit, s.snapshot_at, b.body
from sessions s left join snapshots b on b.session = s.id where s.tenant = $1 and s.session = $2 and s.erased is null`, nil,
		func(row pgx.Row) error {
			var commit []byte
			err := row.Scan(&h.Epoch, &h.Last, &commit, &h.SnapshotAt, &h.Snapshot)
			h.LastCommit = conversation.CommitID(commit)
			return err
		})
	return h, err
}

const findKeys = `select k.i, e.seq from unnest($3::bytea[]) with ordinality as k(key, i)
join sessions s on s.tenant = $1 and s.session = $2 and s.erased is null
cross join lateral (select e.seq from event_keys e where e.session = s.id and e.key = k.key limit 1) e`

// Find implements conversation.Store.
func (s *Store) Find(ctx context.Context, key conversation.SessionKey, keys []conversation.Key) ([]conversation.Seq, error) {
	found := make([]conversation.Seq, len(keys))
	err := s.read(ctx, "find", func(ctx context.Context) error {
		if !storable(key) || len(keys) == 0 {
			return nil
		}
		stored := make([][]byte, len(keys))
		for i, k := range keys {
			stored[i] = storedKey(k)
		}
		rows, err := s.reading.Query(ctx, findKeys, string(key.Tenant), string(key.Session), stored)
		if err != nil {
			return err
		}
		var i int64
		var seq conversation.Seq
		_, err = pgx.ForEachRow(rows, []any{&i, &seq}, func() error { found[i-1] = seq; return nil })
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// walk is the position of a walk over a session's records. It checks that the log is
// gapless on its way.
type walk struct {
	key           conversation.SessionKey
	after, before conversation.Seq
	reverse       bool
	id            int64            // sessions.id; 0 = not known yet
	next, end     conversation.Seq // the event that the next record has to hold, and the last one that is wanted
	done          bool
}

// Records implements conversation.Store.
func (s *Store) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		left := r.Limit
		if left <= 0 {
			left = math.MaxInt
		}
		w := walk{key: key, after: r.After, before: r.Before, reverse: r.Reverse}
		for left > 0 && !w.done {
			var page []conversation.Record
			err := s.read(ctx, "records", func(ctx context.Context) (err error) {
				at := w
				page, err = s.page(ctx, &at, min(left, pageRecords))
				w = at
				return asDamage(err)
			})
			for _, rec := range page {
				if !yield(rec, nil) {
					return
				}
			}
			if err != nil {
				yield(conversation.Record{}, err)
				return
			}
			left -= len(page)
		}
	}
}

const (
	beginWalk = `select id, last_seq from sessions where tenant = $1 and session = $2 and erased is null`
	onwards   = `select body from records where session = $1 and last_seq >= $2 order by last_seq limit $3`
	// The record that holds an event is the first that ends with it or later.
	backwards = `select body from records where session = $1 and last_seq <= coalesce(
  (select min(last_seq) from records where session = $1 and last_seq >= $2), $2) order by last_seq desc limit $3`
)

// page reads the next records of a walk. What was read before an error comes with it.
func (s *Store) page(ctx context.Context, w *walk, limit int) (page []conversation.Record, err error) {
	if w.id == 0 {
		if err := s.begun(ctx, w); err != nil || w.done {
			return nil, err
		}
	}
	sql := onwards
	if w.reverse {
		sql = backwards
	}
	rows, err := s.reading.Query(ctx, sql, w.id, int64(w.next), limit) //nolint:gosec // sequences are small
	if err != nil {
		return nil, err
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, err
	}
	for _, body := range bodies {
		rec, err := wire.DecodeRecord(body)
		if err == nil {
			err = w.took(rec)
		}
		if err != nil {
			return page, err
		}
		if page = append(page, rec); w.done {
			return page, nil
		}
	}
	if len(bodies) < limit {
		return page, s.missing(ctx, w)
	}
	return page, nil
}

// begun fixes the ends of a walk by the head of its first moment.
func (s *Store) begun(ctx context.Context, w *walk) error {
	if !storable(w.key) {
		w.done = true
		return nil
	}
	var last conversation.Seq
	err := s.reading.QueryRow(ctx, beginWalk, string(w.key.Tenant), string(w.key.Session)).Scan(&w.id, &last)
	if errors.Is(err, pgx.ErrNoRows) {
		w.done = true
		return nil
	}
	if err != nil {
		return err
	}
	first := w.after + 1
	if w.before != 0 {
		last = min(last, w.before-1)
	}
	w.done = first > last
	w.next, w.end = first, last
	if w.reverse {
		w.next, w.end = last, first
	}
	return nil
}

// took moves the walk behind a record, which has to hold w.next.
func (w *walk) took(rec conversation.Record) error {
	first, last := rec.Events[0].Seq, rec.Events[len(rec.Events)-1].Seq
	if w.next < first || w.next > last {
		return fmt.Errorf("%w: seq %d is missing", errGap, w.next)
	}
	if w.reverse {
		w.done, w.next = first <= w.end, first-1
	} else {
		w.done, w.next = last >= w.end, last+1
	}
	return nil
}

// missing says why a walk found less than its head promised.
func (s *Store) missing(ctx context.Context, w *walk) error {
	var id int64
	err := s.reading.QueryRow(ctx, "select id from sessions where tenant = $1 and session = $2 and erased is null", string(w.key.Tenant), string(w.key.Session)).Scan(&id)
	if err != nil {
		return absent(err) // erased meanwhile
	}
	return fmt.Errorf("%w: seq %d is missing", errGap, w.next)
}

// Summary implements conversation.Store.
func (s *Store) Summary(ctx context.Context, key conversation.SessionKey) (sum conversation.Summary, err error) {
	err = s.row(ctx, "summary", key, `select summary, last_seq from sessions where tenant = $1 and session = $2 and erased is null and summary is not null`, nil,
		func(row pgx.Row) error {
			var body []byte
			var last conversation.Seq
			if err := row.Scan(&body, &last); err != nil {
				return err
			}
			sum, err = wire.DecodeSummary(body)
			sum.Key, sum.Last, sum.Seen, sum.Marks = key, last, 0, 0
			return err
		})
	return sum, err
}

// Task implements conversation.Store.
func (s *Store) Task(ctx context.Context, key conversation.SessionKey, task conversation.TaskID) (out conversation.TaskRow, err error) {
	err = s.row(ctx, "task", key, `select t.body from tasks t
join sessions s on s.tenant = $1 and s.session = $2 and s.erased is null where t.session = s.id and t.task = $3`, []any{string(task)},
		func(row pgx.Row) error {
			var body []byte
			if err := row.Scan(&body); err != nil {
				return err
			}
			out, err = wire.DecodeTaskRow(body)
			return err
		})
	return out, err
}
