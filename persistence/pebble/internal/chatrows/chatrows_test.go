package chatrows

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/conversation/chats"
)

// over is what a store gives Chats, without a disk to wait for.
func over(t *testing.T, apply func(*pebble.DB, *pebble.Batch) error) *Chats {
	t.Helper()
	p, err := pebble.Open("store", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return New(Deps{
		Store: p, Enter: context.Context.Err, Leave: func() {},
		Ready: func() error { return nil }, Room: func() error { return nil },
		View: func(_ context.Context, _ string, read func(*pebble.Snapshot) error) error {
			s := p.NewSnapshot()
			return errors.Join(read(s), s.Close())
		},
		Apply:  func(_ conversation.SessionKey, b *pebble.Batch) error { return apply(p, b) },
		Hold:   func([]conversation.SessionKey) func() { return func() {} },
		Unread: func(err error) error { return err },
	})
}

// Saves of a tenant that wait at the same time share one batch, and each is judged by what
// those before it have made of the rows; another tenant waits for none of them.
func TestSavesThatWaitAreJoined(t *testing.T) {
	const rivals, others = 5, 20
	batches, first, release := 0, make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	c := over(t, func(p *pebble.DB, b *pebble.Batch) error {
		mu.Lock()
		batches++
		n := batches
		mu.Unlock()
		if n == 1 {
			close(first)
			<-release
		}
		return p.Apply(b, pebble.NoSync)
	})
	row := func(chat string) []chats.Row {
		return []chats.Row{{Key: chats.Key{Tenant: "acme", Channel: "slack", Chat: chats.Chat(chat)}, Value: []byte("v")}}
	}
	ended := make(chan error, 1+rivals+others)
	save := func(chat string) { ended <- c.Save(t.Context(), "acme", row(chat), []chats.Entry{{}}) }
	go save("first")
	<-first
	for range rivals {
		go save("rival")
	}
	for n := range others {
		go save(fmt.Sprint(n))
	}
	for waiting := 0; waiting < rivals+others; runtime.Gosched() {
		c.mu.Lock()
		waiting = len(c.tenants["acme"].waiting)
		c.mu.Unlock()
	}
	if err := c.Save(t.Context(), "zeus", nil, []chats.Entry{{}}); err != nil {
		t.Error(err)
	}
	close(release)
	stale := 0
	for range cap(ended) {
		err := <-ended
		if errors.Is(err, chats.ErrStale) {
			stale++
		} else if err != nil {
			t.Error(err)
		}
	}
	feed, err := c.Feed(t.Context(), "acme")
	if err != nil || feed != (chats.Feed{First: 1, Last: 2 + others}) || stale != rivals-1 || batches != 3 {
		t.Errorf("%d were stale, %d batches, feed %+v, %v", stale, batches, feed, err)
	}
	if len(c.tenants) != 0 {
		t.Errorf("tenants nobody works for are kept: %v", c.tenants)
	}
}

// A batch that is not sure to be durable is nobody's success.
func TestFailedBatch(t *testing.T) {
	broken := errors.New("the disk is gone")
	c := over(t, func(*pebble.DB, *pebble.Batch) error { return broken })
	if err := c.Save(t.Context(), "acme", nil, []chats.Entry{{}}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if err := c.Trim(t.Context(), "acme", 1); err != nil { // there is nothing to trim
		t.Errorf("%v", err)
	}
}
