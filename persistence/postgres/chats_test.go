package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/persistence/chatstest"
	"parley/persistence/postgres/pgtest"
)

func TestChats(t *testing.T) {
	dsn := prepared(t)
	chatstest.Run(t, func(t *testing.T) chatstest.Both {
		s := openOn(t, dsn, nil)
		empty(t, s)
		return s
	})
}

func TestChatsAreTheModel(t *testing.T) {
	fewerChecks(t)
	dsn := prepared(t)
	broom := openOn(t, dsn, nil)
	chatstest.RunModel(t, func(rt *rapid.T) (func() chatstest.Both, func(chatstest.Both) error) {
		empty(t, broom)
		return func() chatstest.Both {
			s, err := Open(t.Context(), StoreOptions{DSN: dsn})
			if err != nil {
				rt.Fatalf("open: %v", err)
			}
			return s
		}, nil
	})
}

var chatOfTest = chats.Key{Tenant: "acme", Channel: "telegram", Chat: "telegram:1"}

// chatted saves a row over a revision, and an entry.
func chatted(ctx context.Context, s *Store, chat chats.Chat, over chats.Revision) error {
	key := chatOfTest
	key.Chat = chat
	return s.Chats().Save(ctx, "acme", []chats.Row{{Key: key, Revision: over, Session: "s1", Value: []byte("text")}}, []chats.Entry{{Session: "s1", Value: []byte("text")}})
}

// Two nodes write at once: numbers have no gaps, and who writes over a row that the other
// one has written hears of it.
func TestChatsOfTwoNodes(t *testing.T) {
	dsn := prepared(t)
	nodes := []*Store{openOn(t, dsn, nil), openOn(t, dsn, nil)}
	const writers, saves = 6, 15
	var all sync.WaitGroup
	var written atomic.Int64
	for n := range writers {
		all.Go(func() {
			for over := chats.Revision(0); over < saves; {
				switch err := chatted(t.Context(), nodes[n%2], chats.Chat(fmt.Sprint(n/2)), over); { // two writers have one chat, of different nodes
				case err == nil:
					over++
					written.Add(1)
				case errors.Is(err, chats.ErrStale):
					row, err := nodes[n%2].Chats().Load(t.Context(), chats.Key{Tenant: "acme", Channel: "telegram", Chat: chats.Chat(fmt.Sprint(n / 2))})
					if err != nil {
						t.Error(err)
						return
					}
					over = row.Revision
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := written.Load(); n != writers/2*saves {
		t.Errorf("%d saves were written, want %d", n, writers/2*saves)
	}
	entries, err := nodes[0].Chats().Entries(t.Context(), "acme", 0, 1000)
	if err != nil || len(entries) != writers/2*saves {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, e := range entries {
		if e.Number != chats.Number(i)+1 {
			t.Fatalf("entry %d has the number %d", i, e.Number)
		}
	}
}

// raising has the database refuse writes to chats with a code, so many times.
func raising(t *testing.T, s *Store, code string, times int) {
	t.Helper()
	for _, sql := range []string{
		"drop trigger if exists sick on chat_entries", "drop sequence if exists sick_times", "create sequence sick_times",
		fmt.Sprintf("create or replace function sick() returns trigger language plpgsql as $$ begin if nextval('sick_times') <= %d then raise exception 'sick' using errcode = '%s'; end if; return new; end $$", times, code),
		"create trigger sick before insert on chat_entries for each row execute function sick()",
	} {
		if _, err := s.acquiring.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// What the database says of a save decides whether it is tried again, and what its caller
// hears; refused, it has left nothing.
func TestChatsOutcomes(t *testing.T) {
	s := openOn(t, prepared(t), nil)
	over := chats.Revision(0)
	for _, c := range []struct {
		code  string
		times int
		want  error // nil = none; errAny = none of those that have a meaning
	}{{"40001", 3, nil}, {"40P01", 1, nil}, {"53100", 100, conversation.ErrFull}, {"25006", 1, nil}, {"23514", 1, errAny}, {"XX000", 1, errAny}, {"40001", 100, errAny}} {
		raising(t, s, c.code, c.times)
		err := chatted(t.Context(), s, chatOfTest.Chat, over)
		known := false
		for _, e := range []error{nil, chats.ErrStale, chats.ErrErased, conversation.ErrFull, conversation.ErrClosed} {
			known = known || errors.Is(err, e)
		}
		if errors.Is(c.want, errAny) && known || !errors.Is(c.want, errAny) && !errors.Is(err, c.want) {
			t.Errorf("%s, %d times: %v, want %v", c.code, c.times, err, c.want)
		}
		if err == nil {
			over++
		}
		row, rowErr := s.Chats().Load(t.Context(), chatOfTest)
		feed, feedErr := s.Chats().Feed(t.Context(), "acme")
		if err := errors.Join(rowErr, feedErr); err != nil || row.Revision != over || feed.Last != chats.Number(over) {
			t.Errorf("%s: revision %d, feed %+v, %v", c.code, row.Revision, feed, err)
		}
	}
}

var errAny = errors.New("any")

// A save whose answer does not come is not repeated: its outcome is unknown, and Load says
// what it was.
func TestChatsOutcomeIsUnknown(t *testing.T) {
	server := pgtest.Open(t, pgtest.Settings{})
	dsn := server.NewDatabase(t)
	if _, err := Prepare(t.Context(), dsn, true, nil); err != nil {
		t.Fatal(err)
	}
	s := openOn(t, dsn, func(o *StoreOptions) { o.Patience = 300 * time.Millisecond })
	if err := chatted(t.Context(), s, chatOfTest.Chat, 0); err != nil {
		t.Fatal(err)
	}
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	err := chatted(t.Context(), s, chatOfTest.Chat, 1)
	for _, known := range []error{nil, chats.ErrStale, chats.ErrErased, conversation.ErrFull, conversation.ErrClosed, context.Canceled} {
		if errors.Is(err, known) {
			t.Errorf("a save to a frozen server: %v", err)
		}
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	row, err := s.Chats().Load(t.Context(), chatOfTest)
	for tries := 0; err != nil && tries < 50; tries++ {
		row, err = s.Chats().Load(t.Context(), chatOfTest)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := chatted(t.Context(), s, chatOfTest.Chat, row.Revision); err != nil {
		t.Errorf("over revision %d: %v", row.Revision, err)
	}
}

// What has no text in PostgreSQL is refused by itself, and found nowhere.
func TestChatsNamesThatAreNoText(t *testing.T) {
	s := openOn(t, prepared(t), nil)
	for _, bad := range []string{"a\x00b", "a\xffb"} {
		for what, row := range map[string]chats.Row{
			"channel": {Key: chats.Key{Tenant: "acme", Channel: chats.Channel(bad), Chat: "c"}},
			"chat":    {Key: chats.Key{Tenant: "acme", Channel: "slack", Chat: chats.Chat(bad)}},
			"session": {Key: chats.Key{Tenant: "acme", Channel: "slack", Chat: "c"}, Session: conversation.SessionID(bad)},
		} {
			row.Value = []byte("v")
			err := s.Chats().Save(t.Context(), "acme", []chats.Row{row}, nil)
			if e := new(conversation.Error); !errors.As(err, &e) || e.Code != conversation.BadRequest {
				t.Errorf("%s %q: %v", what, bad, err)
			}
			if got, err := s.Chats().Load(t.Context(), row.Key); err != nil || got.Revision != 0 {
				t.Errorf("%s %q is there: %+v, %v", what, bad, got, err)
			}
		}
		if err := s.Chats().Save(t.Context(), conversation.TenantID(bad), nil, []chats.Entry{{}}); err == nil {
			t.Errorf("an entry of tenant %q was written", bad)
		}
	}
}
