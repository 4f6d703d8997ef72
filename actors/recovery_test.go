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
	other := conversation.SessionKey{Tenant: mainKey.Tenant, Session: "bbbbbbbbbbbbbbbb"}
	withHarness(t, func(h *harness) { h.cfg.MaxConcurrent = 1 }, func(t *testing.T, h *harness) {
		h.create(other)
		h.create(mainKey)
		h.ok(h.tell(other, say("o", "long work")))
		s := say("a", "hello")
		s.Mode = conversation.ModeCollect
		h.ok(h.tell(mainKey, s))
		time.Sleep(5 * time.Second) // the window is over; it waits for a slot
		seen := h.tell(mainKey, conversation.Seen{User: ada, Seq: 2})
		time.Sleep(h.cfg.SeenEvery)
		h.ok(seen)
		h.restart()
		for range 2 { // the other one's step goes on and ends, and there is a slot
			time.Sleep(time.Minute)
			for _, call := range h.model.Open() {
				call.Answer(actorstest.Text("done"))
			}
		}
		synctest.Wait()
		if n := h.count(mainKey, conversation.KindResponse); n != 1 {
			t.Errorf("an acknowledged message has %d answers: %v", n, kinds(h.stored(mainKey)))
		}
	})
}

// N-09: a message that waits for an outside runtime keeps nothing in memory, and
// its parts find it there again.
func TestOutsideSessionLeavesMemory(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.createAs(mainKey, conversation.Create{Owner: ada, Agent: conversation.External})
		first := h.ok(h.tell(mainKey, say("a", "one")))
		h.ok(h.tell(mainKey, say("b", "two")))
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if h.active(mainKey) {
			t.Error("in memory after two idle days")
		}
		h.ok(h.tell(mainKey, conversation.AddPart{Author: ada, Source: string(first.Message), Text: "1", Final: true}))
		h.assertComplete(mainKey)
	})
}

// N-01: a session goes on without a snapshot if none can be made of it.
func TestNoSnapshotCanBeMade(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.SnapshotEvery, h.cfg.SnapshotOnIdle = 4, 1 }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		head, err := h.store.Acquire(t.Context(), mainKey, conversation.AcquireHow{})
		if err != nil {
			t.Fatal(err)
		}
		// An older program has stored a time of the year 10000.
		late := conversation.Asked{Question: "q1", Text: "When?", ExpiresAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
		task := h.view(mainKey).Tasks[0].Task
		summary, err := h.store.Summary(t.Context(), mainKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.store.Commit(t.Context(), mainKey, conversation.Commit{
			Epoch: head.Epoch, After: head.Last, ID: "older", Summary: summary, WakeAt: time.Now(),
			Events: []conversation.Event{{Seq: head.Last + 1, At: time.Now(), Task: task, Body: late}},
		}); err != nil {
			t.Fatal(err)
		}
		h.restart()
		for i := range 20 {
			title := fmt.Sprint("title ", i)
			h.ok(h.tell(mainKey, conversation.Update{Title: &title}))
		}
		time.Sleep(48 * time.Hour)
		h.ok(h.tell(mainKey, say("b", "more")))
	})
}

// N-04 N-08: a delegation's question expires, and the process dies before the
// parent has heard of it. After the start the parent does not ask any more: what
// its user says next is a message, not an answer to a closed question.
func TestQuestionClosedUnheard(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.ModelIdle, h.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, h *harness) {
		h.delegated()
		h.reply(actorstest.Use("k2", conversation.ToolAsk, `{"question":"Which?","expiresIn":"30s","default":"red"}`))
		synctest.Wait()
		if n := len(h.view(mainKey).Questions); n != 1 {
			t.Fatalf("%d questions", n)
		}
		gate := h.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, c conversation.Commit) bool {
			return key == mainKey && len(c.Events) > 0
		})
		time.Sleep(30 * time.Second)
		<-gate.Held()
		synctest.Wait()
		h.restart()
		time.Sleep(time.Second)
		synctest.Wait()
		if v := h.view(mainKey); len(v.Questions) != 0 || v.Tasks[0].Status != conversation.TaskRunning {
			t.Errorf("the parent is %s with %d questions", v.Tasks[0].Status, len(v.Questions))
		}
		said := h.ok(h.tell(mainKey, say("b", "By the way, please also book a table")))
		if said.Disposition != conversation.Joined {
			t.Errorf("the message is %s", said.Disposition)
		}
		h.assertComplete(mainKey)
		h.assertComplete(sub)
	})
}

// N-06 N-08: a delegation has timed out, and the process dies before it has
// stored its cancel. After the start it asks whether it is still waited for.
func TestOrphanIsStopped(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.ModelIdle, h.cfg.ModelLimit = time.Hour, time.Hour }, func(t *testing.T, h *harness) {
		h.delegated()
		gate := h.store.Hold(persistencetest.BeforeWrite, func(key conversation.SessionKey, c conversation.Commit) bool {
			return key == sub && len(c.Events) > 0
		})
		time.Sleep(10 * time.Minute) // its deadline: the parent goes on without it
		<-gate.Held()
		synctest.Wait()
		if f := h.ended(mainKey); f.Status != conversation.CallTimeout {
			t.Fatalf("%+v", f)
		}
		h.restart()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, call := range h.model.Open() {
			if call.Request.Session == sub.Session {
				t.Error("it works although no task waits for it")
			}
		}
		h.assertComplete(sub)
	})
}

// lateModel is a model that answers after its call was given up.
type lateModel struct{ *actorstest.Model }

func (lateModel) Stream(ctx context.Context, _ conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		<-ctx.Done()
		yield(conversation.Output{Done: &conversation.ModelAnswer{Usage: conversation.Usage{InputTokens: 7, OutputTokens: 3}}}, nil)
	}
}

// N-14, MACHINE.md, rule 1.10: an answer that comes after the stop is dropped; what it has
// cost is counted.
func TestLateAnswerIsCounted(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.models = map[string]conversation.Model{"": lateModel{h.model}}
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		synctest.Wait()
		h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
		synctest.Wait()
		for kind, want := range map[string]float64{"input": 7, "output": 3} {
			if got := h.counts("parley_model_tokens_total")[kind]; got != want {
				t.Errorf("%v %s tokens instead of %v", got, kind, want)
			}
		}
	})
}
