package chatstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
)

// Both is a store of sessions with what channels remember.
type Both interface {
	conversation.Store
	Chats() chats.Store
}

// Run proves a store. open makes an empty one for each sub-test and closes it with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Both) {
	for _, c := range []struct {
		name string
		run  func(*fixture)
	}{
		{"a row that is not there", absentRow},
		{"revisions count the writes of a row", revisions},
		{"all rows and entries or none", allOrNothing},
		{"nil deletes a row, and an empty value does not", deletes},
		{"entries are numbered without gaps", numbers},
		{"numbers of writers at once", numbersAtOnce},
		{"one of those wins that have read the same revision", oneWins},
		{"how far a feed goes", feedEnds},
		{"entries after a number", entriesAfter},
		{"a long feed", longFeed},
		{"rows in the order of their chats", rowsInOrder},
		{"a loop over rows may write", writingLoop},
		{"what names an erased session is refused", refusesErased},
		{"an erasure takes rows and entries along", erases},
		{"a row that has gone to another session stays", erasesByTheStoredSession},
		{"an erasure of many entries", erasesMany},
		{"an erasure beside writers", eraseBesideWriters},
		{"A-38 tenants never meet", tenantsNeverMeet},
		{"what is too large or wrong is refused", refusesWrong},
		{"bytes and times come back", comesBack},
		{"a context that has ended", endedContext},
		{"a closed store", closedStore},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.run(&fixture{T: t, store: s, Store: s.Chats()})
		})
	}
}

// fixture is a store with short words for what the tests do to it.
type fixture struct {
	*testing.T
	chats.Store
	store conversation.Store
}

const (
	acme = conversation.TenantID("acme")
	zeus = conversation.TenantID("zeus")
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func chat(name chats.Chat) chats.Key { return chats.Key{Tenant: acme, Channel: "telegram", Chat: name} }

// row is one to be saved over a revision.
func row(name chats.Chat, over chats.Revision, session conversation.SessionID, value string) chats.Row {
	return chats.Row{Key: chat(name), Revision: over, Session: session, Value: []byte(value)}
}

// said are entries of a session, one for each text.
func said(session conversation.SessionID, texts ...string) (all []chats.Entry) {
	for _, text := range texts {
		all = append(all, chats.Entry{At: noon, Session: session, Value: []byte(text)})
	}
	return all
}

// save saves what must be possible.
func (f *fixture) save(rows []chats.Row, entries []chats.Entry) {
	f.Helper()
	if err := f.Save(f.Context(), acme, rows, entries); err != nil {
		f.Fatal(err)
	}
}

// refused saves what must not be possible, and sees that nothing changes.
func (f *fixture) refused(want error, rows []chats.Row, entries []chats.Entry) {
	f.Helper()
	before := f.all()
	err := f.Save(f.Context(), acme, rows, entries)
	if want == nil && err == nil || want != nil && !errors.Is(err, want) {
		f.Errorf("%v, want %v", err, want)
	}
	if after := f.all(); after != before {
		f.Errorf("refused with %v, and yet it is\n%s\nand was\n%s", err, after, before)
	}
}

// all is everything there is of both tenants.
func (f *fixture) all() string {
	f.Helper()
	var b strings.Builder
	for _, tenant := range []conversation.TenantID{acme, zeus} {
		for _, channel := range []chats.Channel{"discord", "slack", "telegram"} {
			for _, r := range f.rows(tenant, channel) {
				fmt.Fprintf(&b, "%s %s %s: %d %s %s\n", r.Tenant, r.Channel, r.Chat, r.Revision, r.Session, r.Value)
			}
		}
		fmt.Fprintf(&b, "%+v %s\n", f.feed(tenant), f.texts(tenant))
	}
	return b.String()
}

func (f *fixture) rows(tenant conversation.TenantID, channel chats.Channel) (all []chats.Row) {
	f.Helper()
	for r, err := range f.Rows(f.Context(), tenant, channel) {
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func (f *fixture) load(name chats.Chat) chats.Row {
	f.Helper()
	r, err := f.Load(f.Context(), chat(name))
	if err != nil {
		f.Fatal(err)
	}
	return r
}

func (f *fixture) feed(tenant conversation.TenantID) chats.Feed {
	f.Helper()
	got, err := f.Feed(f.Context(), tenant)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

func (f *fixture) entries(tenant conversation.TenantID, after chats.Number, limit int) []chats.Entry {
	f.Helper()
	all, err := f.Entries(f.Context(), tenant, after, limit)
	if err != nil {
		f.Fatal(err)
	}
	return all
}

// texts are the entries of a tenant, as "1=text 2=text".
func (f *fixture) texts(tenant conversation.TenantID) string {
	f.Helper()
	return texts(f.entries(tenant, 0, math.MaxInt32))
}

func texts(entries []chats.Entry) string {
	var b []string
	for _, e := range entries {
		b = append(b, fmt.Sprintf("%d=%s", e.Number, e.Value))
	}
	return strings.Join(b, " ")
}

func (f *fixture) wantTexts(want string) {
	f.Helper()
	if got := f.texts(acme); got != want {
		f.Errorf("the feed has %q, want %q", got, want)
	}
}

func (f *fixture) wantFeed(first, last chats.Number) {
	f.Helper()
	if got := f.feed(acme); got != (chats.Feed{First: first, Last: last}) {
		f.Errorf("the feed goes from %d to %d, want %d to %d", got.First, got.Last, first, last)
	}
}

func (f *fixture) wantRow(name chats.Chat, rev chats.Revision, session conversation.SessionID, value string) {
	f.Helper()
	if got, want := f.load(name), row(name, rev, session, value); !reflect.DeepEqual(got, want) {
		f.Errorf("%+v, want %+v", got, want)
	}
}

func (f *fixture) wantNoRow(name chats.Chat) {
	f.Helper()
	if got := f.load(name); !reflect.DeepEqual(got, chats.Row{Key: chat(name)}) {
		f.Errorf("there is %+v", got)
	}
}

// made makes sessions.
func (f *fixture) made(tenant conversation.TenantID, ids ...conversation.SessionID) {
	f.Helper()
	for _, id := range ids {
		if _, err := f.store.Acquire(f.Context(), conversation.SessionKey{Tenant: tenant, Session: id}, conversation.AcquireHow{Create: true}); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fixture) erase(tenant conversation.TenantID, id conversation.SessionID) {
	f.Helper()
	if err := f.store.Delete(f.Context(), conversation.SessionKey{Tenant: tenant, Session: id}); err != nil {
		f.Fatal(err)
	}
}

func absentRow(f *fixture) {
	f.wantNoRow("telegram:1")
	f.wantNoRow("")
	if all := f.rows(acme, "telegram"); len(all) > 0 {
		f.Errorf("an empty channel has %v", all)
	}
}

func revisions(f *fixture) {
	f.refused(chats.ErrStale, []chats.Row{row("a", 1, "", "first")}, nil)
	f.save([]chats.Row{row("a", 0, "", "first")}, nil)
	f.wantRow("a", 1, "", "first")
	f.refused(chats.ErrStale, []chats.Row{row("a", 0, "", "again")}, nil)
	f.refused(chats.ErrStale, []chats.Row{row("a", 2, "", "ahead")}, nil)
	f.save([]chats.Row{row("a", 1, "s1", "second")}, nil)
	f.wantRow("a", 2, "s1", "second")
	f.refused(chats.ErrStale, []chats.Row{row("a", 1, "s1", "late")}, nil)
	f.save([]chats.Row{row("a", 2, "s1", "second")}, nil) // a write all the same
	f.wantRow("a", 3, "s1", "second")
	f.save([]chats.Row{row("", 0, "", "of the channel itself")}, nil)
	f.wantRow("", 1, "", "of the channel itself")
}

func allOrNothing(f *fixture) {
	f.save([]chats.Row{row("a", 0, "", "1"), row("b", 0, "", "1")}, said("", "one"))
	f.save([]chats.Row{row("b", 1, "", "2")}, nil)
	fresh := row("a new one", 0, "", "1")
	for _, rows := range [][]chats.Row{
		{row("a", 1, "", "x"), row("b", 1, "", "x"), fresh}, {row("b", 1, "", "x"), row("a", 1, "", "x")},
		{fresh, row("a", 1, "", "x"), row("c", 7, "", "x")}, {fresh, {Key: chat("a"), Revision: 1}, row("b", 0, "", "x")},
		{row("a", 1, "", "x"), {Key: chat("b"), Revision: 1}},
	} {
		f.refused(chats.ErrStale, rows, said("", "never"))
	}
	f.save([]chats.Row{row("a", 1, "", "2"), row("b", 2, "", "3"), fresh}, said("", "two", "three"))
	f.wantRow("a", 2, "", "2")
	f.wantRow("b", 3, "", "3")
	f.wantRow("a new one", 1, "", "1")
	f.wantTexts("1=one 2=two 3=three")
	f.save(nil, nil)
	f.wantFeed(1, 3)
}

func deletes(f *fixture) {
	f.save([]chats.Row{row("a", 0, "s1", "1"), row("b", 0, "", "1")}, nil)
	f.refused(chats.ErrStale, []chats.Row{{Key: chat("a")}}, nil)
	f.save([]chats.Row{{Key: chat("a"), Revision: 1}, row("b", 1, "", "2")}, nil)
	f.wantNoRow("a")
	f.wantRow("b", 2, "", "2")
	if all := f.rows(acme, "telegram"); len(all) != 1 || all[0].Chat != "b" {
		f.Errorf("listed: %v", all)
	}
	f.refused(chats.ErrStale, []chats.Row{{Key: chat("a"), Revision: 1}}, nil)
	f.save([]chats.Row{{Key: chat("a")}}, nil) // it is not there, as was read
	f.wantNoRow("a")
	f.save([]chats.Row{row("a", 0, "", "new")}, nil)
	f.wantRow("a", 1, "", "new")
	f.save([]chats.Row{row("a", 1, "", "")}, nil)
	f.wantRow("a", 2, "", "")
	f.save([]chats.Row{row("a", 2, "", "more")}, nil)
	f.wantRow("a", 3, "", "more")
}

func numbers(f *fixture) {
	f.save(nil, said("", "one"))
	f.save([]chats.Row{row("a", 0, "", "1")}, said("s1", "two", "three"))
	f.refused(chats.ErrStale, []chats.Row{row("a", 0, "", "1")}, said("s1", "never"))
	if err := f.Save(f.Context(), zeus, nil, said("", "another tenant's first")); err != nil {
		f.Fatal(err)
	}
	named := said("", "four")
	named[0].Number = 77 // it is the store that gives numbers
	f.save(nil, named)
	f.wantTexts("1=one 2=two 3=three 4=four")
	if got := f.texts(zeus); got != "1=another tenant's first" {
		f.Errorf("the other tenant has %q", got)
	}
	if named[0].Number != 77 {
		f.Errorf("the caller's entry was changed to %d", named[0].Number)
	}
}

// Whoever writes at the same time: numbers follow each other, those of one Save without
// another one's between them, and a reader sees them in order.
func numbersAtOnce(f *fixture) {
	const writers, each = 8, 20
	var wg, reading sync.WaitGroup
	errs := make(chan error, writers+1)
	done := make(chan struct{})
	reading.Go(func() {
		for seen := chats.Number(0); ; {
			stop := false
			select {
			case <-done:
				stop = true
			default:
			}
			next, err := f.Entries(f.Context(), acme, seen, 10)
			if err != nil {
				errs <- err
				return
			}
			for _, e := range next {
				if e.Number != seen+1 {
					errs <- fmt.Errorf("a reader has seen %d behind %d", e.Number, seen)
					return
				}
				seen = e.Number
			}
			if stop {
				return
			}
		}
	})
	for w := range writers {
		wg.Go(func() {
			name := chats.Chat(fmt.Sprint("chat", w))
			for n := range each {
				var texts []string
				for i := range 1 + (n+w)%3 {
					texts = append(texts, fmt.Sprintf("%d/%d/%d", w, n, i))
				}
				if err := f.Save(f.Context(), acme, []chats.Row{row(name, chats.Revision(n), "", "x")}, said("", texts...)); err != nil {
					errs <- fmt.Errorf("writer %d, save %d: %w", w, n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(done)
	reading.Wait()
	close(errs)
	for err := range errs {
		f.Fatal(err)
	}
	saves := [writers]int{}
	for all := f.entries(acme, 0, math.MaxInt32); len(all) > 0; {
		var w, n, i int
		if _, err := fmt.Sscanf(string(all[0].Value), "%d/%d/%d", &w, &n, &i); err != nil || i != 0 || n != saves[w] {
			f.Fatalf("entry %d is %s", all[0].Number, all[0].Value)
		}
		saves[w]++
		for i := range 1 + (n+w)%3 {
			if got, want := string(all[0].Value), fmt.Sprintf("%d/%d/%d", w, n, i); got != want {
				f.Fatalf("entry %d is %s, want %s", all[0].Number, got, want)
			}
			all = all[1:]
		}
	}
	for w, n := range saves {
		if n != each {
			f.Errorf("of writer %d there are %d saves", w, n)
		}
		f.wantRow(chats.Chat(fmt.Sprint("chat", w)), each, "", "x")
	}
}

func oneWins(f *fixture) {
	const rivals = 6
	for round := range chats.Revision(10) {
		var wg sync.WaitGroup
		won := make(chan string, rivals)
		for n := range rivals {
			wg.Go(func() {
				who := fmt.Sprintf("%d/%d", round, n)
				rows := []chats.Row{row("shared", round, "", who), row(chats.Chat(who), 0, "", "own")}
				if n%2 == 0 {
					slices.Reverse(rows)
				}
				err := f.Save(f.Context(), acme, rows, said("", who))
				switch {
				case err == nil:
					won <- who
				case !errors.Is(err, chats.ErrStale):
					f.Errorf("%s: %v", who, err)
				}
			})
		}
		wg.Wait()
		close(won)
		winner := <-won
		if more, ok := <-won; ok || winner == "" {
			f.Fatalf("round %d was won by %q and %q", round, winner, more)
		}
		f.wantRow("shared", round+1, "", winner)
		f.wantRow(chats.Chat(winner), 1, "", "own")
		f.wantFeed(1, chats.Number(round)+1)
		if last := f.entries(acme, chats.Number(round), 1); texts(last) != fmt.Sprintf("%d=%s", round+1, winner) {
			f.Errorf("round %d: the feed ends with %s", round, texts(last))
		}
	}
	if n := len(f.rows(acme, "telegram")); n != 11 {
		f.Errorf("there are %d rows", n)
	}
}

func (f *fixture) trim(through chats.Number) {
	f.Helper()
	if err := f.Trim(f.Context(), acme, through); err != nil {
		f.Fatal(err)
	}
}

func feedEnds(f *fixture) {
	f.wantFeed(1, 0)
	f.trim(5) // there is nothing
	f.wantFeed(1, 0)
	f.save(nil, said("", "one", "two", "three", "four"))
	f.wantFeed(1, 4)
	f.trim(0)
	f.wantFeed(1, 4)
	f.trim(2)
	f.wantFeed(3, 4)
	f.trim(1) // they are gone
	f.trim(2)
	f.wantFeed(3, 4)
	f.wantTexts("3=three 4=four")
	f.trim(9)
	f.wantFeed(5, 4)
	f.wantTexts("")
	f.save(nil, said("", "five")) // it was not there when it was trimmed
	f.wantFeed(5, 5)
	f.wantTexts("5=five")
	f.trim(math.MaxUint64)
	f.wantFeed(6, 5)
}

func entriesAfter(f *fixture) {
	f.made(acme, "gone")
	f.save(nil, said("", "one", "two"))
	f.save(nil, said("gone", "three"))
	f.save(nil, said("", "four", "five"))
	f.erase(acme, "gone")
	for _, c := range []struct {
		after chats.Number
		limit int
		want  string
	}{
		{0, 10, "1=one 2=two 4=four 5=five"}, {0, 2, "1=one 2=two"}, {0, 3, "1=one 2=two 4=four"}, {2, 1, "4=four"}, {3, 1, "4=four"},
		{1, math.MaxInt, "2=two 4=four 5=five"}, {4, 5, "5=five"}, {5, 5, ""}, {6, 5, ""}, {math.MaxUint64, 5, ""}, {0, 0, ""}, {2, 0, ""}, {0, -1, ""},
	} {
		if got := texts(f.entries(acme, c.after, c.limit)); got != c.want {
			f.Errorf("after %d, at most %d: %q, want %q", c.after, c.limit, got, c.want)
		}
	}
}

// longFeed is one that no store reads or trims at once.
func longFeed(f *fixture) {
	const n = 6000
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprint(i+1))
	}
	for some := range slices.Chunk(texts, 1500) {
		f.save(nil, said("", some...))
	}
	whole := func(after chats.Number, limit, want int) {
		f.Helper()
		all := f.entries(acme, after, limit)
		if len(all) != want {
			f.Fatalf("after %d, at most %d: %d entries, want %d", after, limit, len(all), want)
		}
		for i, e := range all {
			if number := after + chats.Number(i) + 1; e.Number != number || string(e.Value) != fmt.Sprint(number) {
				f.Fatalf("entry %d is %d: %s", i, e.Number, e.Value)
			}
		}
	}
	whole(0, n+1, n)
	whole(100, 1000, 1000)
	f.trim(n - 500)
	f.wantFeed(n-499, n)
	whole(n-500, n, 500)
}

// rowsInOrder has more rows than a store reads at once, and names that are easily mixed up.
func rowsInOrder(f *fixture) {
	names := []chats.Chat{"", "Z", "a", "a ", "a:1", "a:10", "a:2", "ab", "b", "z", "ä", "\U0001F600"}
	for n := range 300 {
		names = append(names, chats.Chat(fmt.Sprintf("telegram:%03d", n)))
	}
	slices.Sort(names)
	var rows []chats.Row
	for _, n := range names {
		rows = append(rows, row(n, 0, "", "of "+string(n)))
	}
	for _, other := range []chats.Channel{"telegra", "telegram2", "Telegram", "slack"} {
		r := row("a", 0, "", "of "+string(other))
		r.Channel = other
		rows = append(rows, r)
	}
	shuffled := slices.Clone(rows)
	slices.Reverse(shuffled)
	f.save(shuffled, nil)
	for i, r := range f.rows(acme, "telegram") {
		want := rows[i]
		want.Revision = 1
		if !reflect.DeepEqual(r, want) {
			f.Fatalf("row %d is %+v, want %+v", i, r, want)
		}
	}
	if n := len(f.rows(acme, "telegram")); n != len(names) {
		f.Errorf("%d rows, want %d", n, len(names))
	}
	if all := f.rows(acme, "slack"); len(all) != 1 || string(all[0].Value) != "of slack" {
		f.Errorf("the other channel has %+v", all)
	}
	if all := f.rows(zeus, "telegram"); len(all) > 0 {
		f.Errorf("the other tenant has %+v", all)
	}
}

func writingLoop(f *fixture) {
	for n := range 70 {
		f.save([]chats.Row{row(chats.Chat(fmt.Sprintf("c%02d", n)), 0, "", "1")}, nil)
	}
	n := 0
	for r, err := range f.Rows(f.Context(), acme, "telegram") {
		if err != nil {
			f.Fatal(err)
		}
		r.Value = []byte("2")
		f.save([]chats.Row{r}, nil)
		n++
		if r.Chat == "c65" {
			break
		}
	}
	if n != 66 || f.load("c65").Revision != 2 || f.load("c66").Revision != 1 {
		f.Errorf("%d rows until c65", n)
	}
}

func refusesErased(f *fixture) {
	f.made(acme, "gone", "s1")
	f.made(zeus, "s1")
	f.save([]chats.Row{row("a", 0, "gone", "1"), row("b", 0, "s1", "1")}, said("gone", "one"))
	f.erase(acme, "gone")
	f.erase(zeus, "s1") // another tenant's of the same id
	for _, rows := range [][]chats.Row{
		{row("a", 0, "gone", "again")}, {row("a", 1, "gone", "and stale")}, {row("b", 1, "s1", "2"), row("c", 0, "gone", "1")}, {row("b", 1, "gone", "2")},
		{row("b", 7, "s1", "stale"), row("c", 0, "gone", "1")}, {{Key: chat("b"), Revision: 1, Session: "gone"}},
	} {
		f.refused(chats.ErrErased, rows, said("s1", "never"))
	}
	f.refused(chats.ErrErased, []chats.Row{row("b", 1, "s1", "2")}, append(said("s1", "never"), said("gone", "never")...))
	f.refused(chats.ErrErased, []chats.Row{row("b", 7, "s1", "stale")}, said("gone", "never"))
	f.save([]chats.Row{row("b", 1, "s1", "2"), row("a", 0, "not there yet", "1")}, said("not there yet", "two"))
	f.wantTexts("2=two")
	f.made(acme, "not there yet")
	f.erase(acme, "not there yet")
	f.wantTexts("")
	f.wantNoRow("a")
	f.wantRow("b", 2, "s1", "2")
}

func erases(f *fixture) {
	f.made(acme, "gone", "gone/d1", "stays", "gone2", "gon")
	slack := row("a", 0, "gone", "in slack")
	slack.Channel = "slack"
	f.save([]chats.Row{row("a", 0, "gone", "1"), row("b", 0, "stays", "1"), row("c", 0, "gone", "1"), row("d", 0, "", "1"), row("e", 0, "gone2", "1"), row("f", 0, "gon", "1"), slack},
		slices.Concat(said("gone", "one"), said("stays", "two"), said("", "three"), said("gone2", "four"), said("gone", "five"), said("gon", "six"), said("gone", "seven")))
	f.erase(acme, "gone/d1") // what is below takes nothing along
	f.wantFeed(1, 7)
	f.erase(acme, "gone")
	f.wantTexts("2=two 3=three 4=four 6=six")
	f.wantFeed(2, 7)
	f.wantNoRow("a")
	f.wantNoRow("c")
	if all := f.rows(acme, "slack"); len(all) > 0 {
		f.Errorf("slack has %v", all)
	}
	var left []string
	for _, r := range f.rows(acme, "telegram") {
		left = append(left, string(r.Chat))
	}
	if got := strings.Join(left, " "); got != "b d e f" {
		f.Errorf("left are %s", got)
	}
	f.save([]chats.Row{row("a", 0, "gone_2", "anew")}, said("gone_2", "eight"))
	f.wantRow("a", 1, "gone_2", "anew")
	f.wantTexts("2=two 3=three 4=four 6=six 8=eight")
	for _, id := range []conversation.SessionID{"stays", "gone2", "gon"} {
		f.erase(acme, id)
	}
	f.wantTexts("3=three 8=eight")
	f.trim(3)
	f.wantFeed(8, 8)
	f.trim(8)
	f.wantFeed(9, 8)
}

func erasesByTheStoredSession(f *fixture) {
	f.made(acme, "before", "now")
	f.save([]chats.Row{row("a", 0, "before", "1"), row("b", 0, "now", "1"), row("c", 0, "before", "1"), row("d", 0, "before", "1")}, nil)
	f.save([]chats.Row{row("a", 1, "now", "2"), row("b", 1, "before", "2"), row("c", 1, "", "2"), {Key: chat("d"), Revision: 1, Session: "before"}}, nil)
	f.save([]chats.Row{row("d", 0, "now", "anew")}, nil)
	f.erase(acme, "before")
	f.wantRow("a", 2, "now", "2")
	f.wantNoRow("b")
	f.wantRow("c", 2, "", "2")
	f.wantRow("d", 1, "now", "anew")
	f.erase(acme, "now")
	f.wantNoRow("a")
	f.wantNoRow("d")
	f.wantRow("c", 2, "", "2")
}

// erasesMany is of more than a store deletes one by one.
func erasesMany(f *fixture) {
	f.made(acme, "gone")
	var texts []string
	for i := range 2500 {
		texts = append(texts, fmt.Sprint(i))
	}
	f.save(nil, said("", "first"))
	f.save(nil, said("gone", texts...))
	f.save([]chats.Row{row("a", 0, "gone", "1")}, said("gone", texts...))
	f.save(nil, said("", "last"))
	f.erase(acme, "gone")
	f.wantTexts("1=first 5002=last")
	f.wantNoRow("a")
}

// eraseBesideWriters: whichever comes first, nothing that names the session is left, and
// what has gone to another session is where it was written.
func eraseBesideWriters(f *fixture) {
	const rounds = 12
	for n := range rounds {
		gone, next := conversation.SessionID(fmt.Sprint("gone", n)), conversation.SessionID(fmt.Sprint("next", n))
		name := func(what string) chats.Chat { return chats.Chat(fmt.Sprint(what, n)) }
		f.made(acme, gone)
		f.save([]chats.Row{row(name("moves"), 0, gone, "1"), row(name("stays"), 0, gone, "1")}, said(gone, "before"))
		last := f.feed(acme).Last
		var wg sync.WaitGroup
		var moved, written error
		begin := make(chan struct{})
		for _, do := range []func(){
			func() {
				if err := f.store.Delete(f.Context(), conversation.SessionKey{Tenant: acme, Session: gone}); err != nil {
					f.Error(err)
				}
			},
			func() {
				moved = f.Save(f.Context(), acme, []chats.Row{row(name("moves"), 1, next, "2")}, said(next, "moved"))
			},
			func() {
				written = f.Save(f.Context(), acme, []chats.Row{row(name("stays"), 1, gone, "2"), row(name("new"), 0, gone, "1")}, said(gone, "during"))
			},
			func() { _ = f.Save(f.Context(), acme, nil, said("", "beside")) },
		} {
			wg.Go(func() { <-begin; do() })
		}
		close(begin)
		wg.Wait()
		switch {
		case moved == nil:
			f.wantRow(name("moves"), 2, next, "2")
		case errors.Is(moved, chats.ErrStale):
			f.wantNoRow(name("moves"))
		default:
			f.Errorf("round %d: the row that moves: %v", n, moved)
		}
		if written != nil && !errors.Is(written, chats.ErrErased) {
			f.Errorf("round %d: the row that stays: %v", n, written)
		}
		f.wantNoRow(name("stays"))
		f.wantNoRow(name("new"))
		for _, e := range f.entries(acme, last-1, 10) {
			if e.Session == gone {
				f.Errorf("round %d: entry %d is left: %s", n, e.Number, e.Value)
			}
		}
		want := last + 1
		for _, err := range []error{moved, written} {
			if err == nil {
				want++
			}
		}
		if got := f.feed(acme).Last; got != want {
			f.Errorf("round %d: the feed ends with %d, want %d", n, got, want)
		}
	}
}

func tenantsNeverMeet(f *fixture) {
	f.made(acme, "s1")
	f.made(zeus, "s1")
	other := func(r chats.Row) chats.Row { r.Tenant = zeus; return r }
	f.save([]chats.Row{row("a", 0, "s1", "acme's")}, said("s1", "acme's"))
	if err := f.Save(f.Context(), zeus, []chats.Row{other(row("a", 0, "s1", "zeus'"))}, said("s1", "zeus'", "zeus' second")); err != nil {
		f.Fatal(err)
	}
	before := f.all()
	for _, rows := range [][]chats.Row{{other(row("a", 1, "s1", "x"))}, {row("a", 1, "s1", "x"), other(row("b", 0, "s1", "x"))}} {
		f.refused(nil, rows, nil)
	}
	if err := f.Save(f.Context(), zeus, []chats.Row{row("a", 1, "s1", "x")}, said("s1", "x")); err == nil {
		f.Error("the row of another tenant was written")
	}
	if got := f.all(); got != before {
		f.Errorf("it is\n%s\nand was\n%s", got, before)
	}
	f.wantTexts("1=acme's")
	if got := f.texts(zeus); got != "1=zeus' 2=zeus' second" {
		f.Errorf("zeus has %q", got)
	}
	f.trim(9)
	if got := f.feed(zeus); got != (chats.Feed{First: 1, Last: 2}) {
		f.Errorf("zeus' feed is %+v", got)
	}
	f.erase(acme, "s1")
	f.wantNoRow("a")
	if all := f.rows(zeus, "telegram"); len(all) != 1 || string(all[0].Value) != "zeus'" || all[0].Tenant != zeus {
		f.Errorf("zeus has %+v", all)
	}
	if got := f.texts(zeus); got != "1=zeus' 2=zeus' second" {
		f.Errorf("zeus has %q", got)
	}
	for _, tenant := range []conversation.TenantID{"", "acm", "acme2", "ACME", "acme\x00"} {
		if got := f.feed(tenant); got != (chats.Feed{First: 1}) || len(f.rows(tenant, "telegram")) > 0 || f.texts(tenant) != "" {
			f.Errorf("tenant %q has something", tenant)
		}
	}
}

func refusesWrong(f *fixture) {
	most := strings.Repeat("x", chats.MaxValue)
	f.save([]chats.Row{row("a", 0, "", most)}, said("", most))
	f.wantRow("a", 1, "", most)
	f.wantTexts("1=" + most)
	for what, c := range map[string]struct {
		rows    []chats.Row
		entries []chats.Entry
	}{
		"a row that is too large":      {[]chats.Row{row("b", 0, "", "1"), row("a", 1, "", most+"x")}, said("", "never")},
		"an entry that is too large":   {[]chats.Row{row("b", 0, "", "1")}, said("", "never", most+"x")},
		"a row that comes twice":       {[]chats.Row{row("b", 0, "", "1"), row("b", 0, "", "2")}, said("", "never")},
		"a row that comes twice later": {[]chats.Row{row("b", 0, "", "1"), row("b", 1, "", "2")}, nil},
		"the row of a sub-session":     {[]chats.Row{row("b", 0, "s1/d1", "1")}, nil},
		"the entry of a sub-session":   {nil, said("s1/d1", "never")},
	} {
		before := f.all()
		err := f.Save(f.Context(), acme, c.rows, c.entries)
		if e := new(conversation.Error); !errors.As(err, &e) || e.Code != conversation.BadRequest && e.Code != conversation.TooLarge {
			f.Errorf("%s: %v", what, err)
		}
		if f.all() != before {
			f.Errorf("%s was written", what)
		}
	}
}

func comesBack(f *fixture) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	value := bytes.Clone(every)
	f.save([]chats.Row{{Key: chat("a"), Session: "s1", Value: value}}, nil)
	at := map[chats.Number]time.Time{
		1: noon.Add(1234567 * time.Nanosecond), 2: {}, 3: time.Date(1969, 7, 20, 20, 17, 40, 0, time.FixedZone("", 3600)), 4: noon,
	}
	for _, n := range slices.Sorted(maps.Keys(at)) {
		f.save(nil, []chats.Entry{{At: at[n], Session: "s1", Value: value}})
	}
	f.save(nil, []chats.Entry{{At: noon}})
	clear(value) // the store keeps nothing of the caller's
	for range 2 {
		got := f.load("a")
		if !bytes.Equal(got.Value, every) || got.Session != "s1" {
			f.Errorf("%+v", got)
		}
		clear(got.Value) // nor the caller anything of the store's
		for _, r := range f.rows(acme, "telegram") {
			if !bytes.Equal(r.Value, every) {
				f.Errorf("%+v", r)
			}
			clear(r.Value)
		}
		all := f.entries(acme, 0, 10)
		for n, want := range at {
			e := all[n-1]
			if want = time.UnixMilli(want.UnixMilli()).UTC(); e.Number != n || e.At != want || e.Session != "s1" || !bytes.Equal(e.Value, every) {
				f.Errorf("entry %d: %+v, want %v", n, e, want)
			}
			clear(e.Value)
		}
		if e := all[4]; e.Session != "" || len(e.Value) != 0 || e.Number != 5 {
			f.Errorf("an entry without anything: %+v", e)
		}
	}
}

// calls are all methods, as one error each.
func (f *fixture) calls(ctx context.Context) map[string]error {
	all := map[string]error{}
	_, all["load"] = f.Load(ctx, chat("a"))
	all["save"] = f.Save(ctx, acme, []chats.Row{row("a", 1, "", "2")}, said("", "two"))
	for _, all["rows"] = range f.Rows(ctx, acme, "telegram") {
		break
	}
	_, all["feed"] = f.Feed(ctx, acme)
	_, all["entries"] = f.Entries(ctx, acme, 0, 10)
	all["trim"] = f.Trim(ctx, acme, 1)
	return all
}

func endedContext(f *fixture) {
	f.save([]chats.Row{row("a", 0, "", "1")}, said("", "one"))
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	for what, err := range f.calls(ctx) {
		if !errors.Is(err, context.Canceled) {
			f.Errorf("%s: %v", what, err)
		}
	}
	f.wantRow("a", 1, "", "1")
	f.wantTexts("1=one")
}

func closedStore(f *fixture) {
	f.save([]chats.Row{row("a", 0, "", "1")}, said("", "one"))
	if err := f.store.Close(); err != nil {
		f.Fatal(err)
	}
	for what, err := range f.calls(f.Context()) {
		if !errors.Is(err, conversation.ErrClosed) {
			f.Errorf("%s: %v", what, err)
		}
	}
}
