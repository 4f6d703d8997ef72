package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/search"
	"parley/gateway/find"
	"parley/metrics"
)

// A search of the embedded store finds what was committed last, and by whose right, at once and
// without the index having come round; whoever may not read any more finds nothing at once, too.
func TestSearchIsNeverBehind(t *testing.T) {
	o := store.Defaults()
	db, err := store.Open("", o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	f := find.New(db, store.Index(db), find.Defaults(), metrics.NewSearch(prometheus.NewRegistry()))
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	heads := map[string]conversation.Head{}
	commit := func(session string, members map[conversation.UserID]access.Role, body conversation.EventBody) {
		t.Helper()
		key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(session)}
		h, is := heads[session]
		if !is {
			if h, err = db.Acquire(t.Context(), key, conversation.AcquireHow{Create: true}); err != nil {
				t.Fatal(err)
			}
		}
		at = at.Add(time.Second)
		c := conversation.Commit{Epoch: h.Epoch, After: h.Last, ID: conversation.CommitID(fmt.Sprint(h.Last + 1)),
			Events:  []conversation.Event{{Seq: h.Last + 1, At: at, Body: body}},
			Summary: conversation.Summary{Key: key, Owner: "ann", Agent: "a", Access: conversation.AccessPrivate, Members: members, CreatedAt: at, Activity: at}}
		if err := db.Commit(t.Context(), key, c); err != nil {
			t.Fatal(err)
		}
		h.Last++
		heads[session] = h
	}
	said := func(n int, text string) conversation.EventBody {
		return conversation.MessageAccepted{Message: conversation.MessageID(fmt.Sprintf("m%d", n)), Author: "ann", Text: text}
	}
	finds := func(user conversation.UserID, q, want string) {
		t.Helper()
		query, err := search.Read(q, 9)
		if err != nil {
			t.Fatal(err)
		}
		all, next, err := f.Messages(t.Context(), find.Ask{Tenant: "acme", User: user, Query: query, Limit: 9})
		var got []string
		for _, is := range all {
			got = append(got, fmt.Sprint(is.Session.Key.Session, ":", is.Message))
		}
		if is := strings.Join(got, " "); err != nil || next != "" || is != want {
			t.Errorf("%s finds %q by %q instead of %q, %v", user, is, q, want, err)
		}
	}
	round := func() {
		t.Helper()
		if err := f.Build(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	commit("s1", nil, said(1, "apple pie"))
	commit("s2", nil, said(1, "apple cake"))
	for _, built := range []bool{false, true} {
		if built {
			round()
		}
		finds("ann", "apple", "s2:m1 s1:m1")
		finds("ann", "appl pi", "s1:m1")
		finds("bob", "apple", "")
	}
	commit("s1", nil, said(2, "a pear and an apple"))
	commit("s3", nil, said(1, "another pear"))
	bob := map[conversation.UserID]access.Role{"bob": access.Reader}
	commit("s2", bob, conversation.SessionUpdated{})
	for _, built := range []bool{false, true} {
		if built {
			round()
		}
		finds("ann", "apple", "s1:m2 s2:m1 s1:m1")
		finds("ann", "pear", "s3:m1 s1:m2")
		finds("bob", "apple", "s2:m1")
	}
	commit("s2", nil, conversation.SessionUpdated{})
	finds("bob", "apple", "")
	commit("s1", nil, conversation.MessageEdited{Message: "m1", Text: "a plum"})
	commit("s1", nil, conversation.MessageWithdrawn{Message: "m2"})
	if err := db.Delete(t.Context(), conversation.SessionKey{Tenant: "acme", Session: "s2"}); err != nil {
		t.Fatal(err)
	}
	for _, built := range []bool{false, true} {
		if built {
			round()
		}
		finds("ann", "apple", "")
		finds("ann", "plum", "s1:m1")
		finds("bob", "apple", "")
	}
}
