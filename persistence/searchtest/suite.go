package searchtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/search"
)

// Kept is a store with its index.
type Kept struct {
	Store conversation.Store
	Index search.Index
}

type log struct {
	epoch  conversation.Epoch
	events []conversation.Event
	n      int
	upto   int // what the index should have
}

// Model does anything to sessions and their index, and compares what is kept with what the
// logs say up to there. again opens the store anew after a closing; check looks at it at the end.
func Model(rt *rapid.T, again func() Kept, check func(Kept) error) {
	ctx := context.Background()
	k := again()
	defer func() { _ = k.Store.Close() }()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	logs := map[conversation.SessionKey]*log{}
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
			fine(err)
			l = &log{epoch: h.Epoch}
			logs[key] = l
		}
		switch rapid.SampledFrom([]string{"say", "say", "say", "edit", "unsay", "keep", "keep", "wrong", "erase", "again"}).Draw(rt, "do") {
		case "say":
			now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(rt, "later")) * time.Millisecond)
			l.n++
			fine(l.commit(ctx, k.Store, key, now, conversation.MessageAccepted{Message: id(l.n), Author: "ann", Text: said(rt)}))
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
		}
		compare(rt, k.Index, key, l)
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
		Summary: conversation.Summary{Key: key, Owner: "ann", Agent: "a", CreatedAt: now, Activity: now},
	})
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
