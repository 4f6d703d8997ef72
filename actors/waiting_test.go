package actors

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

const kib = 1 << 10

// measured is the value of a metric, of the series with this label.
func (h *harness) measured(name, label string) (v float64) {
	h.t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				v += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return v
}

// The texts that wait in one session are counted in bytes as well, wherever in it
// they wait: while the disk stands still, a few large ones are as much as thousands
// of small ones.
func TestWaitingBytes(t *testing.T) {
	for _, c := range []struct {
		name  string
		stall func(*harness) *persistencetest.Gate // nothing is answered until its Release
		tell  func(i int) conversation.Command
	}{
		{
			"for a commit",
			func(h *harness) *persistencetest.Gate {
				return h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
			},
			func(i int) conversation.Command { return say(string(rune('a'+i)), strings.Repeat("x", 100*kib)) },
		},
		{
			"for a look-up",
			func(h *harness) *persistencetest.Gate {
				return h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindPartialResponse))
			},
			func(i int) conversation.Command {
				return conversation.AddPart{Author: ada, Source: "n", Index: conversation.PartIndex(i), Text: strings.Repeat("x", 100*kib)}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			withHarness(t, func(h *harness) { h.cfg.MaxWaitingBytes = 512 * kib }, func(t *testing.T, h *harness) {
				h.createAs(mainKey, conversation.Create{Owner: ada, Agent: conversation.External})
				gate := c.stall(h)
				var taken []*answer
				for i := range 5 {
					taken = append(taken, h.tell(mainKey, c.tell(i)))
					h.silent(taken[i])
				}
				if n := h.measured("parley_commands_waiting_bytes", ""); n != 500*kib {
					t.Errorf("%v bytes are shown to wait", n)
				}
				for i := range 3 {
					h.refused(h.tell(mainKey, c.tell(5+i)), conversation.Overloaded)
				}
				if n := h.measured("parley_refusals_total", "session_bytes"); n != 3 {
					t.Errorf("%v refusals are counted", n)
				}
				small := h.tell(mainKey, conversation.Update{Title: new("fits")})
				stop := h.tell(mainKey, conversation.Cancel{By: conversation.ByUser, Reason: strings.Repeat("x", 100*kib)})
				h.silent(small)
				h.silent(stop) // N-06: taken, whatever waits
				gate.Release()
				for _, a := range append(taken, small) {
					h.ok(a)
				}
				if n := h.measured("parley_commands_waiting_bytes", ""); n != 0 {
					t.Errorf("%v bytes are shown to wait afterwards", n)
				}
				h.ok(h.tell(mainKey, c.tell(5))) // there is room again
			})
		})
	}
	t.Run("one that is larger than the limit fits alone", func(t *testing.T) {
		withHarness(t, func(h *harness) { h.cfg.MaxWaitingBytes = 10 }, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", strings.Repeat("x", 100*kib))))
			h.reply(actorstest.Text("hi"))
		})
	})
	t.Run("across a failed commit", func(t *testing.T) {
		withHarness(t, func(h *harness) { h.cfg.MaxWaitingBytes = 150 * kib }, func(t *testing.T, h *harness) {
			h.createAs(mainKey, conversation.Create{Owner: ada, Agent: conversation.External})
			h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) {
				return conversation.ErrConflict, false
			})
			for range 3 {
				h.refused(h.tell(mainKey, say("a", strings.Repeat("x", 100*kib))), conversation.Unavailable)
			}
			h.store.FailCommit(nil)
			h.ok(h.tell(mainKey, say("a", strings.Repeat("x", 100*kib))))
			if n := h.measured("parley_commands_waiting_bytes", ""); n != 0 {
				t.Errorf("%v bytes are shown to wait", n)
			}
		})
	})
}

// Commands that wait for their read cursor to be stored are counted among those
// that wait for a commit.
func TestWaitingCursors(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.MaxPending = 3 }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		var answers []*answer
		for range 3 {
			answers = append(answers, h.tell(mainKey, conversation.Seen{User: ada, Seq: 1}))
		}
		h.silent(answers[2])
		h.refused(h.tell(mainKey, conversation.Seen{User: ada, Seq: 1}), conversation.Overloaded)
		time.Sleep(h.cfg.SeenEvery)
		for _, a := range answers {
			h.ok(a)
		}
		again := h.tell(mainKey, conversation.Seen{User: ada, Seq: 1})
		time.Sleep(h.cfg.SeenEvery)
		h.ok(again)
	})
}

// A read cursor that was told right before a drain is stored with it.
func TestCursorBeforeDrain(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		seen := h.tell(mainKey, conversation.Seen{User: ada, Seq: 1})
		h.silent(seen)
		if err := <-h.drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.ok(seen)
		h.restart()
		for s, err := range h.store.Sessions(t.Context(), conversation.Page{Tenant: mainKey.Tenant, For: ada}) {
			if err != nil || s.Seen != 1 {
				t.Errorf("seen %d, %v", s.Seen, err)
			}
		}
	})
}

// A snapshot that is ahead of the log is of another log, whatever it says: a copy
// of a store may bring a file of another time along.
func TestSnapshotAheadOfTheLog(t *testing.T) {
	store := &racing{}
	withHarness(t, func(h *harness) {
		h.cfg.SnapshotEvery = 1
		h.model.Auto = func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }
		store.Store, h.through = h.store, store
	}, func(t *testing.T, h *harness) {
		// The same session with a longer log, in another store.
		other := &racing{Store: persistencetest.NewMemory()}
		mine := h.through
		h.stop()
		h.through, h.store = other, other.Store.(*persistencetest.Memory)
		h.start()
		h.create(mainKey)
		for _, id := range []string{"a", "b", "c"} {
			h.ok(h.tell(mainKey, say(id, "hello")))
		}
		ahead, err := h.store.Head(t.Context(), mainKey)
		if err != nil || ahead.Snapshot == nil {
			t.Fatalf("%+v, %v", ahead, err)
		}
		h.stop()
		h.through, h.store = mine, store.Store.(*persistencetest.Memory)
		h.start()
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.forget(mainKey)
		store.onAcquire(func(head *conversation.Head) {
			if head.Last >= ahead.SnapshotAt {
				t.Errorf("the log reaches %d, the snapshot %d", head.Last, ahead.SnapshotAt)
			}
			head.Snapshot, head.SnapshotAt = ahead.Snapshot, ahead.SnapshotAt
		})
		last := conversation.Seq(len(h.stored(mainKey)))
		if v := h.view(mainKey); v.Head != last {
			t.Errorf("the view is of %d, the log ends at %d", v.Head, last)
		}
		if r := h.ok(h.tell(mainKey, say("b", "hello"))); r.Duplicate || r.Seq != last+1 {
			t.Errorf("%+v behind %d", r, last)
		}
		store.onAcquire(nil)
		synctest.Wait()
	})
}
