package wordtable

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation"
	"parley/conversation/search"
)

// windowOf is the list of the sessions of a tenant, as newestSessions has it: $1 tenant, $2 and
// $3 the cursor, $4 whether there is one, $5 version, $6 user, $7 how many.
const windowOf = `select s.id, s.session, s.activity, coalesce(t.through >= s.last_seq, false),
  t.session is null or t.through < s.last_seq or t.open or t.readers @> array[$6::bigint]
from (
  select s.id, s.session, s.activity, s.last_seq, s.listed from sessions s where s.tenant = $1 and s.listed is not null
    and s.listed <= case when $4 then $2::bigint >> 10 else 9223372036854775807 end
    and (not $4 or s.activity < $2 or s.activity = $2 and s.session > $3)
  order by s.listed desc, s.activity desc, s.session limit $7) s
left join said_to t on t.session = s.id and t.version = $5
order by s.listed desc, s.activity desc, s.session`

const (
	// oneByOne asks some sessions for words, allAtOnce all that there are.
	oneByOne = `select i.id from unnest($2::bigint[]) as i(id)
where exists (select from said_words w where w.session = i.id and w.terms @@ $1::tsquery)`
	allAtOnce = `select distinct w.session from said_words w where w.terms @@ $1::tsquery`

	// mostOneByOne is how many sessions are asked one by one.
	mostOneByOne = 64
)

// Questions are what searches ask, with the types of their parameters, for tests of their plans.
var Questions = map[string][2]string{
	"said": {saidOf, "text, text, smallint, bigint, bigint, text[], int"}, "window": {windowOf, "text, bigint, text, boolean, smallint, bigint, int"},
	"oneByOne": {oneByOne, "text, bigint[]"}, "allAtOnce": {allAtOnce, "text"},
}

// guided is a search that has begun.
type guided struct {
	x     *Words
	query string
	left  []listed
	asked int
	all   map[int64]bool // that have the words; nil = they were not asked for
}

type listed struct {
	search.Candidate
	id   int64
	fits bool // the user may be allowed to read it
}

// Where implements search.Guide. What is kept and the list are of one moment.
func (x *Words) Where(ctx context.Context, tenant conversation.TenantID, user conversation.UserID, q search.Query, cursor string, most int) (w search.Where, ok bool, err error) {
	g := &guided{x: x, query: tsquery(q)}
	w = search.Where{Some: g.some, Left: g.latest}
	if !x.Named(conversation.SessionKey{Tenant: tenant, Session: conversation.SessionID(cursor)}) {
		return w, true, nil
	}
	var ms int64
	name, begun := "", cursor != ""
	if begun {
		at, id, found := strings.Cut(cursor, ".")
		if ms, err = strconv.ParseInt(at, 10, 64); err != nil || !found {
			return w, false, conversation.Errorf(conversation.BadRequest, "the page cursor is not one of this server's")
		}
		name = id
	}
	err = x.Read(ctx, "where", func(ctx context.Context, from *pgxpool.Pool) error {
		g.left = nil
		rows, err := from.Query(ctx, windowOf, string(tenant), ms, name, begun, version, reader(user), most+1)
		if err != nil {
			return err
		}
		var l listed
		_, err = pgx.ForEachRow(rows, []any{&l.id, &l.Session, &l.Latest, &l.Kept, &l.fits}, func() error {
			g.left = append(g.left, l)
			return nil
		})
		return err
	})
	if err != nil {
		return w, false, err
	}
	if len(g.left) > most {
		g.left = g.left[:most]
		last := g.left[most-1]
		w.Next = fmt.Sprintf("%d.%s", last.Latest, last.Session)
	}
	return w, true, nil
}

// tsquery asks for words that begin so, all of them; "" = for none.
func tsquery(q search.Query) string {
	var all []string
	for _, term := range q.Terms() { // of letters and digits alone
		all = append(all, "'"+whole(term)+"':*")
	}
	return strings.Join(all, " & ")
}

// latest implements search.Where.
func (g *guided) latest() (ms int64, ok bool) {
	if len(g.left) == 0 {
		return 0, false
	}
	return g.left[0].Latest, true
}

// some implements search.Where.
func (g *guided) some(ctx context.Context, n int) (all []search.Candidate, err error) {
	part := g.left[:min(n, len(g.left))]
	g.left = g.left[len(part):]
	has := g.all
	if g.query != "" && has == nil {
		var ids []int64
		for _, l := range part {
			if l.fits && l.Kept {
				ids = append(ids, l.id)
			}
		}
		sql, args := oneByOne, []any{g.query, ids}
		if g.asked += len(ids); g.asked > mostOneByOne {
			sql, args = allAtOnce, args[:1]
		}
		if len(ids) > 0 {
			if has, err = g.ask(ctx, sql, args); err != nil {
				return nil, err
			}
		}
		if g.asked > mostOneByOne {
			g.all = has
		}
	}
	for _, l := range part {
		if l.fits && (!l.Kept || g.query == "" || has[l.id]) {
			all = append(all, l.Candidate)
		}
	}
	return all, nil
}

// ask reads ids of sessions.
func (g *guided) ask(ctx context.Context, sql string, args []any) (has map[int64]bool, err error) {
	err = g.x.Read(ctx, "words", func(ctx context.Context, from *pgxpool.Pool) error {
		has = map[int64]bool{}
		rows, err := from.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error { has[id] = true; return nil })
		return err
	})
	return has, err
}

// allTime is before the activity of all sessions.
const allTime = math.MinInt64
