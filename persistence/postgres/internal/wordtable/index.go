package wordtable

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation"
	"parley/conversation/search"
	"parley/conversation/wire"
)

// Ways is what Words work with.
type Ways struct {
	// Change runs a transaction that writes, again while it has certainly written nothing and
	// may succeed.
	Change func(ctx context.Context, what string, run func(tx pgx.Tx) error) error
	// Read asks a question, perhaps a second time.
	Read func(ctx context.Context, what string, ask func(ctx context.Context, from *pgxpool.Pool) error) error

	Room  func() error                           // conversation.ErrFull, or nil
	Named func(key conversation.SessionKey) bool // false: the database has no text for its name
}

// Words is a search.Guide.
type Words struct {
	Ways
	turn turn
}

var _ search.Guide = (*Words)(nil)

// New makes Words.
func New(m Ways) *Words { return &Words{Ways: m, turn: newTurn()} }

const (
	// version is the version of what is kept: a session of another one is taken anew. It covers
	// how texts are folded, too.
	version = 2
	// mostTerms is when the words of more texts go into another row.
	mostTerms = 4 << 10
)

// saidOf: $1 tenant, $2 session, $3 version, $4 and $5 a place, $6 the words, $7 how many.
const saidOf = `select t.through, x.message, x.seq, x.at, x.text, x.folded
from sessions s join said_to t on t.session = s.id and t.version = $3
left join lateral (
  select d.* from said d where d.session = s.id and (d.at, d.seq) < ($4, $5)
    and not exists (select from unnest($6::text[]) as w where strpos(d.folded, w) = 0)
  order by d.at desc, d.seq desc limit $7) x on true
where s.tenant = $1 and s.session = $2 and s.erased is null
order by x.at desc, x.seq desc`

// Said implements search.Index.
func (x *Words) Said(ctx context.Context, key conversation.SessionKey, q search.Query, behind search.Place, n int) (all []search.Said, through conversation.Seq, err error) {
	if !x.Named(key) {
		return nil, 0, nil
	}
	err = x.Read(ctx, "said", func(ctx context.Context, from *pgxpool.Pool) error {
		all, through = nil, 0
		rows, err := from.Query(ctx, saidOf, string(key.Tenant), string(key.Session), version, behind.At, int64(behind.Seq), q.Needles(), n)
		if err != nil {
			return err
		}
		var message []byte
		var seq, at, text *int64
		var folded *string
		_, err = pgx.ForEachRow(rows, []any{&through, &message, &seq, &at, &text, &folded}, func() error {
			if seq != nil {
				all = append(all, search.Said{
					Message: conversation.MessageID(message), Seq: conversation.Seq(*seq), At: time.UnixMilli(*at).UTC(),
					Text: conversation.Seq(*text), Folded: *folded,
				})
			}
			return nil
		})
		return err
	})
	return all, through, err
}

const (
	hold    = `select id, summary from sessions where tenant = $1 and session = $2 and erased is null and root for key share`
	beginTo = `insert into said_to as t (session, through, version, open, readers) values ($1, $2, $3, $4, $5)
on conflict (session) do update set through = excluded.through, version = excluded.version, open = excluded.open, readers = excluded.readers
where t.version <> excluded.version or t.through = 0`
	goOnTo = `update said_to set through = $2, open = $4, readers = $5 where session = $1 and version = $3 and through = $6`

	addSaid = `insert into said (session, at, seq, text, message, folded)
select $1, i.* from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[]) as i`
	reword = `update said d set text = i.text, folded = i.folded
from unnest($2::bigint[], $3::bytea[], $4::text[]) as i(text, message, folded) where d.session = $1 and d.message = i.message`
	unsay    = `delete from said where session = $1 and message = any($2::bytea[])`
	addWords = `insert into said_words (session, terms) values ($1, array_to_tsvector($2::text[]))`
)

// Keep implements search.Index.
func (x *Words) Keep(ctx context.Context, key conversation.SessionKey, from conversation.Seq, news search.News) error {
	if !x.Named(key) {
		return nil
	}
	if err := x.Room(); err != nil {
		return err
	}
	return x.Change(ctx, "keep what was said", func(tx pgx.Tx) error {
		var id int64
		var body []byte
		err := tx.QueryRow(ctx, hold, string(key.Tenant), string(key.Session)).Scan(&id, &body)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && body == nil {
			return nil // erased
		}
		if err != nil {
			return err
		}
		sum, err := wire.DecodeSummary(body)
		if err != nil {
			return err
		}
		open, readers := readersOf(sum)
		sql, args := beginTo, []any{id, int64(news.Through), version, open, readers}
		if from != 0 {
			sql, args = goOnTo, append(args, int64(from))
		}
		if tag, err := tx.Exec(ctx, sql, args...); err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return write(ctx, tx, id, from, news)
	})
}

// write writes one news of a session.
func write(ctx context.Context, tx pgx.Tx, id int64, from conversation.Seq, news search.News) error {
	var b pgx.Batch
	if from == 0 { // of another version
		b.Queue("delete from said where session = $1", id)
		b.Queue("delete from said_words where session = $1", id)
	}
	a := columns(news.Said)
	if len(news.Said) > 0 {
		b.Queue(addSaid, id, a.at, a.seq, a.text, a.message, a.folded)
	}
	if a := columns(news.Reworded); len(news.Reworded) > 0 {
		b.Queue(reword, id, a.text, a.message, a.folded)
	}
	if len(news.Unsaid) > 0 {
		gone := make([][]byte, len(news.Unsaid))
		for i, m := range news.Unsaid {
			gone[i] = []byte(m)
		}
		b.Queue(unsay, id, gone)
	}
	for _, row := range words(news) {
		b.Queue(addWords, id, row)
	}
	return tx.SendBatch(ctx, &b).Close()
}

// column has what was said as the parameters of a statement.
type column struct {
	at, seq, text []int64
	message       [][]byte
	folded        []string
}

func columns(all []search.Said) (c column) {
	for _, s := range all {
		c.at, c.seq, c.text = append(c.at, s.At.UnixMilli()), append(c.seq, int64(s.Seq)), append(c.text, int64(s.Text))
		c.message, c.folded = append(c.message, []byte(s.Message)), append(c.folded, s.Folded)
	}
	return c
}

// words are the words of a news, in rows: those of one text are in one. What a text was before
// it was reworded stays, and leads to it in vain.
func words(news search.News) (rows [][]string) {
	var row []string
	has := map[string]bool{}
	end := func() {
		if len(row) > 0 {
			rows = append(rows, row)
		}
		row, has = nil, map[string]bool{}
	}
	for _, some := range [][]search.Said{news.Said, news.Reworded} {
		for _, s := range some {
			search.Terms(s.Folded, func(term string) bool {
				if term = whole(term); !has[term] {
					has[term] = true
					row = append(row, term)
				}
				return true
			})
			if len(row) >= mostTerms {
				end()
			}
		}
	}
	end()
	return rows
}

// whole is a term without the part of a character at its end.
func whole(term string) string { return strings.ToValidUTF8(term, "") }

// readersOf says who may read a session.
func readersOf(s conversation.Summary) (open bool, readers []int64) {
	const nobody = "\x00"
	readers = []int64{reader(s.Owner)}
	for user := range s.Members {
		if s.Reads(user) {
			readers = append(readers, reader(user))
		}
	}
	return s.Reads(nobody), readers
}

func reader(user conversation.UserID) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(user))
	return int64(binary.BigEndian.Uint64(h.Sum(nil))) //nolint:gosec // its bits
}
