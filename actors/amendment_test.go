package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// withStalledSession has a delegation with a question and a running tool, whose inbox
// is full: of two amendments one waits there, and one waits for room.
func withStalledSession(t *testing.T, f func(t *testing.T, h *harness)) {
	t.Helper()
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Policy.MaxQueued = 1
		h.tools = map[string]conversation.Tool{"dig": &actorstest.Tool{
			Is: conversation.ToolSpec{Name: "dig", Timeout: time.Hour}, Do: untilCancelled,
		}}
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		h.reply(actorstest.Use("k1", conversation.ToolDelegate, `{"agent":"researcher","objective":"x","deadline":"50m"}`))
		h.reply(actorstest.Use("k2", conversation.ToolAsk, `{"question":"Which?","blocking":false}`), actorstest.Use("k3", "dig", `{}`))
		b := say("b", "use all colours")
		b.Mode = conversation.ModeSteer // not the answer
		h.ok(h.tell(mainKey, b))
		h.reply(
			actorstest.Use("k4", conversation.ToolAmend, `{"delegation":"d1","text":"red"}`),
			actorstest.Use("k5", conversation.ToolAmend, `{"delegation":"d1","text":"blue"}`))
		time.Sleep(3 * h.cfg.TellEvery)
		synctest.Wait()
		if n := h.count(sub, conversation.KindMessageAccepted); n != 2 {
			t.Fatalf("%d messages in the delegation, not the objective and one amendment: %v", n, kinds(h.stored(sub)))
		}
		f(t, h)
	})
}

// An answer does not wait behind an amendment that there is no room for, and the
// amendment is delivered when there is.
func TestAnswerPassesAmendment(t *testing.T) {
	withStalledSession(t, func(t *testing.T, h *harness) {
		q := h.view(mainKey).Questions[0].Asked.Question
		h.ok(h.tell(mainKey, conversation.Answer{Author: ada, ClientMsgID: "y", Question: q, Text: "green"}))
		if h.count(sub, conversation.KindQuestionAnswered) != 1 {
			t.Errorf("the answer waits: %v", kinds(h.stored(sub)))
		}
		time.Sleep(h.cfg.TellEvery)
		synctest.Wait()
		if n := h.count(sub, conversation.KindMessageAccepted); n < 3 {
			t.Errorf("the last amendment did not arrive: %v", kinds(h.stored(sub)))
		}
	})
}

// A cancel does not wait either, and the amendment behind it begins nothing new.
func TestCancelPassesAmendment(t *testing.T) {
	withStalledSession(t, func(t *testing.T, h *harness) {
		h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser, Drop: true}))
		if h.count(sub, conversation.KindToolFinished) != 1 {
			t.Errorf("the delegation's tool goes on: %v", kinds(h.stored(sub)))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := h.count(sub, conversation.KindMessageAccepted); n != 2 {
			t.Errorf("%d messages in the cancelled delegation: %v", n, kinds(h.stored(sub)))
		}
		if n := len(h.model.Open()); n != 0 {
			t.Errorf("%d model calls are open", n)
		}
	})
}
