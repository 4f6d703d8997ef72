package actors

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// inFragileWorld has a machine that panics when wrong is decided: an approval that
// changes the arguments to some that the tool's check cannot bear.
func inFragileWorld(t *testing.T, f func(t *testing.T, w *world, wrong conversation.Command)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.cfg.Rules.Tools["rm"] = conversation.ToolRule{
			Spec: conversation.ToolSpec{Name: "rm", Approval: true},
			Check: func(args json.RawMessage) error {
				var m map[string]any
				_ = json.Unmarshal(args, &m)
				_ = m["path"].(string) // panics without it
				return nil
			},
		}
	}, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "work")))
		w.reply(actorstest.Use("k1", "rm", `{"path":"x"}`))
		q := w.view(talk).Questions[0].Asked.Question
		f(t, w, conversation.Answer{Author: ada, ClientMsgID: "y", Question: q, Text: `{"other":1}`})
	})
}

// A panic in Decide gives back the slot that was reserved for it.
func TestPanicGivesSlotBack(t *testing.T) {
	inFragileWorld(t, func(t *testing.T, w *world, wrong conversation.Command) {
		for range 3 {
			w.refused(w.tell(talk, wrong), conversation.Internal)
		}
		if n := w.slots(); n != 0 {
			t.Errorf("%d slots are used and nothing runs", n)
		}
	})
}

// A command that had to wait is answered too when deciding it panics.
func TestPanicAnswersHeldCommand(t *testing.T) {
	inFragileWorld(t, func(t *testing.T, w *world, wrong conversation.Command) {
		w.forget(talk)
		w.refused(w.tell(talk, wrong), conversation.Internal)
	})
}

// What a commit on its way has stored when the session panics is published by the
// next activation, which comes without being called.
func TestPanicDuringCommit(t *testing.T) {
	inFragileWorld(t, func(t *testing.T, w *world, wrong conversation.Command) {
		second := say("b", "second matter")
		second.Mode = conversation.ModeQueue
		w.ok(w.tell(talk, second))
		gate := w.store.Hold(persistencetest.AfterWrite, nil)
		w.call().Answer(actorstest.Text("done"))
		<-gate.Held()
		w.refused(w.tell(talk, wrong), conversation.Internal)
		gate.Release()
		time.Sleep(time.Second)
		synctest.Wait()
		w.whole(talk)
		if w.count(talk, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(w.stored(talk)))
		}
	})
}

// What was stored although the store was away for too long is published when it
// is back, and nobody has to ask.
func TestUnknownOutcomeIsPublished(t *testing.T) {
	inFaultyWorld(t, func(t *testing.T, w *world, store *faulty) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "work")))
		w.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, true })
		store.set("acquire", errLine)
		w.reply(actorstest.Text("hi"))
		time.Sleep(w.cfg.SettleTimeout + 10*time.Second)
		synctest.Wait()
		store.set("acquire", nil)
		w.store.FailCommit(nil)
		time.Sleep(w.cfg.TellEvery)
		synctest.Wait()
		w.whole(talk)
		if w.count(talk, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(w.stored(talk)))
		}
	})
}

// A child that fails is not restarted: a tool that is not idempotent runs once,
// and the model is told that nobody knows what became of it.
func TestFailedToolCall(t *testing.T) {
	withTool(t, conversation.ToolSpec{}, untilCancelled, func(t *testing.T, w *world, tool *actorstest.Tool) {
		synctest.Wait()
		for _, pid := range w.children(talk) {
			w.e.system.Root.Send(pid, (*toolEnd)(nil)) // it cannot be read
		}
		synctest.Wait()
		if f := w.finished(); f.Status != conversation.CallUnknown || tool.Runs() != 1 {
			t.Errorf("%+v after %d runs", f, tool.Runs())
		}
		w.reply(actorstest.Text("sorry"))
		time.Sleep(time.Minute)
	})
}

// The same for a delegation: its session is told to stop.
func TestFailedDelegation(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.delegated()
		for _, pid := range w.children(talk) {
			w.e.system.Root.Send(pid, (*route)(nil))
		}
		synctest.Wait()
		if f := w.ended(talk); f.Status != conversation.CallFailed {
			t.Errorf("%+v", f)
		}
		for _, c := range w.model.Open() {
			if c.Request.Session == sub.Session {
				t.Error("the delegation works on for nobody")
			}
		}
		w.reply(actorstest.Text("sorry"))
	})
}

// The way up is replaced when it fails: the answer arrives all the same.
func TestFailedUplink(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.delegated()
		w.reply(actorstest.Use("k2", conversation.ToolAsk, `{"question":"Which?"}`))
		for _, pid := range w.children(sub) {
			w.e.system.Root.Send(pid, (*letter)(nil))
		}
		synctest.Wait()
		q := w.view(talk).Questions[0].Asked.Question
		w.ok(w.tell(talk, conversation.Answer{Author: ada, ClientMsgID: "y", Question: q, Text: "red"}))
		w.reply(actorstest.Text("red it is"))
		if f := w.ended(talk); f.Status != conversation.CallOK {
			t.Errorf("%+v", f)
		}
		w.reply(actorstest.Text("done"))
	})
}
