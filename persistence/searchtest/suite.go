package searchtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/search"
)

// Kept is a store with its index.
type Kept struct {
	Store conversation.Store
	Index search.Index
}

type log struct {
	epoch   conversation.Epoch
	events  []conversation.Event
	n       int
	upto    int                   // what the index should have
	readers []conversation.UserID // besides the owner
	open    bool
}

// Model does anything to sessions and their index, and compares what is kept with what the
// logs say up to there. again opens the store anew after a closing; check looks at it at the end.
func Model(rt *rapid.T, again func() Kept, check func(Kept) error) {
	ctx := context.Background()
	k := again()
	defer func() { _ = k.Store.Close() }()
	logs := map[conversation.SessionKey]*log{}
	follow(k.Index, logs)
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	gone := map[conversation.SessionKey]bool{}
	keys := []conversation.SessionKey{{Tenant: "acme", Session: "s1"}, {Tenant: "acme", Session: "s10"}, {Tenant: "zeus", Session: "s1"}, {Tenant: "acme", Session: "s1\x00"}}
	fine := func(err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	for range rapid.IntRange(1, 60).Draw(rt, "steps") {
		key := rapid.SampledFrom(keys).Draw(rt, "session")
		if gone[key] {
			if _, through, err := k.Index.Said(ctx, key, search.Query{}, search.Newest, 1); err != nil || through != 0 {
				rt.Fatalf("an erased session is kept up to %d, %v", through, err)
			}
			fine(k.Index.Keep(ctx, key, 0, search.News{Through: 1, Said: []search.Said{{Message: "m1", Seq: 1, At: now}}}))
			continue
		}
		l := logs[key]
		if l == nil {
			h, err := k.Store.Acquire(ctx, key, conversation.AcquireHow{Create: true})
			if err != nil && strings.Contains(string(key.Session), "\x00") {
				continue // a store may have no text for it
			}
			fine(err)
			l = &log{epoch: h.Epoch}
			logs[key] = l
		}
		switch rapid.SampledFrom([]string{"say", "say", "say", "edit", "unsay", "keep", "keep", "wrong", "erase", "again", "share", "share"}).Draw(rt, "do") {
		case "say":
			now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(rt, "later")) * time.Millisecond)
			l.n++
			fine(l.commit(ctx, k.Store, key, now, conversation.MessageAccepted{Message: id(l.n), Author: "ann", Text: said(rt)}))
		case "share":
			l.readers = rapid.SliceOfDistinct(rapid.SampledFrom([]conversation.UserID{"bob", "cleo"}), rapid.ID).Draw(rt, "readers")
			l.open = rapid.IntRange(0, 3).Draw(rt, "open") == 0
			fine(l.commit(ctx, k.Store, key, now, conversation.SessionUpdated{}))
		case "edit":
			fine(l.commit(ctx, k.Store, key, now, conversation.MessageEdited{Message: id(rapid.IntRange(0, l.n).Draw(rt, "which")), Text: said(rt)}))
		case "unsay":
			fine(l.commit(ctx, k.Store, key, now, conversation.MessageWithdrawn{Message: id(rapid.IntRange(0, l.n).Draw(rt, "which"))}))
		case "keep":
			news, to := search.News{}, rapid.IntRange(l.upto, len(l.events)).Draw(rt, "to")
			for _, e := range l.events[l.upto:to] {
				news.Add(e)
			}
			if to > l.upto {
				fine(k.Index.Keep(ctx, key, conversation.Seq(l.upto), news))
				l.upto = to
			}
		case "wrong":
			fine(k.Index.Keep(ctx, key, conversation.Seq(l.upto+1), search.News{Through: conversation.Seq(l.upto + 2), Unsaid: []conversation.MessageID{id(1)}}))
		case "erase":
			fine(k.Store.Delete(ctx, key))
			gone[key] = true
			delete(logs, key)
			continue
		case "again":
			fine(k.Store.Close())
			k = again()
			follow(k.Index, logs)
		}
		compare(rt, k.Index, key, l)
		if guide, is := k.Index.(search.Guide); is {
			guided(rt, guide, logs)
		}
	}
	fine(check(k))
}

// said is a text: words that queries ask for, and anything else.
func said(rt *rapid.T) string {
	word := rapid.OneOf(rapid.SampledFrom([]string{"alpha", "Álpaca", "beta", "bet", "東京タワー", "京都", strings.Repeat("z", 40)}), rapid.StringN(0, 9, -1))
	return strings.Join(rapid.SliceOfN(word, 0, 6).Draw(rt, "text"), " ")
}

var queries = []string{"", "alp", "alpha", "bet", "beta alp", "京", "京タワー", "東京 bet", "nothing", strings.Repeat("z", 39), strings.Repeat("z", 41), "a"}

func id(n int) conversation.MessageID { return conversation.MessageID(fmt.Sprintf("m%d", n)) }

func (l *log) commit(ctx context.Context, s conversation.Store, key conversation.SessionKey, now time.Time, body conversation.EventBody) error {
	last := conversation.Seq(len(l.events))
	e := conversation.Event{Seq: last + 1, At: now, Body: body}
	l.events = append(l.events, e)
	return s.Commit(ctx, key, conversation.Commit{
		Epoch: l.epoch, After: last, ID: conversation.CommitID(fmt.Sprint(e.Seq)), Events: []conversation.Event{e},
		Summary: l.summary(key, now),
	})
}

func (l *log) summary(key conversation.SessionKey, now time.Time) conversation.Summary {
	s := conversation.Summary{Key: key, Owner: "ann", Agent: "a", CreatedAt: now, Activity: now, Access: conversation.AccessPrivate}
	if l.open {
		s.Access = conversation.AccessTenant
	}
	for _, user := range l.readers {
		if s.Members == nil {
			s.Members = map[conversation.UserID]access.Role{}
		}
		s.Members[user] = access.Reader
	}
	return s
}

// follow begins what a guide notes anew, as if all sessions had been looked at.
func follow(x search.Index, logs map[conversation.SessionKey]*log) {
	guide, is := x.(search.Guide)
	if !is {
		return
	}
	guide.Follow()
	for key, l := range logs {
		if l.upto < len(l.events) {
			guide.Unread(key)
		}
	}
	guide.Whole()
}

// guided asks a guide where to look, and for what is behind.
func guided(rt *rapid.T, guide search.Guide, logs map[conversation.SessionKey]*log) {
	ctx := context.Background()
	q, err := search.Read(rapid.SampledFrom(queries[1:]).Draw(rt, "for"), 9)
	if err != nil {
		rt.Fatal(err)
	}
	tenant := rapid.SampledFrom([]conversation.TenantID{"acme", "zeus"}).Draw(rt, "tenant")
	user := rapid.SampledFrom([]conversation.UserID{"ann", "bob", "cleo", "eve"}).Draw(rt, "user")
	window, page := rapid.IntRange(1, 3).Draw(rt, "window"), rapid.IntRange(1, 3).Draw(rt, "some")
	named := map[conversation.SessionID]search.Candidate{}
	for cursor := ""; ; {
		w, ok, err := guide.Where(ctx, tenant, user, q, cursor, window)
		if err != nil || !ok {
			rt.Fatalf("the guide does not know: %v", err)
		}
		for {
			latest, more := w.Left()
			if !more {
				break
			}
			some, err := w.Some(ctx, page)
			if err != nil || len(some) > page {
				rt.Fatalf("%d sessions instead of %d, %v", len(some), page, err)
			}
			for _, c := range some {
				if _, twice := named[c.Session]; twice || c.Latest > latest {
					rt.Fatalf("%+v is named twice, or later than %d", c, latest)
				}
				named[c.Session] = c
			}
		}
		if cursor = w.Next; cursor == "" {
			break
		}
	}
	for key, l := range logs {
		if key.Tenant != tenant || len(l.events) == 0 {
			continue
		}
		var is search.News
		for _, e := range l.events {
			is.Add(e)
		}
		c, there := named[key.Session]
		delete(named, key.Session)
		found := slices.ContainsFunc(is.Said, func(s search.Said) bool { return q.In(s.Folded) })
		switch may := l.summary(key, time.Time{}).Reads(user); {
		case !there && may && found:
			rt.Fatalf("%s is left out for %s, %+v, kept up to %d of %d", key, user, q, l.upto, len(l.events))
		case there && c.Kept && l.upto < len(l.events):
			rt.Fatalf("%s is kept up to %d of %d, which is not all", key, l.upto, len(l.events))
		case there && c.Latest < l.events[len(l.events)-1].At.UnixMilli():
			rt.Fatalf("%s was active later than %d", key, c.Latest)
		case there && c.Kept && !may:
			rt.Fatalf("%s is not for %s", key, user)
		}
	}
	if len(named) > 0 {
		rt.Fatalf("%v are not there", named)
	}
	behind, whole, err := guide.Behind(ctx, 100)
	if err != nil || !whole {
		rt.Fatalf("the guide does not know what is behind: %v", err)
	}
	for _, key := range behind {
		if l := logs[key]; l == nil || l.upto >= len(l.events) {
			rt.Fatalf("%s is not behind", key)
		}
	}
}

// compare reads an index from the newest on, some at a time.
func compare(rt *rapid.T, x search.Index, key conversation.SessionKey, l *log) {
	var is search.News
	for _, e := range l.events[:l.upto] {
		is.Add(e)
	}
	var q search.Query
	if text := rapid.SampledFrom(queries).Draw(rt, "query"); text != "" {
		q, _ = search.Read(text, 9)
	}
	want := slices.DeleteFunc(is.Said, func(s search.Said) bool { return !q.In(s.Folded) })
	slices.Reverse(want)
	var got []search.Said
	at, n := search.Newest, rapid.IntRange(1, 5).Draw(rt, "page")
	for {
		some, through, err := x.Said(context.Background(), key, q, at, n)
		if err != nil || through != conversation.Seq(l.upto) || len(some) > n {
			rt.Fatalf("%d kept up to %d instead of %d, %v", len(some), through, l.upto, err)
		}
		got = append(got, some...)
		if len(some) < n {
			break
		}
		at = some[len(some)-1].Place()
	}
	if a, b := shown(got), shown(want); a != b {
		rt.Fatalf("kept of %s is\n%s\ninstead of\n%s", key, a, b)
	}
}

func shown(all []search.Said) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s %d %d %d %q\n", s.Message, s.Seq, s.At.UnixMilli(), s.Text, s.Folded)
	}
	return b.String()
}
