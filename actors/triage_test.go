package actors

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/persistence/persistencetest"
)

// One question for the order is open at a time, the next one is about all that
// waits then, and none outlives the session.
func TestTriageIsOne(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Policy.Mode = conversation.ModeQueue
		h.cfg.Rules.Policy.TriageAgent = researcher
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		for i := range 20 {
			h.ok(h.tell(mainKey, say(fmt.Sprint(i), fmt.Sprint("text ", i))))
		}
		asked := func() (open []*actorstest.ModelCall) {
			for _, c := range h.model.Open() {
				if c.Request.Agent == researcher {
					open = append(open, c)
				}
			}
			return open
		}
		if n := len(asked()); n != 1 {
			t.Fatalf("%d questions are open", n)
		}
		asked()[0].Answer(actorstest.Text("3"))
		synctest.Wait()
		if first := h.view(mainKey).Inbox[0].Excerpt; first != "text 3" {
			t.Errorf("first is %q", first)
		}
		if n := len(asked()); n != 1 {
			t.Fatalf("%d questions are open after the first", n)
		}
		asked()[0].Answer(actorstest.Text("19"))
		synctest.Wait()
		if first := h.view(mainKey).Inbox[0].Excerpt; first != "text 19" {
			t.Errorf("first is %q", first)
		}
		if n := len(asked()); n != 0 {
			t.Errorf("%d questions are open after the last", n)
		}
		h.ok(h.tell(mainKey, say("one more", "one more")))
		if n := len(asked()); n != 1 {
			t.Fatalf("%d questions are open", n)
		}
		h.forget(mainKey)
		if n := len(asked()); n != 0 {
			t.Errorf("%d questions are open after the session has left", n)
		}
		h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser, Drop: true}))
	})
}

// A node that goes away asks for no order, although a step may still come to its end.
func TestNoTriageWhileDraining(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Policy.Mode = conversation.ModeQueue
		h.cfg.Rules.Policy.TriageAgent = researcher
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		h.call()
		for i, drains := range []bool{true, false} {
			held := h.store.Hold(persistencetest.BeforeWrite, nil)
			var more []*answer
			for n := range 3 { // so many that it matters
				more = append(more, h.tell(mainKey, say(fmt.Sprint("b", i, n), "more")))
			}
			<-held.Held()
			var done chan error
			if drains {
				done = h.drain(t.Context())
			}
			held.Release()
			for _, a := range more {
				h.ok(a)
			}
			if n := len(h.model.Open()); (n == 1) != drains {
				t.Errorf("draining %v: %d model calls are open", drains, n)
			}
			h.model.Open()[0].Answer(actorstest.Text("done"))
			if drains {
				if err := <-done; err != nil {
					t.Error(err)
				}
				h.restart()
			}
		}
	})
}

// ignoresContext is a model that never answers and ignores its context.
type ignoresContext struct {
	asked *atomic.Int32
	free  chan struct{}
}

func (d ignoresContext) Stream(context.Context, conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(func(conversation.Output, error) bool) { d.asked.Add(1); <-d.free }
}

func (ignoresContext) Label() string { return "ignores context" }

func TestTriageOfModelThatIgnoresContext(t *testing.T) {
	d := ignoresContext{asked: new(atomic.Int32)}
	withHarness(t, func(h *harness) {
		d.free = make(chan struct{})
		h.cfg.Rules.Policy.Mode = conversation.ModeQueue
		h.cfg.Rules.Policy.TriageAgent = researcher
		p := h.cfg.Rules.Agents[researcher]
		p.Model = "ignores its context"
		h.cfg.Rules.Agents[researcher] = p
		h.models = map[string]conversation.Model{"": h.model, "ignores its context": d}
	}, func(t *testing.T, h *harness) {
		defer close(d.free)
		h.create(mainKey)
		for i := range 5 {
			h.ok(h.tell(mainKey, say(fmt.Sprint(i), fmt.Sprint("text ", i))))
		}
		synctest.Wait()
		if n := d.asked.Load(); n != 1 {
			t.Fatalf("asked %d times", n)
		}
		time.Sleep(h.cfg.ModelIdle + time.Second)
		synctest.Wait()
		if n := d.asked.Load(); n != 2 { // about those that came meanwhile
			t.Errorf("asked %d times after the first was given up", n)
		}
	})
}

// D-29: what the triage agent reports is a note of the next step, in each attempt of it
// and after a restart the same, with the messages that its numbers mean.
func TestTriageReport(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Policy.TriageAgent, h.cfg.Rules.Policy.Read = researcher, policy.ReadAll
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		step := h.call()
		for _, text := range []string{"Write to Max", "Which tone?", "And send it to Eve"} {
			h.ok(h.tell(mainKey, say(text, text)))
		}
		for _, c := range h.model.Open() {
			if c != step {
				c.Answer(actorstest.Text("2, 1, 3\n\n1 needs the answer to 2.\n"))
			}
		}
		synctest.Wait()
		if h.count(mainKey, conversation.KindStepStarted) != 1 {
			t.Error("the report has started a step")
		}
		want := `[triage of the waiting messages: 1 is "Write to Max", 2 is "Which tone?". 1 needs the answer to 2.]`
		shown := func(attempt int) {
			t.Helper()
			c := h.call()
			if got := texts(c.Request); !slices.Equal(got, []string{"work", want, "Which tone?", "Write to Max", "And send it to Eve"}) || c.Request.Attempt != attempt {
				t.Errorf("attempt %d: the model is shown %q", c.Request.Attempt, got)
			}
		}
		step.Answer(actorstest.Use("k", conversation.ToolRespond, `{"message":"I am at it"}`))
		shown(1)
		h.call().Fail(&conversation.ModelError{Failure: conversation.Failure{Code: conversation.Unavailable, Message: "away"}})
		time.Sleep(time.Minute)
		shown(2)
		h.forget(mainKey) // as after a crash: the step is begun again
		h.e.Wake(mainKey)
		time.Sleep(time.Minute)
		shown(3)
	})
}

// A report of a message that was taken back meanwhile is not shown: it would quote it.
func TestTriageReportTooLate(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Policy.TriageAgent, h.cfg.Rules.Policy.Read = researcher, policy.ReadAll
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		step := h.call()
		for _, text := range []string{"one", "two", "three"} {
			h.ok(h.tell(mainKey, say(text, text)))
		}
		h.ok(h.tell(mainKey, conversation.Withdraw{By: ada, Message: h.view(mainKey).Inbox[0].Message}))
		for _, c := range h.model.Open() {
			if c != step {
				c.Answer(actorstest.Text("2, 1, 3\n1 is private."))
			}
		}
		synctest.Wait()
		step.Answer(actorstest.Use("k", conversation.ToolRespond, `{"message":"I am at it"}`))
		if got := texts(h.call().Request); !slices.Equal(got, []string{"work", "two", "three"}) {
			t.Errorf("the model is shown %q", got)
		}
	})
}
