package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/actors/internal/refusal"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// counting is a store that may be away, and counts how often it was asked for a
// session in each second of the test.
type counting struct {
	conversation.Store
	mu      sync.Mutex
	began   time.Time
	away    bool
	seconds map[int]int // Acquires by the second in which they came
}

func (c *counting) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	c.mu.Lock()
	away := c.away
	if c.seconds != nil {
		c.seconds[int(time.Since(c.began)/time.Second)]++
	}
	c.mu.Unlock()
	if away {
		return conversation.Head{}, errLine
	}
	return c.Store.Acquire(ctx, key, how)
}

// leave has the store be away or back; count begins the count.
func (c *counting) leave(away, count bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
	if count {
		c.began, c.seconds = time.Now(), map[int]int{}
	}
}

// most is the largest number of Acquires in one second, and that second.
func (c *counting) most() (n, second int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, count := range c.seconds {
		if count > n {
			n, second = count, at
		}
	}
	return n, second
}

// Sessions whose commits met an outage must not keep the store from coming back,
// and each is published by itself when it is back.
func TestOutage(t *testing.T) {
	sessions := 10_000
	if testing.Short() {
		sessions = 2_500
	}
	store := &counting{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		name := func(i int) conversation.SessionKey {
			return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("aaaaaaaaaaaa%04d", i))}
		}
		for i := range sessions {
			h.createAs(name(i), conversation.Create{Owner: ada, Agent: conversation.External})
		}
		h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, true })
		store.leave(true, true)
		for i := range sessions {
			h.tell(name(i), say("a", "hello"))
		}
		time.Sleep(h.cfg.SettleTimeout + 30*time.Second)
		h.store.FailCommit(nil)
		store.leave(false, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, second := store.most(); n >= 2000 {
			t.Errorf("%d sessions were asked for in second %d", n, second)
		}
		for i := range sessions {
			h.assertComplete(name(i))
		}
	})
}

// An erasure that gives up has thrown the session out of memory with a commit on
// its way; what that has stored is published all the same.
func TestErasureGivesUp(t *testing.T) {
	for name, giveUp := range map[string]func(*harness) error{
		"the store fails": func(h *harness) error {
			return h.e.erase(h.t.Context(), mainKey, "user", refusal.NotFound(), nil)
		},
		"it may not any more": func(h *harness) error {
			return h.e.erase(h.t.Context(), mainKey, "retention", refusal.Unreachable(), func(conversation.Summary) bool { return false })
		},
		"its caller has left": func(h *harness) error {
			ctx, cancel := context.WithCancel(h.t.Context())
			cancel()
			return h.e.erase(ctx, mainKey, "user", refusal.NotFound(), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &undeletable{}
			withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
				h.createAs(mainKey, conversation.Create{Owner: ada, Agent: conversation.External})
				gate := h.store.Hold(persistencetest.AfterWrite, nil)
				h.tell(mainKey, say("a", "hello"))
				<-gate.Held()
				_ = giveUp(h)
				gate.Release()
				time.Sleep(10 * time.Second) // the next scan for due work comes later, and finds nothing due
				synctest.Wait()
				h.assertComplete(mainKey)
				if h.count(mainKey, conversation.KindMessageAccepted) != 1 {
					t.Errorf("%v", kinds(h.stored(mainKey)))
				}
			})
		})
	}
}

// undeletable is a store that erases nothing.
type undeletable struct{ conversation.Store }

func (undeletable) Delete(context.Context, conversation.SessionKey) error { return errLine }

// A commit whose outcome could not be seen, because the store was full when it was
// looked for, may be stored: it is published.
func TestFullWhileLookedFor(t *testing.T) {
	withFaultyStore(t, func(t *testing.T, h *harness, store *faulty) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, true })
		store.set("acquire", conversation.ErrFull)
		h.reply(actorstest.Text("hi"))
		h.refused(h.tell(mainKey, say("b", "more")), conversation.StorageFull)
		h.store.FailCommit(nil)
		store.set("acquire", nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		h.assertComplete(mainKey)
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
	})
}
