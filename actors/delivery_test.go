package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// inBlockedWorld has a delegation with a question and a running tool, whose inbox
// is full: of two amendments one waits there, and one waits for room.
func inBlockedWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.cfg.Rules.Policy.MaxQueued = 1
		w.tools = map[string]conversation.Tool{"dig": &actorstest.Tool{
			Is: conversation.ToolSpec{Name: "dig", Timeout: time.Hour}, Do: untilCancelled,
		}}
	}, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "work")))
		w.reply(actorstest.Use("k1", conversation.ToolDelegate, `{"agent":"researcher","objective":"x","deadline":"50m"}`))
		w.reply(actorstest.Use("k2", conversation.ToolAsk, `{"question":"Which?","blocking":false}`), actorstest.Use("k3", "dig", `{}`))
		b := say("b", "use all colours")
		b.Mode = conversation.ModeSteer // not the answer
		w.ok(w.tell(talk, b))
		w.reply(
			actorstest.Use("k4", conversation.ToolAmend, `{"delegation":"d1","text":"red"}`),
			actorstest.Use("k5", conversation.ToolAmend, `{"delegation":"d1","text":"blue"}`))
		time.Sleep(3 * w.cfg.TellEvery)
		synctest.Wait()
		if n := w.count(sub, conversation.KindMessageAccepted); n != 2 {
			t.Fatalf("%d messages in the delegation, not the objective and one amendment: %v", n, kinds(w.stored(sub)))
		}
		f(t, w)
	})
}

// An answer does not wait behind an amendment that there is no room for, and the
// amendment is delivered when there is.
func TestAnswerPassesAmendment(t *testing.T) {
	inBlockedWorld(t, func(t *testing.T, w *world) {
		q := w.view(talk).Questions[0].Asked.Question
		w.ok(w.tell(talk, conversation.Answer{Author: ada, ClientMsgID: "y", Question: q, Text: "green"}))
		if w.count(sub, conversation.KindQuestionAnswered) != 1 {
			t.Errorf("the answer waits: %v", kinds(w.stored(sub)))
		}
		time.Sleep(w.cfg.TellEvery)
		synctest.Wait()
		if n := w.count(sub, conversation.KindMessageAccepted); n < 3 {
			t.Errorf("the last amendment did not arrive: %v", kinds(w.stored(sub)))
		}
	})
}

// A cancel does not wait either, and the amendment behind it begins nothing new.
func TestCancelPassesAmendment(t *testing.T) {
	inBlockedWorld(t, func(t *testing.T, w *world) {
		w.ok(w.tell(talk, conversation.Cancel{By: conversation.ByUser, Drop: true}))
		if w.count(sub, conversation.KindToolFinished) != 1 {
			t.Errorf("the delegation's tool goes on: %v", kinds(w.stored(sub)))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := w.count(sub, conversation.KindMessageAccepted); n != 2 {
			t.Errorf("%d messages in the cancelled delegation: %v", n, kinds(w.stored(sub)))
		}
		if n := len(w.model.Open()); n != 0 {
			t.Errorf("%d model calls are open", n)
		}
	})
}
