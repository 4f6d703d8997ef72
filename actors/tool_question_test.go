package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// asksUser is a tool that asks, and says what it was answered.
func asksUser(ctx context.Context, c conversation.ToolCall) (string, error) {
	return c.Ask(ctx, conversation.ToolQuestion{Text: "Which nail?", Choices: []string{"long", "short"}})
}

// open is the only question that is open.
func (h *harness) openQuestion(key conversation.SessionKey) conversation.Asked {
	h.t.Helper()
	synctest.Wait()
	v := h.view(key)
	if len(v.Questions) != 1 || len(v.Tasks) != 1 {
		h.t.Fatalf("%+v", v)
	}
	return v.Questions[0].Asked
}

// N-04: a tool asks in the middle of its call. Its task waits without a slot, the tool has
// the answer when it is durable, and its time stands still until then.
func TestToolAsksItsUser(t *testing.T) {
	withTool(t, conversation.ToolSpec{Timeout: time.Minute}, asksUser, func(t *testing.T, h *harness, tool *actorstest.Tool) {
		if q := h.openQuestion(mainKey); q.Text != "Which nail?" || !q.Blocking || q.Call != "c1" {
			t.Fatalf("%+v", q)
		}
		if v := h.view(mainKey); v.Tasks[0].Status != conversation.TaskAwaiting || h.slots() != 0 {
			t.Errorf("%+v, %d slots", v.Tasks, h.slots())
		}
		time.Sleep(time.Hour)
		h.ok(h.tell(mainKey, say("b", "2")))
		if f := h.finished(); f.Status != conversation.CallOK || f.Summary != "short" || tool.Runs() != 1 {
			t.Errorf("%+v", f)
		}
		h.reply(actorstest.Text("done"))
		h.assertComplete(mainKey)
	})
}

// A cancel ends the question and the tool; a crash ends them too, and what the tool did
// is not known.
func TestToolsQuestionCloses(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(h *harness)
		status conversation.CallStatus
	}{
		{"cancelled", func(h *harness) { h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser})) }, conversation.CallCancelled},
		{"crashed", (*harness).restart, conversation.CallUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := make(chan error, 1)
			withTool(t, conversation.ToolSpec{}, func(ctx context.Context, call conversation.ToolCall) (string, error) {
				_, err := asksUser(ctx, call)
				told <- err
				return "", err
			}, func(t *testing.T, h *harness, _ *actorstest.Tool) {
				h.openQuestion(mainKey)
				c.end(h)
				if f := h.finished(); f.Status != c.status {
					t.Errorf("%+v", f)
				}
				if h.count(mainKey, conversation.KindQuestionClosed) != 1 {
					t.Error("the question is not closed")
				}
				if err := <-told; err == nil {
					t.Error("the tool was told an answer")
				}
			})
		})
	}
}

// tools.max_questions bounds what one call may ask; what is beyond is counted.
func TestToolAsksTooOften(t *testing.T) {
	asked := 0
	tool := &actorstest.Tool{Is: conversation.ToolSpec{Name: "hammer"}, Do: func(ctx context.Context, c conversation.ToolCall) (string, error) {
		for ; ; asked++ {
			if _, err := asksUser(ctx, c); errors.Is(err, conversation.ErrNoAnswer) {
				return "enough", nil
			}
		}
	}}
	withHarness(t, func(h *harness) {
		h.tools = map[string]conversation.Tool{"hammer": tool}
		h.cfg.Rules.Policy.MaxAsks = 2
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hit it")))
		h.reply(actorstest.Use("x", "hammer", `{}`))
		for _, id := range []conversation.ClientMsgID{"b", "c"} {
			h.openQuestion(mainKey)
			h.ok(h.tell(mainKey, say(string(id), "1")))
		}
		if f := h.finished(); f.Summary != "enough" || asked != 2 {
			t.Errorf("%+v after %d answers", f, asked)
		}
		if n := h.counts("parley_questions_total")["refused"]; n != 1 {
			t.Errorf("%v questions are counted as refused", n)
		}
		h.reply(actorstest.Text("done"))
	})
}

// N-07: a drain does not wait for a tool that waits for its user: while the node goes away
// nobody can answer.
func TestDrainWhileToolAsks(t *testing.T) {
	withTool(t, conversation.ToolSpec{}, asksUser, func(t *testing.T, h *harness, _ *actorstest.Tool) {
		h.openQuestion(mainKey)
		began := time.Now()
		if err := h.e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took >= h.e.cfg.DrainTimeout {
			t.Errorf("it took %v", took)
		}
	})
}

// N-04: the question of a delegate's tool is asked of the root's user, and the answer finds
// the tool; neither deadline runs meanwhile.
func TestToolOfADelegateAsks(t *testing.T) {
	tool := &actorstest.Tool{Is: conversation.ToolSpec{Name: "hammer"}, Do: asksUser}
	withHarness(t, func(h *harness) { h.tools = map[string]conversation.Tool{"hammer": tool} }, func(t *testing.T, h *harness) {
		h.delegated()
		h.reply(actorstest.Use("y", "hammer", `{}`))
		if q := h.openQuestion(mainKey); q.Question != "d1.q1" || q.Text != "Which nail?" || q.Delegation != "d1" || q.Call != "" {
			t.Fatalf("%+v", q)
		}
		time.Sleep(24 * time.Hour)
		h.ok(h.tell(mainKey, conversation.Answer{Author: ada, ClientMsgID: "b", Question: "d1.q1", Text: "long"}))
		synctest.Wait()
		h.reply(actorstest.Text("the long one"))
		if f := h.ended(mainKey); f.Status != conversation.CallOK || tool.Runs() != 1 {
			t.Errorf("%+v after %d runs", f, tool.Runs())
		}
		for _, e := range h.stored(sub) {
			if b, ok := e.Body.(conversation.ToolFinished); ok && b.Summary != "long" {
				t.Errorf("%+v", b)
			}
		}
		h.reply(actorstest.Text("done"))
		h.assertComplete(mainKey)
	})
}
