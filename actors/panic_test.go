package actors

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/actorstest"
	"parley/actors/internal/calls"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/persistence/persistencetest"
)

// withBrokenMachine has a machine that panics when wrong is decided: an approval that
// changes the arguments to some that the tool's check cannot bear.
func withBrokenMachine(t *testing.T, f func(t *testing.T, h *harness, wrong conversation.Command)) {
	t.Helper()
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Tools["rm"] = policy.ToolRule{
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

// unhappy is a histogram that cannot be written to.
type unhappy struct{ prometheus.Histogram }

func (unhappy) Observe(float64) { panic("broken") }

// A command whose commit is there and cannot set out has two reasons to be refused: its
// own, and that the session leaves. It is answered once, and can be told again.
func TestPanicWhileCommitBegins(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		good := h.m.CommitEvents
		h.m.CommitEvents = unhappy{good}
		h.refused(h.tell(mainKey, say("a", "work")), conversation.Internal)
		h.m.CommitEvents = good
		h.ok(h.tell(mainKey, say("a", "work")))
		h.reply(actorstest.Text("done"))
		h.assertComplete(mainKey)
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

// once is a histogram that cannot be written to the first time.
type once struct {
	prometheus.Histogram
	blown *int
}

func (o once) Observe(v float64) {
	if *o.blown++; *o.blown == 1 {
		panic("broken")
	}
	o.Histogram.Observe(v)
}

// A session that panics behind its commit, while it publishes or counts what it has
// stored, leaves memory with work that only a loaded session can do. It comes back by
// itself, at once: its users do not wait for the next scan for due work.
func TestPanicBehindCommit(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "one")))
		second := say("b", "two")
		second.Mode = conversation.ModeQueue
		h.ok(h.tell(mainKey, second))
		blown := 0
		h.m.TaskSteps = once{h.m.TaskSteps, &blown}
		began := time.Now()
		h.call().Answer(actorstest.Text("done"))
		synctest.Wait()
		for len(h.model.Open()) == 0 && time.Since(began) < time.Hour {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(began); blown == 0 || took > time.Second {
			t.Errorf("after %d panics the work goes on after %v", blown, took)
		}
		h.reply(actorstest.Text("done, too"))
		h.assertComplete(mainKey)
	})
}

// capture has the next session's actor told to the test, which may look into it while
// nothing moves.
func (h *harness) capture() (one func() *session) {
	var last *session
	h.e.props = actor.PropsFromProducer(func() actor.Actor { last = &session{e: h.e}; return last },
		actor.WithDispatcher(h.e.workers), actor.WithSupervisor(calls.StopOnFailure))
	return func() *session { synctest.Wait(); return last }
}

// assertLeaves wants a session to have left memory and to have given back everything, and the
// next message to load it again.
func (h *harness) assertLeaves(left *actor.PID) {
	h.t.Helper()
	synctest.Wait()
	if pid := h.e.registry.Actor(mainKey); pid != nil && pid.Equal(left) {
		h.t.Error("the session is in memory")
	}
	if _, there := h.e.system.ProcessRegistry.Get(left); there {
		h.t.Error("its actor lives")
	}
	if n := h.slots(); n != 0 {
		h.t.Errorf("%d slots are used", n)
	}
	h.ok(h.tell(mainKey, say("next", "hello")))
	for _, call := range h.model.Open() {
		call.Answer(actorstest.Text("hi"))
		synctest.Wait()
	}
	h.assertComplete(mainKey)
	h.assertDrains()
}

// A panic in the middle of unloading keeps nothing: not the slot, not the actor.
func TestPanicWhileUnloading(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		one := h.capture()
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		h.call()
		s := one()
		s.triaging = &triage{cancel: func() { panic("broken") }}
		waits := &answer{}
		s.queue = []*envelope{{cmd: conversation.Cancel{}, done: func(conversation.Receipt, error) { waits.times++; panic("broken too") }}}
		if h.slots() != 1 {
			t.Fatal("the task has no slot")
		}
		left := h.e.registry.Actor(mainKey)
		h.forget(mainKey)
		if waits.times != 1 {
			t.Errorf("a command that waited was answered %d times", waits.times)
		}
		h.assertLeaves(left)
	})
}

// A failure in the actor library is no reason to restart a session's actor: it would come
// back without its name. It goes on, with what is in its mailbox.
func TestSessionActorFails(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		pid := h.e.registry.Actor(mainKey)
		h.e.send(pid, poison{})
		h.ok(h.tell(mainKey, say("a", "work")))
		if !pid.Equal(h.e.registry.Actor(mainKey)) {
			t.Error("it is another actor")
		}
		h.reply(actorstest.Text("done"))
		h.forget(mainKey)
		h.assertLeaves(pid)
	})
}

// A session's actor that cannot be started refuses its command, and counts as not started.
func TestActorCannotStart(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		left := h.e.registry.Actor(mainKey)
		h.forget(mainKey)
		good := h.e.props
		h.e.props = actor.PropsFromProducer(func() actor.Actor { panic("broken") })
		h.refused(h.tell(mainKey, say("a", "work")), conversation.Unavailable)
		time.Sleep(h.cfg.DueEvery)
		h.e.props = good
		h.assertLeaves(left)
	})
}

// poison is a message that makes its receiver panic, whatever actor that is.
type poison struct{}

func (poison) GetAutoResponse(actor.Context) any { panic("poison") }

// A child that fails is not restarted: a tool that is not idempotent runs once,
// and the model is told that its outcome is unknown.
func TestFailedToolCall(t *testing.T) {
	withTool(t, conversation.ToolSpec{}, untilCancelled, func(t *testing.T, h *harness, tool *actorstest.Tool) {
		synctest.Wait()
		for _, pid := range h.children(mainKey) {
			h.e.system.Root.Send(pid, poison{})
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
			h.e.system.Root.Send(pid, poison{})
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
			h.e.system.Root.Send(pid, poison{})
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
