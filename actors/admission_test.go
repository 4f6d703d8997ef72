package actors

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/persistence/persistencetest"
)

func session2(i int) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%015d", i))}
}

func TestAdmissionWaits(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.MaxConcurrent = 1 }, func(t *testing.T, h *harness) {
		for i := range 4 {
			h.create(session2(i))
		}
		for i := range 4 {
			r := h.ok(h.tell(session2(i), say("a", "hello")))
			if started := r.Disposition == conversation.Started; started != (i == 0) {
				t.Errorf("session %d: %s", i, r.Disposition)
			}
		}
		// One that no longer wants its slot does not keep it.
		h.ok(h.tell(session2(1), conversation.Withdraw{By: ada, Message: "m1-" + conversation.MessageID(session2(1).Session)}))
		for _, i := range []int{0, 2, 3} {
			call := h.call()
			if call.Request.Session != session2(i).Session {
				t.Fatalf("%s is asked before %s", call.Request.Session, session2(i).Session)
			}
			call.Answer(actorstest.Text("hi"))
			synctest.Wait()
		}
	})
}

// Within a session the next task keeps the slot only when no other session waits.
func TestSlotIsPassedOn(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.MaxConcurrent, h.cfg.Rules.Policy.Mode = 1, conversation.ModeQueue }, func(t *testing.T, h *harness) {
		h.create(session2(0))
		h.create(session2(1))
		for i := range 3 {
			h.ok(h.tell(session2(0), say(fmt.Sprint(i), "hello")))
		}
		commits := len(h.store.Commits())
		h.reply(actorstest.Text("one"))
		if n := len(h.store.Commits()) - commits; n != 1 {
			t.Errorf("%d commits to end a task and start the next", n)
		}
		h.ok(h.tell(session2(1), say("a", "and me?")))
		h.reply(actorstest.Text("two"))
		if got := h.call().Request.Session; got != session2(1).Session {
			t.Errorf("%s is asked", got)
		}
		h.reply(actorstest.Text("you"))
		if got := h.call().Request.Session; got != session2(0).Session {
			t.Errorf("%s is asked", got)
		}
		h.reply(actorstest.Text("three"))
	})
}

// A slot goes back when it is durable that no task needs it, not before.
func TestSlotIsFreeWhenDurable(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.MaxConcurrent = 1 }, func(t *testing.T, h *harness) {
		h.create(session2(0))
		h.create(session2(1))
		h.ok(h.tell(session2(0), say("a", "hello")))
		h.ok(h.tell(session2(1), say("a", "hello")))
		before := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindSessionUpdated))
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindResponse))
		title := "before the end"
		update := h.tell(session2(0), conversation.Update{Title: &title})
		h.silent(update)
		h.reply(actorstest.Text("one")) // in memory the task has ended now
		before.Release()
		h.ok(update)
		if n := len(h.model.Open()); n != 0 {
			t.Errorf("%d model calls while the end of the first is not stored", n)
		}
		gate.Release()
		h.reply(actorstest.Text("two"))
	})
}

// refused at the door, nothing stored; what joins or answers is not.
func TestAdmissionRejects(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.MaxConcurrent, h.cfg.OnFull = 1, OnFullReject }, func(t *testing.T, h *harness) {
		for i := range 3 {
			h.create(session2(i))
		}
		h.ok(h.tell(session2(2), say("q", "ask me")))
		h.reply(actorstest.Use("x", conversation.ToolAsk, `{"question":"What?"}`)) // awaits; its slot is free
		first := h.ok(h.tell(session2(0), say("a", "hello")))
		before := len(h.store.Commits())
		err := h.refused(h.tell(session2(1), say("a", "hello")), conversation.Overloaded)
		if err.Message != policy.DefaultPolicy().Texts.Overloaded || !err.Retryable() {
			t.Errorf("%+v", err)
		}
		if n := len(h.store.Commits()) - before; n != 0 {
			t.Errorf("%d commits", n)
		}
		if h.ok(h.tell(session2(0), say("b", "more"))).Disposition != conversation.Joined {
			t.Error("a message for the running task is not taken")
		}
		if r := h.ok(h.tell(session2(0), say("a", "hello"))); !r.Duplicate || r.Message != first.Message {
			t.Errorf("a repetition: %+v", r)
		}
		if h.ok(h.tell(session2(2), say("c", "this"))).Disposition != conversation.Answered {
			t.Error("an answer is not taken")
		}
		h.reply(actorstest.Text("hi"))
		for len(h.model.Open()) > 0 {
			h.model.Open()[0].Answer(actorstest.Text("hi"))
			synctest.Wait()
		}
		// The task is over: its message, told again, is still known.
		h.ok(h.tell(session2(1), say("a", "hello")))
		if !h.ok(h.tell(session2(0), say("a", "hello"))).Duplicate {
			t.Error("a repetition while all slots are taken")
		}
		h.reply(actorstest.Text("hi"))
	})
}

// the agent's own limit is reached, and the node has room: "AI is busy", not
// queued and nothing stored, also when all ask at the same moment. Agents of one
// program share its places; another agent has its own. A-17: a chat that is busy
// itself says so first, and its message is not recorded.
func TestAgentsOwnLimit(t *testing.T) {
	const agents, most = 6, 2
	withHarness(t, func(h *harness) {
		h.cfg.OnFull = OnFullReject
		for _, name := range []conversation.AgentName{"claude", "codex"} {
			h.cfg.Rules.Agents[name] = policy.Profile{Name: name, Program: "claude", MaxRunning: most}
		}
		h.cfg.Rules.Policy.Mode = conversation.ModeReject
	}, func(t *testing.T, h *harness) {
		name := func(i int) conversation.AgentName { return []conversation.AgentName{"claude", "codex"}[i%2] }
		for i := range agents {
			h.createAs(session2(i), conversation.Create{Owner: ada, Agent: name(i)})
		}
		h.create(session2(agents))
		var answers []*answer
		for i := range agents {
			answers = append(answers, h.tell(session2(i), say("a", "hello")))
		}
		synctest.Wait()
		var running []int
		for i, a := range answers {
			if _, _, err := a.get(); err == nil {
				running = append(running, i)
				continue
			}
			if err := h.refused(a, conversation.Overloaded); err.Message != "AI is busy, please try again in a moment" {
				t.Errorf("refused with %q", err.Message)
			}
			if n := h.count(session2(i), conversation.KindMessageAccepted); n != 0 {
				t.Errorf("%d messages were recorded", n)
			}
		}
		if len(running) != most || len(h.model.Open()) != most {
			t.Fatalf("%d chats and %d calls run, not %d", len(running), len(h.model.Open()), most)
		}
		// The chat is busy and so is the program: the chat is what the sender can wait for.
		before := len(h.store.Commits())
		if err := h.refused(h.tell(session2(running[0]), say("b", "more")), conversation.SessionBusy); err.Message != "Please wait, I'm still thinking…" {
			t.Errorf("a busy chat said %q", err.Message)
		}
		if n := len(h.store.Commits()); n != before {
			t.Error("a refused message was recorded")
		}
		h.ok(h.tell(session2(agents), say("a", "another agent")))
		h.model.Open()[0].Answer(actorstest.Text("hi"))
		synctest.Wait()
		for i := range agents {
			if !slices.Contains(running, i) {
				h.ok(h.tell(session2(i), say("a", "hello"))) // there is room again
				break
			}
		}
		for len(h.model.Open()) > 0 {
			h.model.Open()[0].Answer(actorstest.Text("hi"))
			synctest.Wait()
		}
		if used, waiting := h.e.slots.Used(); used != 0 || waiting != 0 {
			t.Errorf("at rest %d slots are taken, and %d wait", used, waiting)
		}
	})
}

// N-02: what was queued when the process ended runs again by itself, and never
// more of it than there are slots.
func TestDue(t *testing.T) {
	const sessions = 200
	withHarness(t, func(h *harness) { h.cfg.MaxConcurrent, h.cfg.DueParallel = 4, 8 }, func(t *testing.T, h *harness) {
		for i := range sessions {
			h.create(session2(i))
			h.ok(h.tell(session2(i), say("a", "hello")))
		}
		h.restart()
		began := time.Now()
		if n := h.e.registry.Count(); n != sessions {
			t.Errorf("%d of %d sessions were loaded", n, sessions)
		}
		done := map[conversation.SessionID]bool{}
		for len(done) < sessions {
			open := h.model.Open()
			// Those that were RUNNING do not ask for a slot.
			if limit := 4; len(open) == 0 || len(open) > limit && (len(done) > 0 || len(open) > 2*limit) {
				t.Fatalf("%d model calls are open after %d", len(open), len(done))
			}
			for _, c := range open {
				if done[c.Request.Session] {
					t.Fatalf("%s runs twice", c.Request.Session)
				}
				done[c.Request.Session] = true
				c.Answer(actorstest.Text("hi"))
			}
			synctest.Wait()
		}
		if waited := time.Since(began); waited > h.cfg.DueEvery {
			t.Errorf("it took %v", waited)
		}
	})
}

// Work that only time brings wakes a session that is not in memory.
func TestDueLater(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.reply(actorstest.Use("x", conversation.ToolAsk, `{"question":"Which?","expiresIn":"2h","default":"the first"}`))
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.active(mainKey) {
			t.Fatal("still in memory")
		}
		time.Sleep(time.Hour + h.cfg.DueEvery)
		h.reply(actorstest.Text("the first, then"))
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
	})
}

// A command that starts nothing takes no slot, not even for a moment: with
// admission.on_full=reject others would be refused for it.
func TestNoSlotForNothing(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		s := &session{e: h.e, key: mainKey}
		for _, c := range []conversation.Command{conversation.Create{}, conversation.Seen{}, conversation.Update{}, conversation.AddPart{}} {
			if s.reserve(c) || h.slots() != 0 {
				t.Errorf("%s takes a slot", c.Name())
			}
		}
		if !s.reserve(say("a", "hello")) || h.slots() != 1 {
			t.Error("a message takes none")
		}
		h.e.slots.Release(nil)
	})
}

// whenEnded is a publisher that calls when a task's end is published.
type whenEnded struct {
	conversation.Publisher
	call func(conversation.SessionKey)
}

func (p whenEnded) Publish(key conversation.SessionKey, epoch conversation.Epoch, events []conversation.Event) {
	p.Publisher.Publish(key, epoch, events)
	for _, e := range events {
		if b, ok := e.Body.(conversation.TaskStatusChanged); ok && b.New.Ended() {
			p.call(key)
		}
	}
}

// Who hears that a task has ended may ask for the next one at once: its slot is free by
// then.
func TestSlotIsFreeWhenTheEndIsTold(t *testing.T) {
	var ended func(conversation.SessionKey)
	withHarness(t, func(h *harness) {
		h.cfg.MaxConcurrent, h.cfg.OnFull = 1, OnFullReject
		h.publish = whenEnded{h.pub, func(key conversation.SessionKey) { ended(key) }}
	}, func(t *testing.T, h *harness) {
		h.create(session2(0))
		h.create(session2(1))
		ended = func(key conversation.SessionKey) {
			if key != session2(0) {
				return
			}
			told := make(chan error)
			h.e.Tell(session2(1), ada, say("a", "and now me"), func(_ conversation.Receipt, err error) { told <- err })
			if err := <-told; err != nil {
				t.Errorf("the end of a task was told, and the next one was refused: %v", err)
			}
		}
		h.ok(h.tell(session2(0), say("a", "hello")))
		h.reply(actorstest.Text("hi"))
		h.reply(actorstest.Text("hi"))
	})
}
