package cluster_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"parley/actors/cluster"
	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/persistence/persistencetest"
)

// headed is a store that says when somebody reads how far a log goes.
type headed struct {
	conversation.Store
	armed atomic.Bool
	read  chan struct{}
}

func (s *headed) Head(ctx context.Context, key conversation.SessionKey) (conversation.Head, error) {
	head, err := s.Store.Head(ctx, key)
	if s.armed.CompareAndSwap(true, false) {
		close(s.read)
	}
	return head, err
}

// PROTOCOL.md, rule 1.5: the answer to a command comes before the events of its commit also on
// a node that knows from the store what the session's owner has not answered yet.
func TestAnswerBeforeEventsOfAnotherNode(t *testing.T) {
	store := persistencetest.NewMemory()
	start(t, store, "a", nil)
	seen := &headed{Store: store, read: make(chan struct{})}
	b := startOn(t, store, seen, "b", func(o *cluster.Options) { o.GatewayOnly = true }, nil)
	if _, err := b.create(key(0)); err != nil {
		t.Fatal(err)
	}
	first, err := b.say(key(0), "m0", "hello")
	if err != nil {
		t.Fatal(err)
	}
	gate := store.Hold(persistencetest.AfterWrite, func(_ conversation.SessionKey, c conversation.Commit) bool {
		return slices.ContainsFunc(c.Events, func(e conversation.Event) bool { return e.Body.Kind() == conversation.KindMessageAccepted })
	})
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	answered := make(chan error, 1)
	b.sessions.Tell(key(0), "ada", conversation.Say{Author: "ada", ClientMsgID: "m1", Text: "hello"}, func(_ conversation.Receipt, err error) {
		note("answer")
		answered <- err
	})
	<-gate.Held() // it is in the store, and its session does not know
	seen.armed.Store(true)
	shown := make(chan error, 1)
	go func() { // the owner gives no view of itself meanwhile, so that is read from the store
		s, _, err := b.hub.Subscribe(t.Context(), b.sessions, protocol.DefaultLimits(), fanout.Options{Key: key(0), As: "ada", Since: first.Seq, Values: true})
		if err == nil {
			defer s.Close()
			for found := false; err == nil && !found; {
				var d fanout.Delivery
				d, err = s.Next(t.Context())
				found = slices.ContainsFunc(d.Events, func(e conversation.Event) bool { return e.Body.Kind() == conversation.KindMessageAccepted })
			}
			note("event")
		}
		shown <- err
	}()
	<-seen.read
	gate.Release()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-shown; err != nil {
		t.Error(err)
	}
	if !slices.Equal(order, []string{"answer", "event"}) {
		t.Errorf("first came the %s", order)
	}
}
