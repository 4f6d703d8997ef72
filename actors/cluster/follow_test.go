package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"parley/actors/actorstest"
	"parley/actors/cluster"
	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/persistence/persistencetest"
)

// both shows to the clients of a node, and to the test.
type both struct {
	*fanout.Hub
	shown *actorstest.Publisher
}

func (b both) Publish(key conversation.SessionKey, epoch conversation.Epoch, events []conversation.Event) {
	b.Hub.Publish(key, epoch, events)
	b.shown.Publish(key, epoch, events)
}

func (b both) Gone(key conversation.SessionKey, reason string) {
	b.Hub.Gone(key, reason)
	b.shown.Gone(key, reason)
}

// watcher follows a session through one node.
type watcher struct {
	*fanout.Subscription
	who  string
	last conversation.Seq
}

func (n *clustered) watch(t testing.TB, key conversation.SessionKey) *watcher {
	t.Helper()
	s, v, err := n.hub.Subscribe(t.Context(), n.sessions, protocol.DefaultLimits(), fanout.Options{Key: key, As: "ada", FromNow: true, Drafts: true, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &watcher{Subscription: s, who: string(n.Member().Node), last: v.Head}
}

// until brings the watcher to an event; every one before it must have come, once.
func (w *watcher) until(ctx context.Context, seq conversation.Seq) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for w.last < seq {
		d, err := w.Next(ctx)
		if err != nil {
			return fmt.Errorf("by %s: at %d, on the way to %d: %w", w.who, w.last, seq, err)
		}
		for _, e := range d.Events {
			if e.Seq != w.last+1 {
				return fmt.Errorf("by %s: event %d after %d", w.who, e.Seq, w.last)
			}
			w.last = e.Seq
		}
	}
	return nil
}

// Clients of every node are shown what happens in every session, without a gap, also while the
// sessions move because nodes come, drain and leave; they see who types, and the end.
func TestFollowThroughAnyNode(t *testing.T) {
	store := persistencetest.NewMemory()
	a, b := start(t, store, "a", nil), start(t, store, "b", nil)
	c := start(t, store, "c", func(o *cluster.Options) { o.GatewayOnly = true })
	const sessions = 12
	var watchers [sessions][]*watcher
	for i := range sessions {
		if _, err := a.create(key(i)); err != nil {
			t.Fatal(err)
		}
		for _, n := range []*clustered{a, b, c} {
			watchers[i] = append(watchers[i], n.watch(t, key(i)))
		}
	}
	said := 0
	say := func(n *clustered) {
		defer func(b time.Time) { t.Log(said, time.Since(b)) }(time.Now())
		t.Helper()
		said++
		var each sync.WaitGroup
		for i := range sessions {
			each.Go(func() {
				r, err := n.say(key(i), fmt.Sprint("m", said), "hello")
				if err != nil {
					t.Errorf("session %d, message %d: %v", i, said, err)
					return
				}
				for _, w := range watchers[i] {
					if err := w.until(t.Context(), r.Seq); err != nil {
						t.Errorf("session %d: %v", i, err)
					}
				}
			})
		}
		each.Wait()
	}
	say(a)
	say(c)
	d := start(t, store, "d", nil) // sessions move to it
	say(b)
	say(d)
	if err := b.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	say(b)
	say(c)
	for i := range sessions {
		if w := watchers[i][2]; w.Ended() {
			t.Fatalf("session %d is not followed any more", i)
		}
	}

	watchers[0][0].Typing("bob", true)
	for _, w := range watchers[0][1:] {
		typing := false
		for !typing {
			d, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(w.who, err)
			}
			typing = d.Typing != nil && d.Typing.User == "bob"
		}
	}
	if err := c.sessions.Erase(t.Context(), key(0), "ada"); err != nil {
		t.Fatal(err)
	}
	for _, w := range watchers[0] {
		for {
			if _, err := w.Next(t.Context()); errors.Is(err, fanout.ErrEnded) {
				break
			} else if err != nil {
				t.Fatal(w.who, err)
			}
		}
	}
}
