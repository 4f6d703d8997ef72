package actors

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// N-01 N-02: a message that has waited out its collect window is due, also when
// only a read cursor is stored after that and then the process dies.
func TestCollectedMessageIsDue(t *testing.T) {
	other := conversation.SessionKey{Tenant: talk.Tenant, Session: "bbbbbbbbbbbbbbbb"}
	inWorld(t, func(w *world) { w.cfg.MaxConcurrent = 1 }, func(t *testing.T, w *world) {
		w.create(other)
		w.create(talk)
		w.ok(w.tell(other, say("o", "long work")))
		s := say("a", "hello")
		s.Mode = conversation.ModeCollect
		w.ok(w.tell(talk, s))
		time.Sleep(5 * time.Second) // the window is over; it waits for a slot
		seen := w.tell(talk, conversation.Seen{User: ada, Seq: 2})
		time.Sleep(w.cfg.SeenEvery)
		w.ok(seen)
		w.restart()
		for range 2 { // the other one's step goes on and ends, and there is a slot
			time.Sleep(time.Minute)
			for _, call := range w.model.Open() {
				call.Answer(actorstest.Text("done"))
			}
		}
		synctest.Wait()
		if n := w.count(talk, conversation.KindResponse); n != 1 {
			t.Errorf("an acknowledged message has %d answers: %v", n, kinds(w.stored(talk)))
		}
	})
}

// N-09: a message that waits for an outside runtime keeps nothing in memory, and
// its parts find it there again.
func TestOutsideSessionLeavesMemory(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.createAs(talk, conversation.Create{Owner: ada, Agent: conversation.Outside})
		first := w.ok(w.tell(talk, say("a", "one")))
		w.ok(w.tell(talk, say("b", "two")))
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if w.e.registry.active(talk) {
			t.Error("in memory after two idle days")
		}
		w.ok(w.tell(talk, conversation.AddPart{Author: ada, Source: string(first.Message), Text: "1", Final: true}))
		w.whole(talk)
	})
}

// N-01: a session goes on without a snapshot if none can be made of it.
func TestNoSnapshotCanBeMade(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.SnapshotEvery, w.cfg.SnapshotOnIdle = 4, 1 }, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "work")))
		head, err := w.store.Acquire(t.Context(), talk, conversation.AcquireHow{})
		if err != nil {
			t.Fatal(err)
		}
		// An older program has stored a time of the year 10000.
		late := conversation.Asked{Question: "q1", Text: "When?", ExpiresAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
		task := w.view(talk).Tasks[0].Task
		summary, err := w.store.Summary(t.Context(), talk)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.Commit(t.Context(), talk, conversation.Commit{
			Epoch: head.Epoch, After: head.Last, ID: "older", Summary: summary, WakeAt: time.Now(),
			Events: []conversation.Event{{Seq: head.Last + 1, At: time.Now(), Task: task, Body: late}},
		}); err != nil {
			t.Fatal(err)
		}
		w.restart()
		for i := range 20 {
			title := fmt.Sprint("title ", i)
			w.ok(w.tell(talk, conversation.Update{Title: &title}))
		}
		time.Sleep(48 * time.Hour)
		w.ok(w.tell(talk, say("b", "more")))
	})
}

// N-04 N-08: a delegation's question expires, and the process dies before the
// parent has heard of it. After the start the parent does not ask any more: what
// its user says next is a message, not an answer to nobody.
func TestQuestionClosedUnheard(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.ModelIdle, w.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, w *world) {
		w.delegated()
		w.reply(actorstest.Use("k2", conversation.ToolAsk, `{"question":"Which?","expiresIn":"30s","default":"red"}`))
		synctest.Wait()
		if n := len(w.view(talk).Questions); n != 1 {
			t.Fatalf("%d questions", n)
		}
		gate := w.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, c conversation.Commit) bool {
			return key == talk && len(c.Events) > 0
		})
		time.Sleep(30 * time.Second)
		<-gate.Held()
		synctest.Wait()
		w.restart()
		time.Sleep(time.Second)
		synctest.Wait()
		if v := w.view(talk); len(v.Questions) != 0 || v.Tasks[0].Status != conversation.TaskRunning {
			t.Errorf("the parent is %s with %d questions", v.Tasks[0].Status, len(v.Questions))
		}
		said := w.ok(w.tell(talk, say("b", "By the way, please also book a table")))
		if said.Disposition != conversation.Joined {
			t.Errorf("the message is %s", said.Disposition)
		}
		w.whole(talk)
		w.whole(sub)
	})
}

// N-06 N-08: a delegation has timed out, and the process dies before it has
// stored its cancel. After the start it asks whether it is still waited for.
func TestOrphanIsStopped(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.ModelIdle, w.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, w *world) {
		w.delegated()
		gate := w.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, c conversation.Commit) bool {
			return key == sub && len(c.Events) > 0
		})
		time.Sleep(10 * time.Minute) // its deadline: the parent goes on without it
		<-gate.Held()
		synctest.Wait()
		if f := w.ended(talk); f.Status != conversation.CallTimeout {
			t.Fatalf("%+v", f)
		}
		w.restart()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, call := range w.model.Open() {
			if call.Request.Session == sub.Session {
				t.Error("it works for nobody")
			}
		}
		w.whole(sub)
	})
}

// lateModel is a model that answers when nobody waits any more.
type lateModel struct{ *actorstest.Model }

func (lateModel) Stream(ctx context.Context, _ conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		<-ctx.Done()
		yield(conversation.Output{Done: &conversation.ModelAnswer{Usage: conversation.Usage{InputTokens: 7, OutputTokens: 3}}}, nil)
	}
}

// N-14, machine.md 1: an answer that comes after the stop is dropped; what it has
// cost is counted.
func TestLateAnswerIsCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.models = map[string]conversation.Model{"": lateModel{w.model}}
	}, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "work")))
		synctest.Wait()
		w.ok(w.tell(talk, conversation.Cancel{By: conversation.ByUser}))
		synctest.Wait()
		for kind, want := range map[string]float64{"input": 7, "output": 3} {
			if got := w.counts("parley_model_tokens_total")[kind]; got != want {
				t.Errorf("%v %s tokens instead of %v", got, kind, want)
			}
		}
	})
}
