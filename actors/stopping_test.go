package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// A node that stops starts no task, although its last answer makes room for one.
func TestDrainStartsNoTask(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.Rules.Policy.Mode = conversation.ModeQueue }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "one")))
		h.ok(h.tell(mainKey, say("b", "two")))
		call := h.call()
		done := h.drain(t.Context())
		call.Answer(actorstest.Text("done"))
		if err := <-done; err != nil {
			t.Error(err)
		}
		row, err := h.store.Task(t.Context(), mainKey, conversation.TaskID("t2-"+string(mainKey.Session)))
		if err != nil || row.Status != conversation.TaskQueued {
			t.Errorf("the second task is %s, %v", row.Status, err)
		}
	})
}

// A tool that ends in time is waited for: its result is known after the restart.
func TestDrainWaitsForTools(t *testing.T) {
	var release chan struct{} // made in the bubble
	withTool(t, conversation.ToolSpec{}, func(context.Context, conversation.ToolCall) (string, error) {
		release = make(chan struct{})
		<-release
		return "done", nil
	}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
		done := h.drain(t.Context())
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if end := h.finished(); end.Status != conversation.CallOK || end.Summary != "done" {
			t.Errorf("the call ended as %s: %s", end.Status, end.Summary)
		}
	})
}

// A command that the store is being asked about when the node begins to stop was
// taken: it is decided and answered before its session leaves.
func TestDrainWaitsForLookups(t *testing.T) {
	slow := &slowFind{}
	withHarness(t, func(h *harness) {
		slow.Store, slow.wait = h.store, make(chan struct{})
		h.through = slow
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		asked := h.tell(mainKey, conversation.AddPart{Author: ada, Source: "build-7", Text: "done"})
		h.silent(asked)
		done := h.drain(t.Context())
		h.silent(asked)
		close(slow.wait)
		if err := <-done; err != nil {
			t.Error(err)
		}
		h.ok(asked)
	})
}

// A session does not leave memory before its commit has ended, however long the
// disk takes.
func TestIdleSessionWaitsForItsCommit(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindSessionUpdated))
		title := "another one"
		update := h.tell(mainKey, conversation.Update{Title: &title})
		h.silent(update)
		time.Sleep(3 * h.cfg.Idle)
		h.silent(update)
		gate.Release()
		h.ok(update)
	})
}

// A session that leaves memory after enough events is stored as a snapshot, so
// that it need not be read from its first event on.
func TestSnapshotOnIdle(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.cfg.SnapshotEvery, h.cfg.SnapshotOnIdle = 1000, 5
		h.model.Auto = func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		time.Sleep(h.cfg.Idle)
		synctest.Wait()
		if h.active(mainKey) {
			t.Fatal("the session is in memory")
		}
		if head, err := h.store.Head(t.Context(), mainKey); err != nil || head.SnapshotAt != head.Last {
			t.Errorf("the snapshot is at %d of %d, %v", head.SnapshotAt, head.Last, err)
		}
	})
}
