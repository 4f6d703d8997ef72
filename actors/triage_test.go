package actors

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// One question for the order is open at a time, the next one is about all that
// waits then, and none outlives the session.
func TestTriageIsOne(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Rules.Policy.Mode = conversation.ModeQueue
		w.cfg.Rules.Policy.TriageAgent = researcher
	}, func(t *testing.T, w *world) {
		w.create(talk)
		for i := range 20 {
			w.ok(w.tell(talk, say(fmt.Sprint(i), fmt.Sprint("text ", i))))
		}
		asked := func() (open []*actorstest.Call) {
			for _, c := range w.model.Open() {
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
		if first := w.view(talk).Inbox[0].Excerpt; first != "text 3" {
			t.Errorf("first is %q", first)
		}
		if n := len(asked()); n != 1 {
			t.Fatalf("%d questions are open after the first", n)
		}
		asked()[0].Answer(actorstest.Text("19"))
		synctest.Wait()
		if first := w.view(talk).Inbox[0].Excerpt; first != "text 19" {
			t.Errorf("first is %q", first)
		}
		if n := len(asked()); n != 0 {
			t.Errorf("%d questions are open after the last", n)
		}
		w.ok(w.tell(talk, say("one more", "one more")))
		if n := len(asked()); n != 1 {
			t.Fatalf("%d questions are open", n)
		}
		w.forget(talk)
		if n := len(asked()); n != 0 {
			t.Errorf("%d questions are open after the session has left", n)
		}
		w.ok(w.tell(talk, conversation.Cancel{By: conversation.ByUser, Drop: true}))
	})
}

// deaf is a model that never answers and ignores its context.
type deaf struct {
	asked *atomic.Int32
	free  chan struct{}
}

func (d deaf) Stream(context.Context, conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(func(conversation.Output, error) bool) { d.asked.Add(1); <-d.free }
}

func (deaf) Label() string { return "deaf" }

func TestTriageOfDeafModel(t *testing.T) {
	d := deaf{asked: new(atomic.Int32)}
	inWorld(t, func(w *world) {
		d.free = make(chan struct{})
		w.cfg.Rules.Policy.Mode = conversation.ModeQueue
		w.cfg.Rules.Policy.TriageAgent = researcher
		p := w.cfg.Rules.Agents[researcher]
		p.Model = "deaf"
		w.cfg.Rules.Agents[researcher] = p
		w.models = map[string]conversation.Model{"": w.model, "deaf": d}
	}, func(t *testing.T, w *world) {
		defer close(d.free)
		w.create(talk)
		for i := range 5 {
			w.ok(w.tell(talk, say(fmt.Sprint(i), fmt.Sprint("text ", i))))
		}
		synctest.Wait()
		if n := d.asked.Load(); n != 1 {
			t.Fatalf("asked %d times", n)
		}
		time.Sleep(w.cfg.ModelIdle + time.Second)
		synctest.Wait()
		if n := d.asked.Load(); n != 2 { // about those that came meanwhile
			t.Errorf("asked %d times after the first was given up", n)
		}
	})
}
