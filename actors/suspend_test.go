package actors

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/actors/internal/refusal"
	"parley/conversation"
)

// slowRecords holds readers of the log while hold is set.
type slowRecords struct {
	conversation.Store
	hold atomic.Pointer[chan struct{}]
}

func (s *slowRecords) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		if c := s.hold.Load(); c != nil {
			<-*c
		}
		for rec, err := range s.Store.Records(ctx, key, r) {
			if !yield(rec, err) {
				return
			}
		}
	}
}

// A model call that waits for its transcript does not start while the engine is suspended, and
// starts when it runs again.
func TestSuspendedWhileTranscriptIsRead(t *testing.T) {
	store := &slowRecords{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("m1", "hello")))
		h.reply(actorstest.Text("hello"))
		time.Sleep(time.Minute) // the transcript is dropped
		hold := make(chan struct{})
		store.hold.Store(&hold)
		h.ok(h.tell(mainKey, say("m2", "more")))
		synctest.Wait()
		before := len(h.model.Calls())
		h.e.Suspend()
		store.hold.Store(nil)
		close(hold)
		synctest.Wait()
		if n := len(h.model.Calls()); n != before {
			t.Errorf("%d model calls started while suspended", n-before)
		}
		h.e.Resume()
		h.reply(actorstest.Text("more"))
		if v := h.view(mainKey); len(v.Tasks) != 0 {
			t.Errorf("open: %+v", v.Tasks)
		}
	})
}

// What one session of a tree tells another, and what the engine wakes, starts no actor while the
// engine is suspended: another node may own the session by now. It is told when that is over.
func TestNothingIsLoadedWhileSuspended(t *testing.T) {
	store := &sick{ill: map[conversation.SessionKey]bool{}, tries: map[conversation.SessionKey]int{}}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.forget(mainKey)
		tries := func() (n int) { store.set(func() { n = store.tries[mainKey] }); return n }
		before := tries()
		h.e.Suspend()
		told := &answer{}
		h.e.tellInner(mainKey, conversation.Cancel{By: conversation.ByParent}, func(_ conversation.Receipt, err error) { told.times, told.err = 1, err })
		h.refused(told, conversation.Unavailable)
		h.e.Wake(mainKey)
		time.Sleep(time.Minute)
		if n := tries() - before; n != 0 || h.active(mainKey) {
			t.Errorf("it was loaded %d times while suspended", n)
		}
		h.e.Resume()
		time.Sleep(time.Minute)
		if n := tries() - before; n == 0 {
			t.Error("nobody has woken it after that")
		}
	})
}

// While a node's lease is over by its own clock others may have its sessions, and may have
// acknowledged more: what it has in memory is shown to nobody, and answers nobody. What the store
// has is shown.
func TestNothingIsAnsweredFromMemoryWithoutALease(t *testing.T) {
	for _, name := range []string{"suspended", "its timer is late"} {
		t.Run(name, func(t *testing.T) {
			var late atomic.Bool
			withNodes(t, func(h *harness) {
				if h.cfg.Node == "n1" {
					h.holds = func() bool { return !late.Load() }
				}
			}, func(t *testing.T, c *nodes) {
				one, two := c.each["n1"], c.each["n2"]
				one.create(mainKey)
				first := one.ok(one.tell(mainKey, say("m1", "hello")))
				one.reply(actorstest.Text("hello"))
				known := one.view(mainKey).Head
				c.mu.Lock()
				c.silent["n1"] = true
				c.mu.Unlock()
				if name == "suspended" {
					one.e.Suspend()
				}
				late.Store(true)
				c.move(func() { c.at = "n2" })
				time.Sleep(testLease + time.Second)
				more := two.ok(two.tell(mainKey, say("m2", "more")))
				if !one.active(mainKey) || known >= more.Seq {
					t.Fatalf("n1 has it: %v; it knew %d, and %d was acknowledged", one.active(mainKey), known, more.Seq)
				}
				if v := one.view(mainKey); v.Head < more.Seq {
					t.Errorf("a view by n1 has the head %d, and %d was acknowledged", v.Head, more.Seq)
				}
				again := &answer{} // it was on its way when the lease ended
				one.e.dispatch(mainKey, &envelope{as: ada, cmd: say("m1", "hello"), fromClient: true, done: func(r conversation.Receipt, err error) {
					again.times, again.receipt, again.err = 1, r, err
				}})
				one.refused(again, conversation.Unavailable)
				one.refused(one.tell(mainKey, say("m3", "more")), conversation.Unavailable)
				if again := two.ok(two.tell(mainKey, say("m1", "hello"))); !again.Duplicate || again.Message != first.Message {
					t.Errorf("%+v", again)
				}
			})
		})
	}
}

// What a suspended node cannot do may be asked again, and it says why.
func TestRefusedWhileSuspended(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.e.Suspend()
		_, claimed := h.e.Claim(t.Context(), conversation.ClaimRequest{Tenant: mainKey.Tenant})
		for what, err := range map[string]error{
			"erasing":  h.e.Erase(t.Context(), mainKey, ada),
			"claiming": claimed,
		} {
			if refused := conversation.AsError(err); refused == nil || refused.Code != conversation.Unavailable || refused.Message != refusal.Suspended().Message {
				t.Errorf("%s: %v", what, err)
			}
		}
		h.e.Resume()
		if err := h.e.Erase(t.Context(), mainKey, ada); err != nil {
			t.Error(err)
		}
	})
}
