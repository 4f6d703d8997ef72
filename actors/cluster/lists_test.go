package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"parley/actors/cluster"
	"parley/conversation"
	"parley/gateway/list"
	"parley/persistence/persistencetest"
)

// rows are what a watch has been shown: how far each session has come, as its client merges it.
type rows struct {
	watch *list.Changes
	by    string
	all   map[conversation.SessionID]conversation.Seq
}

// listedRows is the list of the route.
func listedRows(t *testing.T, store *persistencetest.Memory) map[conversation.SessionID]conversation.Seq {
	t.Helper()
	all := map[conversation.SessionID]conversation.Seq{}
	for row, err := range store.Sessions(t.Context(), conversation.Page{Tenant: key(0).Tenant}) {
		if err != nil {
			t.Fatal(err)
		}
		all[row.Key.Session] = row.Last
	}
	return all
}

// until takes rows until they are those of the list.
func (r *rows) until(t *testing.T, store *persistencetest.Memory, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	for {
		want := listedRows(t, store)
		if maps.Equal(r.all, want) {
			return
		}
		news, err := r.watch.Next(ctx)
		if err != nil {
			t.Fatalf("%s, by %s: shown %v, the list is %v: %v", what, r.by, r.all, want, err)
		}
		for _, n := range news {
			if n.Summary == nil {
				delete(r.all, n.Session)
			} else {
				r.all[n.Session] = n.Summary.Last
			}
		}
	}
}

// Who watches a list through any node is shown what changes in the sessions of all: as nodes
// come and go, and when a session is erased.
func TestWatchListsThroughAnyNode(t *testing.T) {
	store := persistencetest.NewMemory()
	a, b := start(t, store, "a", nil), start(t, store, "b", nil)
	c := start(t, store, "c", func(o *cluster.Options) { o.GatewayOnly = true })
	var all []*rows
	watch := func(n *clustered) {
		r := &rows{by: string(n.Member().Node), watch: n.lists.Watch(key(0).Tenant, "ada")}
		r.all = listedRows(t, store)
		all = append(all, r)
	}
	same := func(what string) {
		t.Helper()
		for _, r := range all {
			r.until(t, store, what)
		}
	}
	watch(a)
	watch(b)
	watch(c)
	const sessions = 8
	for i := range sessions {
		if _, err := c.create(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	same("new sessions")
	said := 0
	say := func(n *clustered) {
		t.Helper()
		said++
		for i := range sessions {
			if _, err := n.say(key(i), fmt.Sprint("m", said), "hello"); err != nil {
				t.Fatal(err)
			}
		}
	}
	say(a)
	same("messages")
	d := start(t, store, "d", nil) // sessions move to it
	watch(d)
	say(b)
	same("a new node")
	all = append(all[:1], all[2:]...)
	b.stop(t)
	say(c)
	same("a node has left")
	for i := range 2 {
		if err := a.sessions.Erase(t.Context(), key(i), "ada"); err != nil {
			t.Fatal(err)
		}
	}
	same("erased sessions")
}
