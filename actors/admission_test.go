package actors

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

func TestSlots(t *testing.T) {
	var granted []*want
	a := newAdmission(2, metrics.NewActors(prometheus.NewRegistry()), func(w *want) { granted = append(granted, w) })
	for i, want := range []bool{true, true, false} {
		if a.try() != want {
			t.Fatalf("slot %d of 2", i+1)
		}
	}
	names := map[*want]string{}
	ask := func(tenant conversation.TenantID, name string) *want {
		w := &want{tenant: tenant}
		names[w] = name
		a.want(w)
		return w
	}
	ask("acme", "a1")
	ask("acme", "a2")
	gone := ask("acme", "a3")
	ask("acme", "a4")
	ask("beta", "b1")
	ask("beta", "b2")
	a.drop(gone)
	if a.quiet() || a.free() || a.try() {
		t.Error("somebody waits, and the next may pass")
	}
	var order []string
	for len(granted) < 5 {
		n := len(granted)
		a.give()
		if len(granted) != n+1 {
			t.Fatalf("a free slot went to %d", len(granted)-n)
		}
		order = append(order, names[granted[n]])
		if !a.take(granted[n]) || a.take(granted[n]) {
			t.Error("a grant is taken once")
		}
	}
	if want := []string{"a1", "b1", "a2", "b2", "a4"}; !slices.Equal(order, want) {
		t.Errorf("order %v, not %v", order, want)
	}
	a.force()
	if a.used != 3 {
		t.Errorf("%d in use", a.used)
	}
	a.give()
	a.give()
	if !a.free() {
		t.Error("nothing is free")
	}
	// A grant that is dropped goes to the next.
	a.force()
	first, second := ask("acme", "x"), ask("acme", "y")
	a.give()
	if first.state != wantGranted {
		t.Fatal("not granted")
	}
	a.drop(first)
	if second.state != wantGranted || a.take(first) || !a.take(second) {
		t.Error("a dropped grant is lost")
	}
	a.drop(second)
	a.give()
	a.give()
	if a.used != 0 || a.waiting != 0 || len(a.queues) != 0 || len(a.turns) != 0 {
		t.Errorf("left over: %d, %d, %v, %v", a.used, a.waiting, a.queues, a.turns)
	}
}

func session2(i int) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%015d", i))}
}

func TestAdmissionWaits(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.MaxConcurrent = 1 }, func(t *testing.T, w *world) {
		for i := range 4 {
			w.create(session2(i))
		}
		for i := range 4 {
			r := w.ok(w.tell(session2(i), say("a", "hello")))
			if started := r.Disposition == conversation.Started; started != (i == 0) {
				t.Errorf("session %d: %s", i, r.Disposition)
			}
		}
		// One that no longer wants its slot does not keep it.
		w.ok(w.tell(session2(1), conversation.Withdraw{By: ada, Message: "m1-" + conversation.MessageID(session2(1).Session)}))
		for _, i := range []int{0, 2, 3} {
			call := w.call()
			if call.Request.Session != session2(i).Session {
				t.Fatalf("%s is asked before %s", call.Request.Session, session2(i).Session)
			}
			call.Answer(actorstest.Text("hi"))
			synctest.Wait()
		}
	})
}

// Within a session the next task keeps the slot only when nobody else waits.
func TestSlotIsPassedOn(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.MaxConcurrent, w.cfg.Rules.Policy.Mode = 1, conversation.ModeQueue }, func(t *testing.T, w *world) {
		w.create(session2(0))
		w.create(session2(1))
		for i := range 3 {
			w.ok(w.tell(session2(0), say(fmt.Sprint(i), "hello")))
		}
		commits := len(w.store.Commits())
		w.reply(actorstest.Text("one"))
		if n := len(w.store.Commits()) - commits; n != 1 {
			t.Errorf("%d commits to end a task and start the next", n)
		}
		w.ok(w.tell(session2(1), say("a", "and me?")))
		w.reply(actorstest.Text("two"))
		if got := w.call().Request.Session; got != session2(1).Session {
			t.Errorf("%s is asked", got)
		}
		w.reply(actorstest.Text("you"))
		if got := w.call().Request.Session; got != session2(0).Session {
			t.Errorf("%s is asked", got)
		}
		w.reply(actorstest.Text("three"))
	})
}

// A slot goes back when it is durable that no task needs it, not before.
func TestSlotIsFreeWhenDurable(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.MaxConcurrent = 1 }, func(t *testing.T, w *world) {
		w.create(session2(0))
		w.create(session2(1))
		w.ok(w.tell(session2(0), say("a", "hello")))
		w.ok(w.tell(session2(1), say("a", "hello")))
		before := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindSessionUpdated))
		gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindResponse))
		title := "before the end"
		update := w.tell(session2(0), conversation.Update{Title: &title})
		w.silent(update)
		w.reply(actorstest.Text("one")) // in memory the task has ended now
		before.Release()
		w.ok(update)
		if n := len(w.model.Open()); n != 0 {
			t.Errorf("%d model calls while the end of the first is not stored", n)
		}
		gate.Release()
		w.reply(actorstest.Text("two"))
	})
}

// refused at the door, nothing stored; what joins or answers is not.
func TestAdmissionRejects(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.MaxConcurrent, w.cfg.OnFull = 1, OnFullReject }, func(t *testing.T, w *world) {
		for i := range 3 {
			w.create(session2(i))
		}
		w.ok(w.tell(session2(2), say("q", "ask me")))
		w.reply(actorstest.Use("x", conversation.ToolAsk, `{"question":"What?"}`)) // awaits; its slot is free
		first := w.ok(w.tell(session2(0), say("a", "hello")))
		before := len(w.store.Commits())
		err := w.refused(w.tell(session2(1), say("a", "hello")), conversation.Overloaded)
		if err.Message != conversation.DefaultPolicy().Texts.Overloaded || !err.Retryable() {
			t.Errorf("%+v", err)
		}
		if n := len(w.store.Commits()) - before; n != 0 {
			t.Errorf("%d commits", n)
		}
		if w.ok(w.tell(session2(0), say("b", "more"))).Disposition != conversation.Joined {
			t.Error("a message for the running task is not taken")
		}
		if r := w.ok(w.tell(session2(0), say("a", "hello"))); !r.Duplicate || r.Message != first.Message {
			t.Errorf("a repetition: %+v", r)
		}
		if w.ok(w.tell(session2(2), say("c", "this"))).Disposition != conversation.Answered {
			t.Error("an answer is not taken")
		}
		w.reply(actorstest.Text("hi"))
		for len(w.model.Open()) > 0 {
			w.model.Open()[0].Answer(actorstest.Text("hi"))
			synctest.Wait()
		}
		// The task is over: its message, told again, is still known.
		w.ok(w.tell(session2(1), say("a", "hello")))
		if !w.ok(w.tell(session2(0), say("a", "hello"))).Duplicate {
			t.Error("a repetition while all slots are taken")
		}
		w.reply(actorstest.Text("hi"))
	})
}

// N-02: what was queued when the process ended runs again by itself, and never
// more of it than there are slots.
func TestDue(t *testing.T) {
	const sessions = 200
	inWorld(t, func(w *world) { w.cfg.MaxConcurrent, w.cfg.DueParallel = 4, 8 }, func(t *testing.T, w *world) {
		for i := range sessions {
			w.create(session2(i))
			w.ok(w.tell(session2(i), say("a", "hello")))
		}
		w.restart()
		began := time.Now()
		if n := w.e.registry.count(); n != sessions {
			t.Errorf("%d of %d sessions were loaded", n, sessions)
		}
		done := map[conversation.SessionID]bool{}
		for len(done) < sessions {
			open := w.model.Open()
			// Those that were RUNNING do not ask for a slot.
			if limit := 4; len(open) == 0 || len(open) > limit && (len(done) > 0 || len(open) > 2*limit) {
				t.Fatalf("%d model calls are open after %d", len(open), len(done))
			}
			for _, c := range open {
				if done[c.Request.Session] {
					t.Fatalf("%s runs twice", c.Request.Session)
				}
				done[c.Request.Session] = true
				c.Answer(actorstest.Text("hi"))
			}
			synctest.Wait()
		}
		if waited := time.Since(began); waited > w.cfg.DueEvery {
			t.Errorf("it took %v", waited)
		}
	})
}

// Work that only time brings wakes a session that is not in memory.
func TestDueLater(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		w.reply(actorstest.Use("x", conversation.ToolAsk, `{"question":"Which?","expiresIn":"2h","default":"the first"}`))
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.e.registry.active(talk) {
			t.Fatal("still in memory")
		}
		time.Sleep(time.Hour + w.cfg.DueEvery)
		w.reply(actorstest.Text("the first, then"))
		if w.count(talk, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(w.stored(talk)))
		}
	})
}

// A command that starts nothing takes no slot, not even for a moment: with
// admission.on_full=reject others would be refused for it.
func TestNoSlotForNothing(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		s := &session{e: w.e, key: talk}
		for _, c := range []conversation.Command{conversation.Create{}, conversation.Seen{}, conversation.Update{}, conversation.AddPart{}} {
			if s.reserve(c) || w.slots() != 0 {
				t.Errorf("%s takes a slot", c.Name())
			}
		}
		if !s.reserve(say("a", "hello")) || w.slots() != 1 {
			t.Error("a message takes none")
		}
		w.e.admission.give()
	})
}
