package list_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"parley/conversation"
	"parley/gateway/list"
	"parley/persistence/persistencetest"
)

// What a commit changes is told before its writer hears that it is stored: whoever was
// answered and reads the list anew is not told of something older afterwards.
func TestAChangeIsToldBeforeItsWriterIsAnswered(t *testing.T) {
	var order []string
	store := list.Store(persistencetest.NewMemory(), func(list.Touched) { order = append(order, "told") })
	h, err := store.Acquire(t.Context(), key("s"), conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error)
	c := conversation.Commit{
		Epoch: h.Epoch, After: h.Last, ID: "1", Summary: conversation.Summary{Key: key("s"), Owner: "ann"},
		Events: []conversation.Event{{Seq: h.Last + 1, Body: conversation.ContextCleared{}}},
	}
	store.CommitAsync(t.Context(), key("s"), &c, func(err error) {
		order = append(order, "answered")
		answered <- err
	})
	if err := <-answered; err != nil || !slices.Equal(order, []string{"told", "answered"}) {
		t.Errorf("%v, %v", order, err)
	}
}

// The sessions of delegations are in no list, so nobody is told of them.
func TestDelegationsAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := b.lists.Watch("acme", "ann")
		defer w.Close()
		b.lists.Changed(list.Touched{Key: key("s/d1"), Everyone: true})
		b.lists.Changed(list.Touched{Key: key("s/d1"), Users: []conversation.UserID{"ann"}})
		ctx, cancel := context.WithTimeout(t.Context(), 2*list.Every)
		defer cancel()
		if rows, err := w.Next(ctx); err == nil {
			t.Errorf("%+v", rows)
		}
	})
}
