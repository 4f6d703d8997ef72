package actors

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/conversation/access"
	"parley/persistence/persistencetest"
)

// Below the soft watermark nothing new is taken, however often it is tried, and
// what runs comes to its end.
func TestSoftWatermark(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.ModelIdle, h.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		h.store.Fill(persistencetest.Soft)
		for i := range 8 {
			h.refused(h.tell(mainKey, say(fmt.Sprint("b", i), "more")), conversation.StorageFull)
			time.Sleep(h.cfg.FullPause + h.cfg.DueEvery)
			synctest.Wait()
		}
		if n := len(h.model.Calls()); n != 1 {
			t.Errorf("the running model call was begun %d times", n)
		}
		h.reply(actorstest.Text("done"))
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
	})
}

// What was stored while there was room is acknowledged again below the soft watermark:
// its client has not got the first receipt, and a refusal would say that nothing was
// stored. Another text under the same id is refused as ever, and nothing new is taken.
func TestRepeatBelowSoftWatermark(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		first := h.ok(h.tell(mainKey, say("b", "more")))
		h.reply(actorstest.Text("done"))
		h.reply(actorstest.Text("done, too"))
		h.store.Fill(persistencetest.Soft)
		for _, inMemory := range []bool{true, false} {
			if !inMemory {
				h.forget(mainKey)
			}
			again := h.ok(h.tell(mainKey, say("b", "more")))
			if !again.Duplicate || again.Message != first.Message || again.Seq != first.Seq {
				t.Errorf("in memory %v: %+v instead of %+v", inMemory, again, first)
			}
			h.refused(h.tell(mainKey, say("b", "something else")), conversation.Conflict)
			h.refused(h.tell(mainKey, say("c", "more")), conversation.StorageFull)
			h.refused(h.tell(mainKey, conversation.Edit{By: ada, Message: first.Message, Text: "x"}), conversation.StorageFull)
			eve := say("b", "more")
			eve.Author = "eve"
			h.refused(h.tell(mainKey, eve), conversation.StorageFull)
		}
		if n := h.count(mainKey, conversation.KindMessageAccepted); n != 2 {
			t.Errorf("%d messages are stored", n)
		}
	})
}

// A tenant that has stored too much gets no new work done; what it had stored is
// acknowledged again, what runs comes to its end, and other tenants do not notice.
func TestTenantOverItsQuota(t *testing.T) {
	var over atomic.Bool
	withHarness(t, func(h *harness) {
		h.quota = func(tenant conversation.TenantID) error {
			if over.Load() && tenant == mainKey.Tenant {
				return conversation.ErrQuota
			}
			return nil
		}
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		over.Store(true)
		h.refused(h.tell(mainKey, say("b", "more")), conversation.StorageFull)
		if again := h.ok(h.tell(mainKey, say("a", "work"))); !again.Duplicate {
			t.Errorf("%+v", again)
		}
		h.reply(actorstest.Text("done"))
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
		other := conversation.SessionKey{Tenant: "other", Session: "s1"}
		h.create(other)
		h.ok(h.tell(other, say("a", "work")))
		over.Store(false)
		h.ok(h.tell(mainKey, say("b", "more")))
	})
}

// Whoever is to lose a right must not be able to keep it by filling the store: what only
// takes away is done while a tenant has stored too much, and below the soft watermark.
// What gives or adds something is not.
func TestRightsAreTakenAwayWhenFull(t *testing.T) {
	private, open := conversation.AccessPrivate, conversation.AccessTenant
	title := "t"
	role := func(r access.Role) conversation.Update {
		return conversation.Update{By: "u", Members: map[conversation.UserID]access.Role{"bob": r}}
	}
	for name, fill := range map[string]func(h *harness, over *atomic.Bool){
		"the tenant": func(_ *harness, over *atomic.Bool) { over.Store(true) },
		"the disk":   func(h *harness, _ *atomic.Bool) { h.store.Fill(persistencetest.Soft) },
	} {
		t.Run(name, func(t *testing.T) {
			var over atomic.Bool
			withHarness(t, func(h *harness) {
				h.quota = func(conversation.TenantID) error {
					if over.Load() {
						return conversation.ErrQuota
					}
					return nil
				}
			}, func(t *testing.T, h *harness) {
				h.create(mainKey)
				h.ok(h.tell(mainKey, conversation.Update{Access: &open}))
				h.ok(h.tell(mainKey, role(access.Writer)))
				h.ok(h.tell(mainKey, say("a", "work")))
				h.ok(h.tell(mainKey, conversation.Update{Policy: conversation.Overrides{"inbox.mode": []byte(`"queue"`)}}))
				waiting := h.ok(h.tell(mainKey, say("b", "more"))).Message
				fill(h, &over)
				h.refused(h.tell(mainKey, say("c", "more")), conversation.StorageFull)
				h.refused(h.tell(mainKey, role(access.Owner)), conversation.StorageFull)
				h.refused(h.tell(mainKey, conversation.Update{Access: &open}), conversation.StorageFull)
				h.refused(h.tell(mainKey, conversation.Update{Title: &title, Access: &private}), conversation.StorageFull)
				h.ok(h.tell(mainKey, conversation.Update{Access: &private}))
				h.ok(h.tell(mainKey, role(access.Reader)))
				h.ok(h.tell(mainKey, role(access.None)))
				h.ok(h.tell(mainKey, conversation.Withdraw{By: ada, Message: waiting}))
				h.ok(h.tell(mainKey, conversation.Close{}))
				if n := h.count(mainKey, conversation.KindSessionUpdated); n != 6 {
					t.Errorf("%d updates: %v", n, kinds(h.stored(mainKey)))
				}
			})
		})
	}
}

// A message that was let in while there was room, and is in one commit with what
// runs, is stored with it; the door is closed behind it.
func TestFullAfterTheDoor(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		call := h.call()
		h.store.FailCommit(func(_ int, _ conversation.SessionKey, c conversation.Commit) (error, bool) {
			if !c.Inner {
				return conversation.ErrFull, false
			}
			return nil, false
		})
		h.ok(h.tell(mainKey, say("b", "more")))
		h.refused(h.tell(mainKey, say("c", "more")), conversation.StorageFull)
		if call.Over() {
			t.Error("a message that the full store refused took the running model call along")
		}
		h.store.FailCommit(nil)
		h.reply(actorstest.Text("done"))
		h.assertComplete(mainKey)
	})
}

// A store that has no room even for running work has none for anything new: others are
// refused at the door for a while, and it is not tried at the cost of their memory.
func TestFullForRunningWork(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		other := conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
		h.create(other)
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) {
			return conversation.ErrFull, false
		})
		h.reply(actorstest.Text("done"))
		if h.active(mainKey) {
			t.Fatal("what was refused is in memory")
		}
		h.refused(h.tell(other, say("a", "hello")), conversation.StorageFull)
		if !h.active(other) {
			t.Error("a session has lost its memory for a message that could not be stored")
		}
		h.store.FailCommit(nil)
		time.Sleep(h.cfg.FullPause)
		h.ok(h.tell(other, say("a", "hello")))
	})
}

// What waited at the door of a session while the disk filled up is refused there.
func TestFullWhileHeld(t *testing.T) {
	store := &racing{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.forget(mainKey)
		store.onAcquire(func(*conversation.Head) { h.store.Fill(persistencetest.Soft) })
		h.refused(h.tell(mainKey, say("a", "hello")), conversation.StorageFull)
		if !h.active(mainKey) {
			t.Error("the refusal cost the session its memory")
		}
	})
}

// Below the soft watermark a delegation starts, is amended and ends: nothing of it
// comes from outside.
func TestSoftWatermarkBelow(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.ModelIdle, h.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		root := h.call()
		h.store.Fill(persistencetest.Soft)
		root.Answer(actorstest.Use("k1", conversation.ToolDelegate, `{"agent":"researcher","objective":"x","deadline":"50m"}`))
		time.Sleep(time.Second)
		inside := h.call()
		if inside.Request.Session != sub.Session {
			t.Fatalf("%+v", inside.Request)
		}
		h.store.Fill(persistencetest.Roomy)
		h.ok(h.tell(mainKey, say("b", "use red")))
		h.store.Fill(persistencetest.Soft)
		for _, c := range h.model.Open() {
			if c != inside {
				c.Answer(actorstest.Use("k3", conversation.ToolAmend, `{"delegation":"d1","text":"red"}`))
			}
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if h.count(sub, conversation.KindMessageAccepted) != 2 {
			t.Errorf("the amendment did not arrive: %v", kinds(h.stored(sub)))
		}
		n := 0
		for _, e := range h.stored(sub) {
			if b, ok := e.Body.(conversation.StepStarted); ok && b.Cause == conversation.CauseInterrupted {
				n++
			}
		}
		if n != 0 {
			t.Errorf("the delegation's work was begun again %d times", n)
		}
		if h.e.fullPause.Begun() {
			t.Error("the store was asked to take something for new that is not")
		}
	})
}

// Open work goes on below the soft watermark, also while others are refused all
// the time; below the hard one it is not tried.
func TestDueBelowWatermarks(t *testing.T) {
	for _, c := range []struct {
		space persistencetest.Fullness
		loads int64
	}{{persistencetest.Soft, 1}, {persistencetest.Hard, 0}} {
		t.Run(fmt.Sprint(c.space), func(t *testing.T) {
			store := &racing{}
			withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
				other := conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
				h.create(other)
				h.create(mainKey)
				h.ok(h.tell(mainKey, say("a", "work")))
				h.store.Fill(c.space)
				h.forget(mainKey)
				var loads atomic.Int64
				store.onAcquire(func(*conversation.Head) { loads.Add(1) })
				for i := range 100 {
					h.refused(h.tell(other, say(fmt.Sprint(i), "x")), conversation.StorageFull)
					time.Sleep(h.cfg.FullPause / 2)
				}
				synctest.Wait()
				if n := loads.Load(); n != c.loads || int64(len(h.model.Open())) != c.loads {
					t.Errorf("loaded %d times, %d model calls run; want %d", n, len(h.model.Open()), c.loads)
				}
				h.store.Fill(persistencetest.Roomy)
				time.Sleep(h.cfg.DueEvery)
				h.reply(actorstest.Text("done"))
			})
		})
	}
}
