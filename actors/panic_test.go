package actors

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// withBrokenMachine has a machine that panics when wrong is decided: an approval that
// changes the arguments to some that the tool's check cannot bear.
func withBrokenMachine(t *testing.T, f func(t *testing.T, h *harness, wrong conversation.Command)) {
	t.Helper()
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Tools["rm"] = conversation.ToolRule{
			Spec: conversation.ToolSpec{Name: "rm", Approval: true},
			Check: func(args json.RawMessage) error {
				var m map[string]any
				_ = json.Unmarshal(args, &m)
				_ = m["path"].(string) // panics without it
				return nil
			},
		}
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		h.reply(actorstest.Use("k1", "rm", `{"path":"x"}`))
		q := h.view(mainKey).Questions[0].Asked.Question
		f(t, h, conversation.Answer{Author: ada, ClientMsgID: "y", Question: q, Text: `{"other":1}`})
	})
}

// A panic in Decide gives back the slot that was reserved for it.
func TestPanicGivesSlotBack(t *testing.T) {
	withBrokenMachine(t, func(t *testing.T, h *harness, wrong conversation.Command) {
		for range 3 {
			h.refused(h.tell(mainKey, wrong), conversation.Internal)
		}
		if n := h.slots(); n != 0 {
			t.Errorf("%d slots are used and nothing runs", n)
		}
	})
}

// A command that had to wait is answered too when deciding it panics.
func TestPanicAnswersHeldCommand(t *testing.T) {
	withBrokenMachine(t, func(t *testing.T, h *harness, wrong conversation.Command) {
		h.forget(mainKey)
		h.refused(h.tell(mainKey, wrong), conversation.Internal)
	})
}

// What a commit on its way has stored when the session panics is published by the
// next activation, which comes without being called.
func TestPanicDuringCommit(t *testing.T) {
	withBrokenMachine(t, func(t *testing.T, h *harness, wrong conversation.Command) {
		second := say("b", "second matter")
		second.Mode = conversation.ModeQueue
		h.ok(h.tell(mainKey, second))
		gate := h.store.Hold(persistencetest.AfterWrite, nil)
		h.call().Answer(actorstest.Text("done"))
		<-gate.Held()
		h.refused(h.tell(mainKey, wrong), conversation.Internal)
		gate.Release()
		time.Sleep(time.Second)
		synctest.Wait()
		h.assertComplete(mainKey)
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
	})
}

// What was stored although the store was away for too long is published when it
// is back, without a further command.
func TestUnknownOutcomeIsPublished(t *testing.T) {
	withFaultyStore(t, func(t *testing.T, h *harness, store *faulty) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, true })
		store.set("acquire", errLine)
		h.reply(actorstest.Text("hi"))
		time.Sleep(h.cfg.SettleTimeout + 10*time.Second)
		synctest.Wait()
		store.set("acquire", nil)
		h.store.FailCommit(nil)
		time.Sleep(h.cfg.TellEvery)
		synctest.Wait()
		h.assertComplete(mainKey)
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
	})
}

// unreadable is a message that makes its receiver panic, whatever actor that is.
type unreadable struct{}

func (unreadable) GetAutoResponse(actor.Context) any { panic("unreadable") }

// A child that fails is not restarted: a tool that is not idempotent runs once,
// and the model is told that its outcome is unknown.
func TestFailedToolCall(t *testing.T) {
	withTool(t, conversation.ToolSpec{}, untilCancelled, func(t *testing.T, h *harness, tool *actorstest.Tool) {
		synctest.Wait()
		for _, pid := range h.children(mainKey) {
			h.e.system.Root.Send(pid, unreadable{})
		}
		synctest.Wait()
		if f := h.finished(); f.Status != conversation.CallUnknown || tool.Runs() != 1 {
			t.Errorf("%+v after %d runs", f, tool.Runs())
		}
		h.reply(actorstest.Text("sorry"))
		time.Sleep(time.Minute)
	})
}

// The same for a delegation: its session is told to stop.
func TestFailedDelegation(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.delegated()
		for _, pid := range h.children(mainKey) {
			h.e.system.Root.Send(pid, unreadable{})
		}
		synctest.Wait()
		if f := h.ended(mainKey); f.Status != conversation.CallFailed {
			t.Errorf("%+v", f)
		}
		for _, c := range h.model.Open() {
			if c.Request.Session == sub.Session {
				t.Error("the delegation works on although its parent has given it up")
			}
		}
		h.reply(actorstest.Text("sorry"))
	})
}

// The way up is replaced when it fails: the answer arrives all the same.
func TestFailedUplink(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.delegated()
		h.reply(actorstest.Use("k2", conversation.ToolAsk, `{"question":"Which?"}`))
		for _, pid := range h.children(sub) {
			h.e.system.Root.Send(pid, unreadable{})
		}
		synctest.Wait()
		q := h.view(mainKey).Questions[0].Asked.Question
		h.ok(h.tell(mainKey, conversation.Answer{Author: ada, ClientMsgID: "y", Question: q, Text: "red"}))
		h.reply(actorstest.Text("red it is"))
		if f := h.ended(mainKey); f.Status != conversation.CallOK {
			t.Errorf("%+v", f)
		}
		h.reply(actorstest.Text("done"))
	})
}
