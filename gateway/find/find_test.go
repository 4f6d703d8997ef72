package find

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/search"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// world is a store, and what is said in it.
type world struct {
	mu    sync.Mutex // held by what others than the test may call, and by what they read
	store *persistencetest.Memory
	now   time.Time
	of    map[conversation.SessionKey]*talk
	upto  map[conversation.SessionKey]conversation.Seq // how far the index of the test is
}

type talk struct {
	sum    conversation.Summary
	epoch  conversation.Epoch
	last   conversation.Seq
	n      int
	said   []line
	events []conversation.Event
}

// line is a message or part as it should be found.
type line struct {
	id   conversation.MessageID
	seq  conversation.Seq
	at   time.Time
	text string
	gone bool
}

func newWorld() *world {
	return &world{store: persistencetest.NewMemory(), now: noon, of: map[conversation.SessionKey]*talk{}, upto: map[conversation.SessionKey]conversation.Seq{}}
}

func key(tenant, session string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(session)}
}

// session is a session of a user; it is made if need be.
func (w *world) session(k conversation.SessionKey, owner string) *talk {
	t := w.of[k]
	if t == nil {
		h, err := w.store.Acquire(context.Background(), k, conversation.AcquireHow{Create: true})
		if err != nil {
			panic(err)
		}
		t = &talk{epoch: h.Epoch, sum: conversation.Summary{Key: k, Owner: conversation.UserID(owner), Agent: "a", Access: conversation.AccessPrivate, CreatedAt: w.now}}
		w.of[k] = t
		w.do(t, conversation.SessionCreated{Owner: t.sum.Owner, Agent: "a", Access: t.sum.Access})
	}
	return t
}

// do has an event happen.
func (w *world) do(t *talk, body conversation.EventBody) conversation.Seq {
	e := conversation.Event{Seq: t.last + 1, At: w.now, Body: body}
	t.sum.Activity = w.now
	w.mu.Lock()
	defer w.mu.Unlock()
	c := conversation.Commit{Epoch: t.epoch, After: t.last, ID: conversation.CommitID(fmt.Sprint(e.Seq)), Events: []conversation.Event{e}, Summary: t.sum}
	if err := w.store.Commit(context.Background(), t.sum.Key, c); err != nil {
		panic(err)
	}
	t.last++
	t.events = append(t.events, e)
	return t.last
}

func (w *world) say(t *talk, text string) {
	t.n++
	id := conversation.MessageID(fmt.Sprintf("m%d-%s", t.n, t.sum.Key.Session))
	seq := w.do(t, conversation.MessageAccepted{Message: id, Author: t.sum.Owner, Text: text})
	t.said = append(t.said, line{id: id, seq: seq, at: w.now, text: text})
}

func (w *world) answer(t *talk, text string, promoted bool) {
	t.n++
	p := conversation.Part{Message: conversation.MessageID(fmt.Sprintf("p%d-%s", t.n, t.sum.Key.Session)), Text: text}
	seq := w.do(t, conversation.PartialResponse{Part: p})
	t.said = append(t.said, line{id: p.Message, seq: seq, at: w.now, text: text})
	if promoted {
		w.do(t, conversation.Response{Part: p, Promoted: true})
	}
}

func (w *world) edit(t *talk, i int, text string) {
	w.do(t, conversation.MessageEdited{Message: t.said[i].id, Text: text})
	t.said[i].text = text
}

func (w *world) withdraw(t *talk, i int) {
	w.do(t, conversation.MessageWithdrawn{Message: t.said[i].id})
	t.said[i].gone = true
}

// Said implements search.Index: it has what was said up to upto.
func (w *world) Said(_ context.Context, k conversation.SessionKey, q search.Query, behind search.Place, n int) ([]search.Said, conversation.Seq, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, through := w.of[k], w.upto[k]
	var all []search.Said
	if t == nil {
		return nil, 0, nil
	}
	for _, e := range t.events[:through] {
		switch c := search.Of(e); c.What {
		case search.Speaks:
			all = append(all, search.Said{Message: c.Message, Seq: e.Seq, At: e.At, Text: e.Seq, Folded: search.Fold(c.Text)})
		case search.Rewords, search.Unsays:
			i := slices.IndexFunc(all, func(s search.Said) bool { return s.Message == c.Message })
			if c.What == search.Unsays {
				all = slices.Delete(all, i, i+1)
				continue
			}
			all[i].Text, all[i].Folded = e.Seq, search.Fold(c.Text)
		}
	}
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(s search.Said) bool { return !s.Place().Behind(behind) || !q.In(s.Folded) })
	return all[:min(n, len(all))], through, nil
}

// Keep implements search.Index: it takes whatever comes.
func (w *world) Keep(_ context.Context, k conversation.SessionKey, from conversation.Seq, news search.News) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.upto[k] == from && w.of[k] != nil {
		w.upto[k] = news.Through
	}
	return nil
}

// guide is an index that knows where to look: where there is something, and by chance elsewhere.
type guide struct {
	*world
	chance func() bool
	size   func() int // how many sessions it looks at, of those that it is asked to
}

func (g guide) Follow()                        {}
func (g guide) Whole()                         {}
func (g guide) Unread(conversation.SessionKey) {}

func (g guide) Behind(context.Context, int) (all []conversation.SessionKey, whole bool, err error) {
	return nil, true, nil
}

func (g guide) Where(ctx context.Context, tenant conversation.TenantID, user conversation.UserID, q search.Query, cursor string, most int) (w search.Where, ok bool, err error) {
	if g.chance() {
		return w, false, nil
	}
	var all []search.Candidate
	for row, err := range g.store.Sessions(ctx, conversation.Page{Tenant: tenant, Cursor: cursor}) {
		if err != nil {
			return w, false, err
		}
		if len(all) == most {
			last := all[most-1]
			w.Next = fmt.Sprintf("%d.%s", last.Latest, last.Session)
			break
		}
		all = append(all, search.Candidate{Session: row.Key.Session, Latest: row.Activity.UnixMilli(), Kept: g.upto[row.Key] == row.Last})
	}
	w.Left = func() (int64, bool) {
		if len(all) == 0 {
			return 0, false
		}
		return all[0].Latest, true
	}
	w.Some = func(_ context.Context, n int) (some []search.Candidate, err error) {
		n = min(n, len(all), g.size())
		for _, c := range all[:n] {
			t := g.of[conversation.SessionKey{Tenant: tenant, Session: c.Session}]
			has := slices.ContainsFunc(t.said, func(l line) bool { return !l.gone && q.Fits(l.text) })
			if !c.Kept || t.sum.Reads(user) && has || g.chance() {
				some = append(some, c)
			}
		}
		all = all[n:]
		return some, nil
	}
	return w, true, nil
}

// want is what a user should find, the newest first.
func (w *world) want(tenant conversation.TenantID, user conversation.UserID, q search.Query) (all []string) {
	var found []Found
	for _, t := range w.of {
		if t.sum.Key.Tenant != tenant || !t.sum.Reads(user) || t.sum.Key.Session.Depth() > 0 {
			continue
		}
		for _, l := range t.said {
			if !l.gone && q.Fits(l.text) {
				found = append(found, Found{Session: t.sum, Said: search.Said{Message: l.id, Seq: l.seq, At: l.at}, Snippet: l.text})
			}
		}
	}
	slices.SortFunc(found, func(a, b Found) int { return compare(a.spot(), b.spot()) })
	return lines(found)
}

func lines(found []Found) (all []string) {
	for _, f := range found {
		all = append(all, fmt.Sprintf("%s %d %d %s", f.Message, f.Seq, f.At.UnixMilli(), f.Snippet))
	}
	return all
}

func count(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		panic(err)
	}
	return m.GetCounter().GetValue()
}

// all pages through a search.
func all(f *Finder, a Ask) (found []Found, pages int, err error) {
	for pages = 1; pages < 2000; pages++ {
		some, next, err := f.Messages(context.Background(), a)
		if err != nil || len(some) > a.Limit {
			return nil, pages, fmt.Errorf("%d items, %w", len(some), err)
		}
		if found = append(found, some...); next == "" {
			return found, pages, nil
		}
		a.Cursor = next
	}
	return nil, pages, errors.New("it does not end")
}

func reading(t interface{ Fatal(...any) }, q string) search.Query {
	query, err := search.Read(q, 16)
	if err != nil {
		t.Fatal(err)
	}
	return query
}

// Whatever is said, changed, taken back and erased, wherever the index is and whatever the
// bounds are: all pages together are what a user may read and has all words, the newest
// first, each once. PROTOCOL.md, rule 8.1b.
func TestFindsWhatAModelFinds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w, gone := newWorld(), map[conversation.SessionKey]bool{}
		word := rapid.SampledFrom([]string{"alpha", "Álpaca", "beta", "bet", "gamma", "東京", "delta-2"})
		text := func(label string) string {
			return strings.Join(rapid.SliceOfN(word, 0, 4).Draw(rt, label), " ")
		}
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "later") {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 3).Draw(rt, "by")) * time.Millisecond)
			}
			owner := rapid.SampledFrom([]string{"ann", "bob"}).Draw(rt, "owner")
			session := owner + strconv.Itoa(rapid.IntRange(0, 3).Draw(rt, "session"))
			if rapid.IntRange(0, 15).Draw(rt, "below") == 0 {
				session += "/d1"
			}
			k := key(rapid.SampledFrom([]string{"acme", "zeus"}).Draw(rt, "tenant"), session)
			if gone[k] || gone[key(string(k.Tenant), strings.TrimSuffix(session, "/d1"))] {
				continue // its id is taken
			}
			s := w.session(k, owner)
			any := 0
			if len(s.said) > 0 {
				any = rapid.IntRange(0, len(s.said)-1).Draw(rt, "which")
			}
			switch do := rapid.IntRange(0, 11).Draw(rt, "do"); {
			case do < 4:
				w.say(s, text("text"))
			case do < 7:
				w.answer(s, text("answer"), do == 6)
			case do == 7 && len(s.said) > 0 && !s.said[any].gone:
				w.edit(s, any, text("edit"))
			case do == 8 && len(s.said) > 0 && !s.said[any].gone:
				w.withdraw(s, any)
			case do == 9:
				s.sum.Access = rapid.SampledFrom([]conversation.Access{conversation.AccessPrivate, conversation.AccessTenant}).Draw(rt, "access")
				w.do(s, conversation.SessionUpdated{})
			case do == 10:
				s.sum.Members = map[conversation.UserID]access.Role{"cleo": access.Reader}
				w.do(s, conversation.SessionUpdated{})
			case do == 11 && k.Session.Depth() == 0 && w.of[key(string(k.Tenant), session+"/d1")] == nil:
				if err := w.store.Delete(context.Background(), k); err != nil {
					rt.Fatal(err)
				}
				delete(w.of, k)
				delete(w.upto, k)
				gone[key(string(k.Tenant), session)] = true
			}
		}
		var index search.Index
		if rapid.Bool().Draw(rt, "indexed") {
			index = w
			for _, k := range slices.SortedFunc(maps.Keys(w.of), func(a, b conversation.SessionKey) int { return strings.Compare(a.String(), b.String()) }) {
				s := w.of[k]
				w.upto[k] = s.last - conversation.Seq(rapid.IntRange(0, int(s.last)).Draw(rt, "behind"))
				if rapid.Bool().Draw(rt, "whole") {
					w.upto[k] = s.last
				}
			}
		}
		if index != nil && rapid.Bool().Draw(rt, "guided") {
			index = guide{w, func() bool { return rapid.IntRange(0, 3).Draw(rt, "chance") == 0 }, func() int { return rapid.IntRange(1, 3).Draw(rt, "some") }}
		}
		o := Options{Messages: true, Sessions: 100, Texts: rapid.SampledFrom([]int{1, 20, 1000}).Draw(rt, "texts")}
		q := reading(rt, rapid.SampledFrom([]string{"alp", "alpha", "bet", "beta gam", "京", "delta", "nothing"}).Draw(rt, "q"))
		a := Ask{Tenant: "acme", User: conversation.UserID(rapid.SampledFrom([]string{"ann", "bob", "cleo", "eve"}).Draw(rt, "user")), Query: q, Limit: rapid.IntRange(1, 9).Draw(rt, "limit")}
		found, _, err := all(New(w.store, index, o, metrics.NewSearch(prometheus.NewRegistry())), a)
		if err != nil {
			rt.Fatal(err)
		}
		if got, want := lines(found), w.want(a.Tenant, a.User, q); !slices.Equal(got, want) {
			rt.Fatalf("found\n%s\ninstead of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// One request looks at so many sessions and texts, and goes on behind them; sessions of
// others are looked at once, and nothing in them.
func TestOneRequestIsBounded(t *testing.T) {
	w := newWorld()
	for i := range 40 {
		w.now = w.now.Add(time.Second)
		owner := "bob"
		if i%10 == 0 {
			owner = "ann"
		}
		s := w.session(key("acme", fmt.Sprintf("s%02d", i)), owner)
		for range 30 {
			w.say(s, "common")
		}
	}
	q := reading(t, "common")
	for _, c := range []struct {
		user            conversation.UserID
		sessions, texts int
		limit           int
		found, pages    int
	}{
		{"ann", 100, 100_000, 200, 120, 1},
		{"ann", 10, 100_000, 200, 120, 4}, // four windows
		{"ann", 40, 100_000, 60, 120, 3},  // pages of the limit, and the end
		{"ann", 100, 1, 200, 120, 4},      // a session each
		{"bob", 100, 100_000, 2000, 1080, 1},
		{"eve", 10, 100_000, 10, 0, 4},
	} {
		m := metrics.NewSearch(prometheus.NewRegistry())
		f := New(w.store, nil, Options{Messages: true, Sessions: c.sessions, Texts: c.texts}, m)
		found, pages, err := all(f, Ask{Tenant: "acme", User: c.user, Query: q, Limit: c.limit})
		if err != nil || len(found) != c.found || pages != c.pages {
			t.Errorf("%+v: %d in %d pages, %v", c, len(found), pages, err)
		}
		if part := count(m.Searches.WithLabelValues("part")) + count(m.Searches.WithLabelValues("ok")); int(part) != c.pages {
			t.Errorf("%+v: %v requests were counted", c, part)
		}
	}
}

// Only so many searches run at a time; one more waits, and no longer than its request.
func TestSearchesAtOnce(t *testing.T) {
	f := New(newWorld().store, nil, Options{Messages: true, AtOnce: 1}, metrics.NewSearch(prometheus.NewRegistry()))
	a := Ask{Tenant: "acme", User: "ann", Query: reading(t, "x"), Limit: 1}
	done, err := f.turns.take(t.Context(), who{"acme", "bob"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := f.Messages(ctx, a); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	done()
	if _, _, err := f.Messages(t.Context(), a); err != nil {
		t.Errorf("%v", err)
	}
}

func TestRefusals(t *testing.T) {
	m := metrics.NewSearch(prometheus.NewRegistry())
	w := newWorld()
	a := Ask{Tenant: "acme", User: "ann", Query: reading(t, "x"), Limit: 1}
	refused := func(f *Finder, a Ask) {
		t.Helper()
		_, _, err := f.Messages(t.Context(), a)
		if e := new(conversation.Error); !errors.As(err, &e) || e.Code != conversation.BadRequest {
			t.Errorf("%q: %v", a.Cursor, err)
		}
	}
	refused(New(w.store, nil, Options{Words: 3}, m), a)
	f := New(w.store, nil, Options{Messages: true}, m)
	for _, a.Cursor = range []string{"x", "1", "1.2.3", "1.2.x.y", "x.2.0.", "1.-2.0.s", "1.2.9.s", "1.2.1.s", "1.2.2.x.s"} {
		refused(f, a)
	}
	for _, a.Cursor = range []string{"", "1.2.0.", "1.2.0.s.1.", "-1.2.4.-1.ss1"} {
		if _, _, err := f.Messages(t.Context(), a); err != nil {
			t.Errorf("%q: %v", a.Cursor, err)
		}
	}
	// A session that cannot be read is left out, and counted; a store that cannot be asked is an error.
	w.say(w.session(key("acme", "s1"), "ann"), "x one")
	w.say(w.session(key("acme", "s2"), "ann"), "x two")
	w.store.FailReads(key("acme", "s1"), conversation.ErrDamaged)
	a.Cursor, a.Limit = "", 9
	if found, _, err := f.Messages(t.Context(), a); err != nil || len(found) != 1 || count(m.LeftOut) != 1 {
		t.Errorf("%v, %v", lines(found), err)
	}
	w.store.FailReads(key("acme", "s1"), conversation.ErrUnread)
	if _, _, err := f.Messages(t.Context(), a); !errors.Is(err, conversation.ErrUnread) {
		t.Errorf("%v", err)
	}
}
