package actors

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// Below the soft watermark nothing new is taken, however often it is tried, and
// what runs comes to its end.
func TestSoftWatermark(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.ModelIdle, w.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "work")))
		w.store.Fill(persistencetest.Soft)
		for i := range 8 {
			w.refused(w.tell(talk, say(fmt.Sprint("b", i), "more")), conversation.StorageFull)
			time.Sleep(w.cfg.FullPause + w.cfg.DueEvery)
			synctest.Wait()
		}
		if n := len(w.model.Calls()); n != 1 {
			t.Errorf("the running model call was begun %d times", n)
		}
		w.reply(actorstest.Text("done"))
		if w.count(talk, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(w.stored(talk)))
		}
	})
}

// A message that was let in while there was room, and is in one commit with what
// runs, is stored with it; the door is closed behind it.
func TestFullAfterTheDoor(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "work")))
		call := w.call()
		w.store.FailCommit(func(_ int, _ conversation.SessionKey, c conversation.Commit) (error, bool) {
			if !c.Inner {
				return conversation.ErrFull, false
			}
			return nil, false
		})
		w.ok(w.tell(talk, say("b", "more")))
		w.refused(w.tell(talk, say("c", "more")), conversation.StorageFull)
		if call.Over() {
			t.Error("a message that the full store refused took the running model call along")
		}
		w.store.FailCommit(nil)
		w.reply(actorstest.Text("done"))
		w.whole(talk)
	})
}

// What waited at the door of a session while the disk filled up is refused there.
func TestFullWhileHeld(t *testing.T) {
	store := &racing{}
	inWorld(t, func(w *world) { store.Store, w.through = w.store, store }, func(t *testing.T, w *world) {
		w.create(talk)
		w.forget(talk)
		store.onAcquire(func(*conversation.Head) { w.store.Fill(persistencetest.Soft) })
		w.refused(w.tell(talk, say("a", "hello")), conversation.StorageFull)
		if !w.e.registry.active(talk) {
			t.Error("the refusal cost the session its memory")
		}
	})
}

// Below the soft watermark a delegation starts, is amended and ends: nothing of it
// comes from outside.
func TestSoftWatermarkBelow(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.ModelIdle, w.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "work")))
		root := w.call()
		w.store.Fill(persistencetest.Soft)
		root.Answer(actorstest.Use("k1", conversation.ToolDelegate, `{"agent":"researcher","objective":"x","deadline":"50m"}`))
		time.Sleep(time.Second)
		inside := w.call()
		if inside.Request.Session != sub.Session {
			t.Fatalf("%+v", inside.Request)
		}
		w.store.Fill(persistencetest.Roomy)
		w.ok(w.tell(talk, say("b", "use red")))
		w.store.Fill(persistencetest.Soft)
		for _, c := range w.model.Open() {
			if c != inside {
				c.Answer(actorstest.Use("k3", conversation.ToolAmend, `{"delegation":"d1","text":"red"}`))
			}
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if w.count(sub, conversation.KindMessageAccepted) != 2 {
			t.Errorf("the amendment did not arrive: %v", kinds(w.stored(sub)))
		}
		n := 0
		for _, e := range w.stored(sub) {
			if b, ok := e.Body.(conversation.StepStarted); ok && b.Cause == conversation.CauseInterrupted {
				n++
			}
		}
		if n != 0 {
			t.Errorf("the delegation's work was begun again %d times", n)
		}
		if w.e.fullUntil.Load() != 0 {
			t.Error("the store was asked to take something for new that is not")
		}
	})
}

// Open work goes on below the soft watermark, also while others are refused all
// the time; below the hard one nobody tries.
func TestDueBelowWatermarks(t *testing.T) {
	for _, c := range []struct {
		space persistencetest.Space
		loads int64
	}{{persistencetest.Soft, 1}, {persistencetest.Hard, 0}} {
		t.Run(fmt.Sprint(c.space), func(t *testing.T) {
			store := &racing{}
			inWorld(t, func(w *world) { store.Store, w.through = w.store, store }, func(t *testing.T, w *world) {
				other := conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
				w.create(other)
				w.create(talk)
				w.ok(w.tell(talk, say("a", "work")))
				w.store.Fill(c.space)
				w.forget(talk)
				var loads atomic.Int64
				store.onAcquire(func(*conversation.Head) { loads.Add(1) })
				for i := range 100 {
					w.refused(w.tell(other, say(fmt.Sprint(i), "x")), conversation.StorageFull)
					time.Sleep(w.cfg.FullPause / 2)
				}
				synctest.Wait()
				if n := loads.Load(); n != c.loads || int64(len(w.model.Open())) != c.loads {
					t.Errorf("loaded %d times, %d model calls run; want %d", n, len(w.model.Open()), c.loads)
				}
				w.store.Fill(persistencetest.Roomy)
				time.Sleep(w.cfg.DueEvery)
				w.reply(actorstest.Text("done"))
			})
		})
	}
}
