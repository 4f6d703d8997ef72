package actors

import (
	"context"
	"testing"

	"parley/actors/actorstest"
	"parley/actors/internal/refusal"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// Of what several decisions have gathered for one commit nothing is lost: each
// key is stored, and of a task's rows the last one.
func TestGatheredKeysAndRows(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.Rules.Policy.Mode = conversation.ModeQueue }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
		var answers []*answer
		var keys []conversation.Key
		for _, id := range []string{"a", "b", "c"} {
			answers = append(answers, h.tell(mainKey, say(id, "text")))
			keys = append(keys, conversation.Key{Author: ada, Client: conversation.ClientMsgID(id)})
		}
		second := "-" + string(mainKey.Session)
		answers = append(answers, h.tell(mainKey, conversation.Withdraw{By: ada, Message: conversation.MessageID("m2" + second)}))
		for _, a := range answers {
			h.silent(a)
		}
		before := len(h.store.Commits())
		gate.Release()
		for _, a := range answers {
			h.ok(a)
		}
		if n := len(h.store.Commits()) - before; n != 2 {
			t.Fatalf("%d commits for one message and what came behind it, not 2", n)
		}
		seqs, err := h.store.Find(t.Context(), mainKey, keys)
		if err != nil || seqs[0] == 0 || seqs[1] <= seqs[0] || seqs[2] <= seqs[1] {
			t.Errorf("the messages' keys are stored at %v, %v", seqs, err)
		}
		row, err := h.store.Task(t.Context(), mainKey, conversation.TaskID("t2"+second))
		if err != nil || row.Status != conversation.TaskCancelled {
			t.Errorf("the task whose message was withdrawn is %s, %v", row.Status, err)
		}
		h.reply(actorstest.Text("one"))
		h.reply(actorstest.Text("three"))
		h.assertComplete(mainKey)
	})
}

// unsure is a store whose filter knows of no key that it is new.
type unsure struct{ conversation.Store }

func (unsure) MayHold(conversation.SessionKey, conversation.Key) bool { return true }

// slowFind is one that takes its time to look for keys.
type slowFind struct {
	unsure
	wait chan struct{}
}

func (s *slowFind) Find(ctx context.Context, key conversation.SessionKey, keys []conversation.Key) ([]conversation.Seq, error) {
	<-s.wait
	return s.Store.Find(ctx, key, keys)
}

// A command that the store is being asked about is answered when its session
// leaves memory meanwhile.
func TestSessionLeavesDuringLookup(t *testing.T) {
	slow := &slowFind{}
	withHarness(t, func(h *harness) {
		slow.Store, slow.wait = h.store, make(chan struct{})
		h.through = slow
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		asked := h.tell(mainKey, conversation.AddPart{Author: ada, Source: "build-7", Text: "done"})
		h.silent(asked)
		h.e.registry.Deliver(mainKey, &unloadNow{reason: "idle", err: refusal.Unreachable()}, false)
		h.refused(asked, conversation.Unavailable)
		close(slow.wait)
		h.ok(h.tell(mainKey, conversation.AddPart{Author: ada, Source: "build-7", Text: "done"}))
	})
}

// So is one that waits for the commit of its read cursor.
func TestSessionLeavesBeforeItsCursors(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		seen := h.tell(mainKey, conversation.Seen{User: ada, Seq: 1})
		h.silent(seen)
		h.e.registry.Deliver(mainKey, &unloadNow{reason: "idle", err: refusal.Unreachable()}, false)
		h.refused(seen, conversation.Unavailable)
	})
}
