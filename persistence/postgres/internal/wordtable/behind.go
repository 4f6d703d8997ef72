package wordtable

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
)

const (
	// A look at all sessions comes as every so-manieth one: what changes in a session without a
	// message does not move it in the list. The others look at what was active of late.
	wholeLook = 150
	recently  = 2 * time.Minute
	// unreadFor is how long a session is left alone that cannot be read.
	unreadFor = 10 * time.Minute
)

// turn is what a node knows of its turns to bring the tables up to the logs.
type turn struct {
	node   string
	mu     sync.Mutex
	looks  int // since the last one at all sessions, which is not done at 0
	unread map[conversation.SessionKey]time.Time
}

func newTurn() turn {
	return turn{node: rand.Text(), unread: map[conversation.SessionKey]time.Time{}}
}

// Follow implements search.Guide: the tables say themselves what is behind.
func (x *Words) Follow() {}

// Whole implements search.Guide.
func (x *Words) Whole() {}

// Unread implements search.Guide.
func (x *Words) Unread(key conversation.SessionKey) {
	x.turn.mu.Lock()
	defer x.turn.mu.Unlock()
	x.turn.unread[key] = time.Now()
}

// isUnread forgets those that were left alone for long enough.
func (t *turn) isUnread(key conversation.SessionKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, is := t.unread[key]
	if is && time.Since(at) > unreadFor {
		delete(t.unread, key)
		return false
	}
	return is
}

const (
	takeTurn = `update said_by set node = $1, until = clock_timestamp() + interval '15 seconds' where node = $1 or until < clock_timestamp()`
	behindOf = `select s.tenant, s.session from sessions s left join said_to t on t.session = s.id
where s.listed is not null and s.listed >= $1 and (t.session is null or t.version <> $2 or t.through < s.last_seq)
order by s.listed limit $3`
)

// Behind implements search.Guide. It names none while it is another node's turn.
func (x *Words) Behind(ctx context.Context, most int) (all []conversation.SessionKey, whole bool, err error) {
	t := &x.turn
	t.mu.Lock()
	looks, left := t.looks, len(t.unread)
	t.mu.Unlock()
	mine, n := false, 0
	err = x.Change(ctx, "look for what is behind", func(tx pgx.Tx) error {
		all, n = nil, 0
		tag, err := tx.Exec(ctx, takeTurn, t.node)
		if mine = err == nil && tag.RowsAffected() > 0; !mine {
			return err
		}
		since := int64(allTime)
		if looks%wholeLook != 0 {
			since = time.Now().Add(-recently).UnixMilli() >> 10
		}
		rows, err := tx.Query(ctx, behindOf, since, version, most+left)
		if err != nil {
			return err
		}
		var key conversation.SessionKey
		_, err = pgx.ForEachRow(rows, []any{&key.Tenant, &key.Session}, func() error {
			if n++; len(all) < most && !t.isUnread(key) {
				all = append(all, key)
			}
			return nil
		})
		return err
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil || !mine:
		t.looks = 0
	case n < most+left || looks%wholeLook != 0:
		t.looks++
	}
	return all, true, err
}
