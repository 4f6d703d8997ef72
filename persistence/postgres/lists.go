package postgres

import (
	"context"
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/conversation/wire"
)

// parseCursor reads "<milliseconds>.<id>".
func parseCursor(cursor string) (ms int64, id string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	digits, id, ok := strings.Cut(cursor, ".")
	ms, err = strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || !storable(conversation.SessionKey{Session: conversation.SessionID(id)}) {
		return 0, "", conversation.Errorf(conversation.BadRequest, "the page cursor is not one of this server's")
	}
	return ms, id, nil
}

// pages yields the items of a list page by page; next returns less than asked for when
// there are no more. skip counts items that cannot be read and are left out.
func pages[T any](limit int, next func(n int) (items []T, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := limit
		if left <= 0 {
			left = math.MaxInt
		}
		for more := true; left > 0 && more; {
			var items []T
			var err error
			items, more, err = next(min(left, pageRows))
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
			left -= len(items)
		}
	}
}

// list reads one page: each is called with every row.
func (s *Store) list(ctx context.Context, what string, n int, sql string, args []any, begin func(), each func(row pgx.CollectableRow) error) (more bool, err error) {
	err = s.read(ctx, what, func(ctx context.Context) error {
		begin() // what was read before the connection broke is read again
		rows, err := s.reading.Query(ctx, sql, append(args[:len(args):len(args)], n)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		count := 0
		for rows.Next() {
			count++
			if err := each(rows); err != nil {
				return asDamage(err)
			}
		}
		more = count == n
		return rows.Err()
	})
	return more, err
}

// leftOut reports that a list goes on without something that cannot be read; false: err
// says nothing about it alone.
func (s *Store) leftOut(key conversation.SessionKey, err error) bool {
	if !errors.Is(err, wire.ErrCorrupt) && !errors.Is(err, conversation.ErrTooNew) {
		return false
	}
	s.logger.Error("a list goes on without a session that cannot be read", "session", key.Session, "tenant", key.Tenant, "error", err)
	return true
}

// listSessions begins with $1 tenant, $2 reader, $3 and $4 the cursor, $5 whether there is one.
const listSessions = `select s.tenant, s.session, s.summary, s.last_seq, s.activity, coalesce(c.seq, 0), coalesce(c.marks, 0)
from sessions s left join read_cursors c on c.session = s.id and c.reader = $2 `

const newestSessions = listSessions + `where s.tenant = $1 and s.listed is not null
  and s.listed <= case when $5 then $3::bigint >> 10 else 9223372036854775807 end
  and (not $5 or s.activity < $3 or s.activity = $3 and s.session > $4)
order by s.listed desc, s.activity desc, s.session limit $6`

const oldestSessions = listSessions + `where ($1 = '' or true) and s.listed is not null
  and s.listed >= case when $5 then $3::bigint >> 10 else -9223372036854775808 end
  and (not $5 or s.activity > $3 or s.activity = $3 and s.session < $4)
order by s.listed, s.activity, s.session desc, s.tenant desc limit $6`

// oneSession is the row of $4 alone.
const oneSession = listSessions + `where s.tenant = $1 and s.session = $4 and s.listed is not null and $3::bigint = 0 and $5 limit $6`

// Sessions implements conversation.Store. A session that moves in the list while it is
// read may be seen twice or not at all. Activity is the one that the list is ordered by.
func (s *Store) Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error] {
	sql := newestSessions
	switch {
	case p.Only != "":
		sql, p.Cursor, p.Limit = oneSession, "0."+string(p.Only), 1
	case p.Oldest:
		sql = oldestSessions
	}
	from, after, err := parseCursor(p.Cursor)
	return func(yield func(conversation.Summary, error) bool) {
		if err != nil {
			yield(conversation.Summary{}, err)
			return
		}
		ms, id, begun := from, after, p.Cursor != ""
		pages(p.Limit, func(n int) (all []conversation.Summary, more bool, err error) {
			at, name := ms, id
			more, err = s.list(ctx, "sessions", n, sql, []any{string(p.Tenant), []byte(p.For), at, name, begun}, func() { all = nil }, func(row pgx.CollectableRow) error {
				var key conversation.SessionKey
				var body []byte
				var last conversation.Seq
				var has conversation.Cursor
				if err := row.Scan(&key.Tenant, &key.Session, &body, &last, &at, &has.Seq, &has.Set); err != nil {
					return err
				}
				name = string(key.Session)
				sum, err := wire.DecodeSummary(body)
				if err != nil {
					if s.leftOut(key, err) {
						return nil
					}
					return err
				}
				sum.Key, sum.Last, sum.Seen, sum.Marks, sum.Activity = key, last, has.Seq, has.Set, time.UnixMilli(at).UTC()
				all = append(all, sum)
				return nil
			})
			ms, id, begun = at, name, true
			return all, more, err
		})(yield)
	}
}

// What lists of tasks have in common: $1 tenant, $2 session, $3 status, $4 to $6 the cursor,
// $7 whether there is one.
const (
	behindTask = ` and ($3::smallint = 0 or t.status = $3) and (not $7 or t.created < $4 or t.created = $4 and (t.ordinal < $5 or t.ordinal = $5 and t.task > $6))
order by t.created desc, t.ordinal desc, t.task limit $8`
	allTasks = `select t.task, t.created, t.ordinal, t.body from tasks t where t.tenant = $1 and t.root and ($2 = '' or true)
  and t.created <= case when $7 then $4 else 9223372036854775807 end` + behindTask
	tasksOf = `select t.task, t.created, t.ordinal, t.body from sessions s join tasks t on t.session = s.id
where s.tenant = $1 and s.session = $2 and s.erased is null` + behindTask
)

// Tasks implements conversation.Store.
func (s *Store) Tasks(ctx context.Context, f conversation.TaskFilter) iter.Seq2[conversation.TaskRow, error] {
	from, after, err := parseCursor(f.Cursor)
	return func(yield func(conversation.TaskRow, error) bool) {
		if err != nil {
			yield(conversation.TaskRow{}, err)
			return
		}
		sql, ms, n, id, begun := allTasks, from, ordinal(conversation.TaskID(after)), after, f.Cursor != ""
		if f.Session != "" {
			sql = tasksOf
		}
		pages(f.Limit, func(count int) (all []conversation.TaskRow, more bool, err error) {
			at, number, name := ms, n, id
			more, err = s.list(ctx, "tasks", count, sql, []any{string(f.Tenant), string(f.Session), int16(f.Status), at, number, name, begun}, func() { all = nil }, func(row pgx.CollectableRow) error {
				var body []byte
				if err := row.Scan(&name, &at, &number, &body); err != nil {
					return err
				}
				task, err := wire.DecodeTaskRow(body)
				if err != nil {
					session, _ := conversation.TaskID(name).Session()
					if f.Session == "" && s.leftOut(conversation.SessionKey{Tenant: f.Tenant, Session: session}, err) {
						return nil
					}
					return err
				}
				all = append(all, task)
				return nil
			})
			ms, n, id, begun = at, number, name, true
			return all, more, err
		})(yield)
	}
}

// dueSessions leaves out what another member owns that lives: $2 the incarnation that asks, 0 =
// nobody, who sees all.
const dueSessions = `select d.wake, d.tenant, d.session from due d
join sessions s on s.tenant = d.tenant and s.session = d.session
where d.wake <= $1 and (d.wake, d.tenant, d.session) > ($3, $4, $5)
  and ($2::bigint = 0 or s.owner is null or s.owner = $2 or not exists (select from members_now m where m.incarnation = s.owner and not m.dead))
order by d.wake, d.tenant, d.session limit $6`

// Due implements conversation.Store. Both the time that was stored and the one that is
// asked for are by the database's clock.
func (s *Store) Due(ctx context.Context, until time.Time, of conversation.Member) iter.Seq2[conversation.SessionKey, error] {
	return func(yield func(conversation.SessionKey, error) bool) {
		ms := int64(math.MinInt64)
		var last conversation.SessionKey
		pages(0, func(n int) (all []conversation.SessionKey, more bool, err error) {
			at, key := ms, last
			more, err = s.list(ctx, "due", n, dueSessions, []any{s.theirs(until).UnixMilli(), int64(of.Incarnation), ms, string(last.Tenant), string(last.Session)}, func() { all = nil }, func(row pgx.CollectableRow) error {
				if err := row.Scan(&at, &key.Tenant, &key.Session); err != nil {
					return err
				}
				all = append(all, key)
				return nil
			})
			ms, last = at, key
			return all, more, err
		})(yield)
	}
}

const claimableSessions = `select claim_since, session, claim from sessions
where tenant = $1 and claim_since is not null and (claim_since, session) > ($2, $3) order by claim_since, session limit $4`

// Claimable implements conversation.Store.
func (s *Store) Claimable(ctx context.Context, tenant conversation.TenantID) iter.Seq2[conversation.ClaimableAt, error] {
	return func(yield func(conversation.ClaimableAt, error) bool) {
		ms, id := int64(math.MinInt64), ""
		pages(0, func(n int) (all []conversation.ClaimableAt, more bool, err error) {
			at, name := ms, id
			more, err = s.list(ctx, "claimable", n, claimableSessions, []any{string(tenant), ms, id}, func() { all = nil }, func(row pgx.CollectableRow) error {
				var body []byte
				if err := row.Scan(&at, &name, &body); err != nil {
					return err
				}
				key := conversation.SessionKey{Tenant: tenant, Session: conversation.SessionID(name)}
				head, err := wire.DecodeHead(body)
				if err != nil || head.Claim == nil {
					if err == nil || s.leftOut(key, err) {
						return nil
					}
					return err
				}
				all = append(all, conversation.ClaimableAt{Key: key, Claimable: *head.Claim})
				return nil
			})
			ms, id = at, name
			return all, more, err
		})(yield)
	}
}
