package postgres

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/conversation/blobs"
	"parley/conversation/chats"
	"parley/conversation/member"
	"parley/conversation/wire"
	"parley/persistence/move"
)

// Installation is a store that is carried to another place, or is a new place for one.
func Installation(s *Store) move.Installation { return relocating{s} }

// Living lists the nodes that work with a database, of clusters of any name.
func Living(ctx context.Context, s *Store) (nodes []string, err error) {
	err = s.read(ctx, "members", func(ctx context.Context) error {
		rows, err := s.reading.Query(ctx, "select node from members_now where not dead order by node")
		if err != nil {
			return err
		}
		nodes, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return nodes, err
}

type relocating struct{ *Store }

// eachPage yields the rows behind a place in the order of a list, page by page.
func eachPage[T any](ctx context.Context, s *Store, what, sql string, args func(last *T) []any, scan func(row pgx.CollectableRow) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last *T
		pages(0, func(n int) (all []T, more bool, err error) {
			more, err = s.list(ctx, what, n, sql, args(last), func() { all = nil }, func(row pgx.CollectableRow) error {
				one, err := scan(row)
				all = append(all, one)
				return err
			})
			if len(all) > 0 {
				last = &all[len(all)-1]
			}
			return all, more, err
		})(yield)
	}
}

// behind is the place of a session in lists that are ordered by tenant and name.
func behind(key *conversation.SessionKey) []any {
	if key == nil {
		return []any{"", ""}
	}
	return []any{string(key.Tenant), string(key.Session)}
}

func (r relocating) Everything(ctx context.Context) iter.Seq2[conversation.Summary, error] {
	const sql = `select tenant, session, summary, last_seq from sessions
where (tenant, session) > ($1, $2) and erased is null and summary is not null order by tenant, session limit $3`
	return eachPage(ctx, r.Store, "everything", sql, func(last *conversation.Summary) []any {
		if last == nil {
			return behind(nil)
		}
		return behind(&last.Key)
	}, func(row pgx.CollectableRow) (s conversation.Summary, err error) {
		var key conversation.SessionKey
		var body []byte
		var last conversation.Seq
		if err := row.Scan(&key.Tenant, &key.Session, &body, &last); err != nil {
			return s, err
		}
		s, err = wire.DecodeSummary(body)
		s.Key, s.Last = key, last
		return s, err
	})
}

func (r relocating) Tombstones(ctx context.Context) iter.Seq2[move.Tombstone, error] {
	const sql = `select tenant, session, epoch, erased from sessions
where (tenant, session) > ($1, $2) and erased is not null order by tenant, session limit $3`
	return eachPage(ctx, r.Store, "erased", sql, func(last *move.Tombstone) []any {
		if last == nil {
			return behind(nil)
		}
		return behind(&last.Key)
	}, func(row pgx.CollectableRow) (t move.Tombstone, err error) {
		err = row.Scan(&t.Key.Tenant, &t.Key.Session, &t.Epoch, &t.Erased)
		t.Erased = t.Erased.UTC()
		return t, err
	})
}

func (r relocating) Attached(ctx context.Context, key conversation.SessionKey) iter.Seq2[blobs.Stored, error] {
	const sql = `select b.hash, b.name, b.type, b.size, b.at, b.named from blobs b
where b.session = (select id from sessions where tenant = $1 and session = $2 and erased is null) and b.hash > $3 order by b.hash limit $4`
	return eachPage(ctx, r.Store, "attached", sql, func(last *blobs.Stored) []any {
		from := ""
		if last != nil {
			from = string(last.Hash)
		}
		return []any{string(key.Tenant), string(key.Session), from}
	}, func(row pgx.CollectableRow) (f blobs.Stored, err error) {
		var at int64
		err = row.Scan(&f.Hash, &f.Name, &f.Type, &f.Size, &at, &f.Named)
		f.At = time.UnixMilli(at).UTC().Add(-r.ahead())
		return f, err
	})
}

func (r relocating) Blobs() blobs.Store { return Blobs(r.Store) }

func (r relocating) ReadCursors(ctx context.Context, key conversation.SessionKey) iter.Seq2[conversation.Cursor, error] {
	const sql = `select c.reader, c.seq, c.marks from read_cursors c
where c.session = (select id from sessions where tenant = $1 and session = $2 and erased is null) and c.reader > $3 order by c.reader limit $4`
	return eachPage(ctx, r.Store, "cursors", sql, func(last *conversation.Cursor) []any {
		from := []byte{}
		if last != nil {
			from = []byte(last.User)
		}
		return []any{string(key.Tenant), string(key.Session), from}
	}, func(row pgx.CollectableRow) (c conversation.Cursor, err error) {
		var reader []byte
		err = row.Scan(&reader, &c.Seq, &c.Set)
		c.User = conversation.UserID(reader)
		return c, err
	})
}

func (r relocating) Awaits(ctx context.Context, key conversation.SessionKey) (a move.Awaited, err error) {
	err = r.row(ctx, "awaits", key, `select wake, claim from sessions where tenant = $1 and session = $2 and erased is null`, nil, func(row pgx.Row) error {
		var wake *int64
		var claim []byte
		if err := row.Scan(&wake, &claim); err != nil {
			return err
		}
		if wake != nil {
			a.WakeAt = time.UnixMilli(*wake).UTC()
		}
		if claim == nil {
			return nil
		}
		h, err := wire.DecodeHead(claim)
		a.Claim = h.Claim
		return err
	})
	return a, err
}

// Bury knows of a session whose time of erasure is not known that it is erased now.
func (r relocating) Bury(ctx context.Context, all []move.Tombstone) error {
	return r.alone(ctx, func(tx pgx.Tx) error {
		for _, t := range all {
			if !storable(t.Key) {
				continue // nothing can have its name here
			}
			at := t.Erased
			if at.IsZero() {
				at = time.Now()
			}
			tag, err := tx.Exec(ctx, `insert into sessions as s (tenant, session, epoch, root, stored, erased) values ($1, $2, $3, $4, 0, $5)
on conflict (tenant, session) do update set erased = s.erased where s.erased is not null`,
				string(t.Key.Tenant), string(t.Key.Session), int64(t.Epoch), t.Key.Session.Depth() == 0, at) //nolint:gosec // epochs are small
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return fmt.Errorf("session %s: %w", t.Key, move.ErrDiffers)
			}
		}
		return nil
	})
}

func (r relocating) ChatRows(ctx context.Context) iter.Seq2[chats.Row, error] {
	const sql = `select tenant, channel, chat, revision, session, value from chat_rows
where (tenant, channel, chat) > ($1, $2, $3) or $4 order by tenant, channel, chat limit $5`
	last, first := chats.Key{}, true
	return pages(0, func(int) (all []chats.Row, more bool, err error) {
		args := []any{string(last.Tenant), string(last.Channel), string(last.Chat), first}
		more, err = r.list(ctx, "chats", pageChats, sql, args, func() { all = nil }, func(row pgx.CollectableRow) error {
			var one chats.Row
			err := row.Scan(&one.Tenant, &one.Channel, &one.Chat, &one.Revision, &one.Session, &one.Value)
			all = append(all, one)
			return err
		})
		if len(all) > 0 {
			last, first = all[len(all)-1].Key, false
		}
		return all, more, err
	})
}

func (r relocating) Feeds(ctx context.Context) iter.Seq2[move.FeedEnd, error] {
	const sql = `select tenant, last from chat_feeds where (tenant > $1 or $2) and last > 0 order by tenant limit $3`
	return eachPage(ctx, r.Store, "feeds", sql, func(last *move.FeedEnd) []any {
		if last == nil {
			return []any{"", true}
		}
		return []any{string(last.Tenant), false}
	}, func(row pgx.CollectableRow) (f move.FeedEnd, err error) {
		err = row.Scan(&f.Tenant, &f.Last)
		return f, err
	})
}

// PutRows writes nothing if one row is there and differs.
func (r relocating) PutRows(ctx context.Context, rows []chats.Row) error {
	return r.alone(ctx, func(tx pgx.Tx) error {
		for _, row := range rows {
			if err := lives(ctx, tx, row.Tenant, row.Session); err != nil {
				return err
			}
			// A row that is the same is written over itself.
			tag, err := tx.Exec(ctx, `insert into chat_rows as c (tenant, channel, chat, revision, session, value) values ($1, $2, $3, $4, $5, $6)
on conflict (tenant, channel, chat) do update set value = c.value where (c.revision, c.session, c.value) = ($4, $5, $6)`,
				string(row.Tenant), string(row.Channel), string(row.Chat), int64(row.Revision), string(row.Session), row.Value) //nolint:gosec // revisions are small
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return move.ErrOther
			}
		}
		return nil
	})
}

// PutFeed writes nothing if the feed or one entry is there and differs.
func (r relocating) PutFeed(ctx context.Context, end move.FeedEnd, entries []chats.Entry) error {
	return r.alone(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into chat_feeds as f (tenant, last) values ($1, $2)
on conflict (tenant) do update set last = f.last where f.last = $2`, string(end.Tenant), stored(end.Last))
		if err == nil && tag.RowsAffected() == 0 {
			err = move.ErrOther
		}
		for _, e := range entries {
			if err == nil {
				err = lives(ctx, tx, end.Tenant, e.Session)
			}
			if err != nil {
				return err
			}
			tag, err = tx.Exec(ctx, `insert into chat_entries as c (tenant, number, at, session, value) values ($1, $2, $3, $4, $5)
on conflict (tenant, number) do update set value = c.value where (c.at, c.session, c.value) = ($3, $4, $5)`,
				string(end.Tenant), stored(e.Number), e.At.UnixMilli(), string(e.Session), e.Value)
			if err == nil && tag.RowsAffected() == 0 {
				err = move.ErrOther
			}
		}
		return err
	})
}

// lives is move.ErrOther for an erased session.
func lives(ctx context.Context, tx pgx.Tx, tenant conversation.TenantID, session conversation.SessionID) (err error) {
	gone := false
	if session != "" {
		err = tx.QueryRow(ctx, erasedSession, string(tenant), string(session)).Scan(&gone)
	}
	if err == nil && gone {
		err = move.ErrOther
	}
	return err
}

// Adopt also remembers what this program reads: older ones may not be able to read what comes.
func (r relocating) Adopt(ctx context.Context, log conversation.LogID) error {
	if err := r.alone(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "update store set feature = greatest(feature, $1)", int64(member.Newest))
		return err
	}); err != nil {
		return err
	}
	if log == r.log {
		return nil
	}
	err := r.alone(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "update store set log = $1 where not exists (select from sessions) and not exists (select from chat_rows) and not exists (select from chat_feeds)", string(log))
		if err == nil && tag.RowsAffected() == 0 {
			err = move.ErrOccupied
		}
		return err
	})
	if err == nil {
		r.log = log
	}
	return err
}

// alone runs a transaction.
func (r relocating) alone(ctx context.Context, run func(tx pgx.Tx) error) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer r.running.Done()
	return pgx.BeginFunc(ctx, r.acquiring, run)
}
