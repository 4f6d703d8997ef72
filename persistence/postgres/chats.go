package postgres

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"parley/conversation"
	"parley/conversation/chats"
)

// Chats is what channels remember. It counts for no quota. An erasure takes it along by
// itself (migrations/0006_chats.sql).
func (s *Store) Chats() chats.Store { return chatStore{s} }

type chatStore struct{ s *Store }

// pageChats is how many rows or entries are read at once: each may be large.
const pageChats = 32

const (
	// Who writes what names sessions holds them, in one order, beside others who write and
	// never beside an erasure.
	holdNamed = `select pg_advisory_xact_lock_shared(hashtextextended('parley chats ' || $1::text || '/' || n, 0)) from unnest($2::text[]) as n`
	anyErased = `select exists (select from sessions where tenant = $1 and session = any($2::text[]) and erased is not null)`
	makeFeed  = `insert into chat_feeds (tenant, last) values ($1, 0) on conflict do nothing`
	lockFeed  = `select last from chat_feeds where tenant = $1 for update`
	lockRows  = `select i.n, r.revision from unnest($2::text[], $3::text[]) with ordinality as i(channel, chat, n)
join chat_rows r on r.tenant = $1 and r.channel = i.channel and r.chat = i.chat order by r.channel, r.chat for update of r`

	dropRows = `delete from chat_rows r using unnest($2::text[], $3::text[]) as i(channel, chat)
where r.tenant = $1 and r.channel = i.channel and r.chat = i.chat`
	// A row that is there all the same was made by somebody else since it was looked for.
	makeRows = `insert into chat_rows (tenant, channel, chat, revision, session, value)
select $1, i.channel, i.chat, 1, i.session, i.value from unnest($2::text[], $3::text[], $4::text[], $5::bytea[]) as i(channel, chat, session, value)
on conflict do nothing`
	writeRows = `update chat_rows r set revision = r.revision + 1, session = i.session, value = i.value
from unnest($2::text[], $3::text[], $4::text[], $5::bytea[]) as i(channel, chat, session, value)
where r.tenant = $1 and r.channel = i.channel and r.chat = i.chat`
	addEntries = `insert into chat_entries (tenant, number, at, session, value)
select $1, $2::bigint + i.n, i.at, i.session, i.value from unnest($3::bigint[], $4::text[], $5::bytea[]) with ordinality as i(at, session, value, n)`
	endFeed = `update chat_feeds set last = $2 where tenant = $1`
)

// text is false for what PostgreSQL has no text for. Nothing is stored under such a name.
func text[T ~string](name T) bool {
	return utf8.ValidString(string(name)) && strings.IndexByte(string(name), 0) < 0
}

// Save implements chats.Store.
func (c chatStore) Save(ctx context.Context, tenant conversation.TenantID, rows []chats.Row, entries []chats.Entry) error {
	return c.change(ctx, "save chats", func() error {
		if err := chats.Check(tenant, rows, entries); err != nil {
			return err
		}
		good := text(tenant)
		for _, r := range rows {
			good = good && text(r.Channel) && text(r.Chat) && text(r.Session)
		}
		for _, e := range entries {
			good = good && text(e.Session)
		}
		if !good {
			return conversation.Errorf(conversation.BadRequest, "the name of a chat or session is not text")
		}
		return nil
	}, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, c.s.acquiring, func(tx pgx.Tx) error {
			last, err := fits(ctx, tx, tenant, rows, entries)
			if err != nil {
				return err
			}
			return put(ctx, tx, tenant, rows, entries, last)
		})
	})
}

// change runs what writes, as Store.change does.
func (c chatStore) change(ctx context.Context, what string, check func() error, run func(ctx context.Context) error) error {
	return c.s.change(ctx, what, check, run, c.s.chatting)
}

// fits holds what a save compares itself with, and compares. last is the feed's end, if
// there are entries.
func fits(ctx context.Context, tx pgx.Tx, tenant conversation.TenantID, rows []chats.Row, entries []chats.Entry) (last chats.Number, err error) {
	var b pgx.Batch
	erased := false
	if named := namedBy(rows, entries); len(named) > 0 {
		b.Queue(holdNamed, string(tenant), named)
		b.Queue(anyErased, string(tenant), named).QueryRow(func(row pgx.Row) error { return row.Scan(&erased) })
	}
	if len(entries) > 0 {
		b.Queue(makeFeed, string(tenant))
		b.Queue(lockFeed, string(tenant)).QueryRow(func(row pgx.Row) error { return row.Scan(&last) })
	}
	stored := make([]chats.Revision, len(rows))
	if len(rows) > 0 {
		a := columns(rows, func(chats.Row) bool { return true })
		b.Queue(lockRows, string(tenant), a.channels, a.chats).Query(func(found pgx.Rows) error {
			var n int64
			var rev chats.Revision
			_, err := pgx.ForEachRow(found, []any{&n, &rev}, func() error { stored[n-1] = rev; return nil })
			return err
		})
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return 0, err
	}
	if erased {
		return 0, chats.ErrErased
	}
	for i, r := range rows {
		if r.Revision != stored[i] {
			return 0, chats.ErrStale
		}
	}
	return last, nil
}

// namedBy are the sessions that rows and entries name, in their order.
func namedBy(rows []chats.Row, entries []chats.Entry) (names []string) {
	for _, r := range rows {
		names = append(names, string(r.Session))
	}
	for _, e := range entries {
		names = append(names, string(e.Session))
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return n == "" })
}

// rowColumns are rows as a statement takes them.
type rowColumns struct {
	channels, chats, sessions []string
	values                    [][]byte
}

func columns(rows []chats.Row, of func(chats.Row) bool) (a rowColumns) {
	for _, r := range rows {
		if of(r) {
			a.channels, a.chats = append(a.channels, string(r.Channel)), append(a.chats, string(r.Chat))
			a.sessions, a.values = append(a.sessions, string(r.Session)), append(a.values, r.Value)
		}
	}
	return a
}

// put writes what fits.
func put(ctx context.Context, tx pgx.Tx, tenant conversation.TenantID, rows []chats.Row, entries []chats.Entry, last chats.Number) error {
	var b pgx.Batch
	stale := false
	all := func(n int) func(pgconn.CommandTag) error {
		return func(tag pgconn.CommandTag) error { stale = stale || tag.RowsAffected() != int64(n); return nil }
	}
	if gone := columns(rows, func(r chats.Row) bool { return r.Value == nil }); len(gone.chats) > 0 {
		b.Queue(dropRows, string(tenant), gone.channels, gone.chats)
	}
	if fresh := columns(rows, func(r chats.Row) bool { return r.Value != nil && r.Revision == 0 }); len(fresh.chats) > 0 {
		b.Queue(makeRows, string(tenant), fresh.channels, fresh.chats, fresh.sessions, fresh.values).Exec(all(len(fresh.chats)))
	}
	if old := columns(rows, func(r chats.Row) bool { return r.Value != nil && r.Revision > 0 }); len(old.chats) > 0 {
		b.Queue(writeRows, string(tenant), old.channels, old.chats, old.sessions, old.values).Exec(all(len(old.chats)))
	}
	if len(entries) > 0 {
		var at []int64
		var sessions []string
		var values [][]byte
		for _, e := range entries {
			at, sessions, values = append(at, e.At.UnixMilli()), append(sessions, string(e.Session)), append(values, append([]byte{}, e.Value...))
		}
		b.Queue(addEntries, string(tenant), stored(last), at, sessions, values)
		b.Queue(endFeed, string(tenant), stored(last+chats.Number(len(entries))))
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if stale {
		return chats.ErrStale
	}
	return nil
}

// stored is a number as the database has it; none that is stored is as large as the largest.
func stored(n chats.Number) int64 { return int64(min(n, math.MaxInt64)) } //nolint:gosec // see above

// Load implements chats.Store.
func (c chatStore) Load(ctx context.Context, k chats.Key) (chats.Row, error) {
	row := chats.Row{Key: k}
	err := c.s.read(ctx, "chat", func(ctx context.Context) error {
		if !text(k.Tenant) || !text(k.Channel) || !text(k.Chat) {
			return nil
		}
		err := c.s.reading.QueryRow(ctx, "select revision, session, value from chat_rows where tenant = $1 and channel = $2 and chat = $3",
			string(k.Tenant), string(k.Channel), string(k.Chat)).Scan(&row.Revision, &row.Session, &row.Value)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return row, err
}

const rowsOfChannel = `select chat, revision, session, value from chat_rows
where tenant = $1 and channel = $2 and chat >= $3 and (chat > $3 or $4) order by chat limit $5`

// Rows implements chats.Store.
func (c chatStore) Rows(ctx context.Context, tenant conversation.TenantID, channel chats.Channel) iter.Seq2[chats.Row, error] {
	if !text(tenant) || !text(channel) {
		return func(func(chats.Row, error) bool) {}
	}
	last, first := "", true
	return pages(0, func(int) (all []chats.Row, more bool, err error) {
		more, err = c.s.list(ctx, "chats", pageChats, rowsOfChannel, []any{string(tenant), string(channel), last, first}, func() { all = nil }, func(row pgx.CollectableRow) error {
			r := chats.Row{Key: chats.Key{Tenant: tenant, Channel: channel}}
			err := row.Scan(&r.Chat, &r.Revision, &r.Session, &r.Value)
			all = append(all, r)
			return err
		})
		if len(all) > 0 {
			last, first = string(all[len(all)-1].Chat), false
		}
		return all, more, err
	})
}

// Feed implements chats.Store.
func (c chatStore) Feed(ctx context.Context, tenant conversation.TenantID) (chats.Feed, error) {
	f := chats.Feed{First: 1}
	err := c.s.read(ctx, "feed", func(ctx context.Context) error {
		if !text(tenant) {
			return nil
		}
		err := c.s.reading.QueryRow(ctx, `select last, coalesce((select min(number) from chat_entries e where e.tenant = $1), last + 1)
from chat_feeds where tenant = $1`, string(tenant)).Scan(&f.Last, &f.First)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return f, err
}

// Entries implements chats.Store.
func (c chatStore) Entries(ctx context.Context, tenant conversation.TenantID, after chats.Number, limit int) (all []chats.Entry, err error) {
	if !text(tenant) {
		limit, tenant = 0, ""
	}
	for more := true; more; {
		var page []chats.Entry
		n := max(0, min(limit-len(all), pageChats))
		more, err = c.s.list(ctx, "entries", n, "select number, at, session, value from chat_entries where tenant = $1 and number > $2 order by number limit $3",
			[]any{string(tenant), stored(after)}, func() { page = nil }, func(row pgx.CollectableRow) error {
				var e chats.Entry
				var at int64
				err := row.Scan(&e.Number, &at, &e.Session, &e.Value)
				e.At = time.UnixMilli(at).UTC()
				page = append(page, e)
				return err
			})
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(page) == 0 {
			return all, nil
		}
		after = page[len(page)-1].Number
	}
	return all, nil
}

// mostTrimmed is how many entries are dropped at once.
const mostTrimmed = 5000

// Trim implements chats.Store. The oldest entries go first.
func (c chatStore) Trim(ctx context.Context, tenant conversation.TenantID, through chats.Number) error {
	for more := text(tenant); more; {
		err := c.change(ctx, "trim a feed", func() error { return nil }, func(ctx context.Context) error {
			tag, err := c.s.acquiring.Exec(ctx, `delete from chat_entries where tenant = $1 and number = any(
array(select number from chat_entries where tenant = $1 and number <= $2 order by number limit $3))`, string(tenant), stored(through), mostTrimmed)
			more = tag.RowsAffected() == mostTrimmed
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
