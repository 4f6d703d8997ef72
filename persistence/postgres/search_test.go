package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/search"
	"parley/persistence/postgres/internal/wordtable"
	"parley/persistence/searchtest"
)

func TestIndexIsTheModel(t *testing.T) {
	fewerChecks(t)
	dsn := prepared(t)
	broom := openOn(t, dsn, nil)
	rapid.Check(t, func(rt *rapid.T) {
		empty(t, broom)
		searchtest.Model(rt, func() searchtest.Kept {
			s, err := Open(t.Context(), StoreOptions{DSN: dsn})
			if err != nil {
				rt.Fatal(err)
			}
			return searchtest.Kept{Store: s, Index: Index(s)}
		}, func(searchtest.Kept) error { return nil })
	})
}

// words has so many sessions, each with a text that has a word of its own.
func words(t *testing.T, s *Store, sessions int) {
	t.Helper()
	for n := range sessions {
		key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%03d", n))}
		h, err := s.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		c := turn(key, &h, time.Now(), fmt.Sprintf("common w%dw", n))
		if err := s.Commit(t.Context(), key, c); err != nil {
			t.Fatal(err)
		}
		var news search.News
		for _, e := range c.Events {
			news.Add(e)
		}
		if err := Index(s).Keep(t.Context(), key, 0, news); err != nil {
			t.Fatal(err)
		}
	}
}

// A search looks rows up in indexes, with the plans that are kept for it.
func TestSearchUsesTheIndexes(t *testing.T) {
	s := openOn(t, prepared(t), nil)
	words(t, s, 200)
	for name, want := range map[string]string{"said": "said_pkey", "window": "sessions_newest", "oneByOne": "said_words", "allAtOnce": "said_words_terms"} {
		ask := wordtable.Questions[name]
		literals := map[string]string{
			"said": `'acme', 's001', 1, 9223372036854775807, 9223372036854775807, array[' w1'], 10`, "window": `'acme', 0, '', false, 1, 7, 100`,
			"oneByOne": `$$'w1':*$$, array[1, 2]`, "allAtOnce": `$$'w1':*$$`,
		}[name]
		var plan []string
		err := s.reading.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
			for _, sql := range []string{"prepare ask_" + name + "(" + ask[1] + ") as " + ask[0], "explain (costs off) execute ask_" + name + "(" + literals + ")"} {
				results, err := c.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
				if err != nil {
					return err
				}
				for _, row := range results[0].Rows {
					plan = append(plan, string(row[0]))
				}
			}
			return nil
		})
		got := strings.Join(plan, "\n")
		if err != nil || !strings.Contains(got, want) || strings.Contains(got, "Seq Scan") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// One node brings the tables up to the logs, until it has been silent for a while; then another
// one looks at all sessions.
func TestOneNodeKeepsTheIndex(t *testing.T) {
	dsn := prepared(t)
	a, b := openOn(t, dsn, nil), openOn(t, dsn, nil)
	words(t, a, 3)
	if _, err := a.acquiring.Exec(t.Context(), "delete from said_to; update sessions set activity = 1, listed = 0"); err != nil {
		t.Fatal(err)
	}
	behind := func(s *Store, want int) {
		t.Helper()
		all, whole, err := Index(s).Behind(t.Context(), 10)
		if err != nil || !whole || len(all) != want {
			t.Errorf("%v are behind, want %d, %v", all, want, err)
		}
	}
	behind(a, 3)
	behind(b, 0)
	behind(a, 0) // none was active of late
	if _, err := a.acquiring.Exec(t.Context(), "update said_by set until = clock_timestamp() - interval '1 second'"); err != nil {
		t.Fatal(err)
	}
	Index(b).Unread(conversation.SessionKey{Tenant: "acme", Session: "s001"})
	behind(b, 2)
	behind(a, 0)
}
