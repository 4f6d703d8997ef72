package actors

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// slowStop is a model that says something, and then does nothing until it is stopped;
// it returns when the test lets it.
type slowStop struct {
	says  []string
	gone  chan struct{} // the test closes it
	usage *conversation.Usage
}

func (m *slowStop) Label() string { return "slow to stop" }

func (m *slowStop) Stream(ctx context.Context, _ conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		for i, text := range m.says {
			if !yield(conversation.Output{Item: i, Delta: text}, nil) {
				return
			}
		}
		<-ctx.Done()
		<-m.gone
		if m.usage != nil {
			yield(conversation.Output{}, &conversation.ModelError{Usage: m.usage, Failure: conversation.Failure{Code: conversation.Unavailable, Message: "stopped"}})
		}
	}
}

// shownText is the text that followers have been sent, by draft.
func (h *harness) shownText() map[conversation.DraftID]string {
	shown := map[conversation.DraftID]string{}
	for _, d := range h.deltas() {
		shown[d.Draft] += d.Text
	}
	return shown
}

// kept are the parts that a stop has made of drafts.
func (h *harness) kept(key conversation.SessionKey) []conversation.Part {
	h.t.Helper()
	var parts []conversation.Part
	for _, e := range h.stored(key) {
		if p, ok := e.Body.(conversation.PartialResponse); ok && p.Draft != "" {
			parts = append(parts, p.Part)
		}
	}
	return parts
}

// status is that of the session's last task event.
func (h *harness) status(key conversation.SessionKey) conversation.TaskStatus {
	h.t.Helper()
	var status conversation.TaskStatus
	for _, e := range h.stored(key) {
		if b, ok := e.Body.(conversation.TaskStatusChanged); ok {
			status = b.New
		}
	}
	return status
}

func (h *harness) stepEnd(key conversation.SessionKey) (last conversation.StepFinished) {
	h.t.Helper()
	for _, e := range h.stored(key) {
		if b, ok := e.Body.(conversation.StepFinished); ok {
			last = b
		}
	}
	return last
}

var stop = conversation.Cancel{By: conversation.ByUser}

// N-06: what followers have seen of an answer stays when it is stopped, to the letter:
// text that was gathered and not shown, or that is held back because it may become a
// sentinel, is not in it, and nothing is shown after the stop.
func TestStopKeepsWhatWasShown(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		call.Delta(0, "Once upon")
		synctest.Wait()
		call.Delta(0, " a time")
		call.Delta(1, "NO_RE")
		synctest.Wait()
		h.ok(h.tell(mainKey, stop))
		time.Sleep(time.Minute)
		synctest.Wait()
		parts := h.kept(mainKey)
		if len(parts) != 1 || parts[0].Text != "Once upon" || !parts[0].Cut || !parts[0].Guessed || parts[0].Draft != "1.1.0" {
			t.Errorf("%+v", parts)
		}
		if shown := h.shownText(); len(shown) != 1 || shown["1.1.0"] != "Once upon" {
			t.Errorf("followers have seen %v", shown)
		}
		if !call.Over() || h.status(mainKey) != conversation.TaskCancelled || h.stepEnd(mainKey).Outcome != conversation.StepCancelled {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
		if r := h.stored(mainKey); slices.ContainsFunc(r, func(e conversation.Event) bool {
			b, ok := e.Body.(conversation.MessageResolved)
			return ok && b.How != conversation.ResolvedCancelled
		}) {
			t.Error("a text that was cut has answered something")
		}
		h.assertComplete(mainKey)
		h.ok(h.tell(mainKey, say("b", "go on")))
		seen := false
		for _, e := range h.call().Request.Entries {
			for _, item := range e.Items {
				seen = seen || e.Role == conversation.RoleAssistant && strings.HasPrefix(item.Text, "Once upon\n\n[stopped")
			}
		}
		if !seen {
			t.Errorf("the next model call does not know where it was stopped: %+v", h.call().Request.Entries)
		}
		h.reply(actorstest.Text("there was a king"))
	})
}

// N-06: CANCELLED means that nothing of the model call runs any more.
func TestCancelledAfterTheCall(t *testing.T) {
	m := &slowStop{says: []string{"Dear Ann", "Dear Bob"}, usage: &conversation.Usage{OutputTokens: 7}}
	begin := func(t *testing.T, f func(t *testing.T, h *harness)) {
		withHarness(t, func(h *harness) {
			m.gone = make(chan struct{})
			h.models = map[string]conversation.Model{"": m}
			h.cfg.Rules.Policy.CancelGrace = 7 * time.Second
		}, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "two letters")))
			time.Sleep(time.Second)
			f(t, h)
		})
	}
	t.Run("the call ends", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			h.ok(h.tell(mainKey, stop))
			if p := h.kept(mainKey); len(p) != 2 || p[0].Cut || !p[1].Cut {
				t.Errorf("%+v", p)
			}
			time.Sleep(6 * time.Second)
			if s := h.status(mainKey); s != conversation.TaskRunning {
				t.Fatalf("the task is %v while its call runs", s)
			}
			close(m.gone)
			synctest.Wait()
			if f := h.stepEnd(mainKey); h.status(mainKey) != conversation.TaskCancelled || f.Outcome != conversation.StepCancelled || f.Usage.OutputTokens != 7 {
				t.Errorf("%v, %+v", h.status(mainKey), f)
			}
			h.assertComplete(mainKey)
		})
	})
	t.Run("it does not end in time", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			h.ok(h.tell(mainKey, stop))
			time.Sleep(8 * time.Second)
			if f := h.stepEnd(mainKey); h.status(mainKey) != conversation.TaskCancelled || f.Outcome != conversation.StepUnknown {
				t.Errorf("%v, %+v", h.status(mainKey), f)
			}
			n := len(h.stored(mainKey))
			close(m.gone)
			synctest.Wait()
			if len(h.stored(mainKey)) != n {
				t.Errorf("what came later counts: %v", kinds(h.stored(mainKey))[n:])
			}
		})
	})
	t.Run("an interrupt", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			c := say("c", "and now this")
			c.Mode = conversation.ModeInterrupt
			if r := h.ok(h.tell(mainKey, c)); r.Disposition != conversation.Queued {
				t.Errorf("%+v", r)
			}
			if len(h.kept(mainKey)) != 2 {
				t.Errorf("%v", kinds(h.stored(mainKey)))
			}
			close(m.gone)
			synctest.Wait()
			if v := h.view(mainKey); len(v.Tasks) != 1 || v.Tasks[0].Status != conversation.TaskRunning || !strings.HasPrefix(string(v.Tasks[0].Task), "t2-") {
				t.Errorf("%+v", v.Tasks)
			}
		})
	})
	t.Run("the process dies meanwhile", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			h.ok(h.tell(mainKey, stop))
			close(m.gone)
			h.restart()
			time.Sleep(time.Minute)
			if len(h.kept(mainKey)) != 2 || h.status(mainKey) != conversation.TaskCancelled {
				t.Errorf("%v", kinds(h.stored(mainKey)))
			}
			h.assertStoredOnce(mainKey)
		})
	})
	t.Run("a drain waits for it", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			h.ok(h.tell(mainKey, stop))
			done := h.drain(t.Context())
			time.Sleep(2 * time.Second)
			select {
			case err := <-done:
				t.Fatalf("drained with %v while a call ends", err)
			default:
			}
			close(m.gone)
			if err := <-done; err != nil || h.status(mainKey) != conversation.TaskCancelled {
				t.Errorf("%v, %v", err, h.status(mainKey))
			}
		})
	})
	t.Run("the session is erased meanwhile", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			h.ok(h.tell(mainKey, stop))
			done := make(chan error, 1)
			go func() { done <- h.e.Erase(t.Context(), mainKey, ada) }()
			synctest.Wait()
			close(m.gone)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if h.refused(h.tell(mainKey, say("z", "hello")), conversation.NotFound); h.active(mainKey) {
				t.Error("the session is in memory")
			}
		})
	})
}

// assertStoredOnce wants each part to be stored once.
func (h *harness) assertStoredOnce(key conversation.SessionKey) {
	h.t.Helper()
	seen := map[conversation.MessageID]bool{}
	for _, p := range h.kept(key) {
		if seen[p.Message] {
			h.t.Errorf("the part %s is stored twice", p.Message)
		}
		seen[p.Message] = true
	}
}

// A stop whose commit fails has not happened: its sender is told, no draft stays on a
// screen, and the step goes on.
func TestStopThatIsNotStored(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.call().Delta(0, "Once upon")
		synctest.Wait()
		h.store.FailCommit(func(_ int, _ conversation.SessionKey, c conversation.Commit) (error, bool) {
			if slices.ContainsFunc(c.Events, func(e conversation.Event) bool { return e.Body.Kind() == conversation.KindTaskCancelling }) {
				return conversation.ErrConflict, false
			}
			return nil, false
		})
		h.refused(h.tell(mainKey, stop), conversation.Unavailable)
		if d := h.dropped(); !slices.Equal(d, []conversation.DraftID{"1.1.0"}) {
			t.Errorf("ended %v", d)
		}
		time.Sleep(time.Minute)
		if len(h.kept(mainKey)) != 0 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
		if call := h.call(); call.Request.Attempt != 2 {
			t.Errorf("attempt %d", call.Request.Attempt)
		}
		h.store.FailCommit(nil)
		h.reply(actorstest.Text("a king"))
		h.assertComplete(mainKey)
	})
}

// The answer may come at the moment of the stop: then either the answer counts, or
// what followers have seen of it, and never both.
func TestStopAndAnswerAtOnce(t *testing.T) {
	for i := range 40 {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "hello")))
			call := h.call()
			call.Delta(0, "Once upon")
			synctest.Wait()
			var a *answer
			if i%2 == 0 {
				call.Delta(0, " a time")
				call.Answer(actorstest.Streamed("Once upon a time"))
				a = h.tell(mainKey, stop)
			} else {
				a = h.tell(mainKey, stop)
				call.Delta(0, " a time")
				call.Answer(actorstest.Streamed("Once upon a time"))
			}
			synctest.Wait()
			_, _, err := a.get()
			parts, shown := h.kept(mainKey), h.shownText()["1.1.0"]
			switch h.status(mainKey) {
			case conversation.TaskComplete:
				if conversation.AsError(err) == nil || len(parts) != 0 || h.count(mainKey, conversation.KindResponse) != 1 {
					t.Errorf("the answer counts, and the stop too: %v, %+v", err, parts)
				}
			case conversation.TaskCancelled:
				if err != nil || len(parts) != 1 || parts[0].Text != shown || h.count(mainKey, conversation.KindResponse) != 0 {
					t.Errorf("stopped (%v) with %+v, and followers have seen %q", err, parts, shown)
				}
			default:
				t.Errorf("%v", kinds(h.stored(mainKey)))
			}
			h.assertComplete(mainKey)
		})
	}
}

// A step whose start is not stored yet has asked nobody: a stop needs to wait for
// nothing.
func TestStopBeforeTheCall(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindStepStarted))
		h.silent(h.tell(mainKey, say("a", "hello")))
		a := h.tell(mainKey, stop)
		synctest.Wait()
		gate.Release()
		h.ok(a)
		if h.status(mainKey) != conversation.TaskCancelled || len(h.model.Calls()) != 0 {
			t.Errorf("%v, %d calls", kinds(h.stored(mainKey)), len(h.model.Calls()))
		}
	})
}

// acting makes the coordinator's model one that acts.
func acting(h *harness) {
	p := h.cfg.Rules.Agents[conversation.Coordinator]
	p.Acts, p.KillTime = true, 5*time.Second
	h.cfg.Rules.Agents[conversation.Coordinator] = p
}

// N-07: a model that acts is asked once, whatever happens to the one who asks.
func TestActingModelIsAskedOnce(t *testing.T) {
	begin := func(t *testing.T, f func(t *testing.T, h *harness)) {
		withHarness(t, acting, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "deploy")))
			h.call().Delta(0, "I am at it")
			synctest.Wait()
			f(t, h)
		})
	}
	unknown := func(t *testing.T, h *harness) {
		t.Helper()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(h.model.Calls()); n != 1 || h.status(mainKey) != conversation.TaskError || h.stepEnd(mainKey).Outcome != conversation.StepUnknown {
			t.Errorf("asked %d times, %v, %+v", n, h.status(mainKey), h.stepEnd(mainKey))
		}
		for _, e := range h.stored(mainKey) {
			if b, ok := e.Body.(conversation.Response); ok && b.Text != h.cfg.Rules.Policy.Texts.Interrupted {
				t.Errorf("it says %q", b.Text)
			}
		}
		if len(h.kept(mainKey)) != 0 {
			t.Error("the text of an attempt that failed is kept")
		}
		h.assertStoredOnce(mainKey)
	}
	t.Run("a crash", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			h.restart()
			unknown(t, h)
		})
	})
	t.Run("a failed commit", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			h.loseSession()
			unknown(t, h)
		})
	})
	t.Run("a drain whose time is over", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			if err := h.e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if h.status(mainKey) != conversation.TaskError || !h.call0().Over() {
				t.Errorf("%v", kinds(h.stored(mainKey)))
			}
			h.restart()
			unknown(t, h)
		})
	})
	t.Run("a drain before it is asked", func(t *testing.T) {
		withHarness(t, acting, func(t *testing.T, h *harness) {
			h.create(mainKey)
			held := h.store.Hold(persistencetest.BeforeWrite, nil)
			a := h.tell(mainKey, say("a", "deploy"))
			<-held.Held()
			done := h.drain(t.Context())
			held.Release()
			if err := <-done; err != nil {
				t.Error(err)
			}
			h.ok(a)
			h.restart()
			h.reply(actorstest.Text("deployed"))
			if h.status(mainKey) != conversation.TaskComplete {
				t.Errorf("%v", kinds(h.stored(mainKey)))
			}
		})
	})
	t.Run("a drain while it waits at its own limit", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			goOn := h.call0().Request.Waits
			goOn(true)
			if err := h.e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if goOn(false) {
				t.Error("it may begin, though its step was put off")
			}
			h.restart()
			h.reply(actorstest.Text("deployed"))
			if h.status(mainKey) != conversation.TaskComplete {
				t.Errorf("%v", kinds(h.stored(mainKey)))
			}
		})
	})
	t.Run("a drain after it has waited", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			goOn := h.call0().Request.Waits
			goOn(true)
			if !goOn(false) {
				t.Error("it may not begin")
			}
			if err := h.e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			h.restart()
			unknown(t, h)
		})
	})
	t.Run("a failure", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			h.call().Cut()
			time.Sleep(time.Minute)
			if n := len(h.model.Calls()); n != 1 || h.status(mainKey) != conversation.TaskError {
				t.Errorf("asked %d times, %v", n, h.status(mainKey))
			}
		})
	})
	t.Run("it was not started", func(t *testing.T) {
		begin(t, func(t *testing.T, h *harness) {
			h.call().Fail(&conversation.ModelError{NothingRan: true, Failure: conversation.Failure{Code: conversation.Unavailable, Message: "no process"}})
			time.Sleep(time.Minute)
			h.reply(actorstest.Text("deployed"))
			if h.status(mainKey) != conversation.TaskComplete {
				t.Errorf("%v", kinds(h.stored(mainKey)))
			}
		})
	})
}

// call0 is the first model call.
func (h *harness) call0() *actorstest.ModelCall { return h.model.Calls()[0] }

// loseSession has the next commit of the session fail, so that it starts again from its log.
func (h *harness) loseSession() {
	h.t.Helper()
	failed := false
	h.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) {
		if failed {
			return nil, false
		}
		failed = true
		return conversation.ErrConflict, false
	})
	h.refused(h.tell(mainKey, say("lost", "this gets lost")), conversation.Unavailable)
	time.Sleep(time.Minute)
	synctest.Wait()
	h.store.FailCommit(nil)
}

// A step whose session was lost by an engine that lives is moved; one whose process
// ended was interrupted.
func TestCauseOfAnAttempt(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.call()
		h.loseSession()
		h.call()
		h.restart()
		h.call()
		var causes []conversation.Cause
		for _, e := range h.stored(mainKey) {
			if b, ok := e.Body.(conversation.StepStarted); ok {
				causes = append(causes, b.Cause)
			}
		}
		if want := []conversation.Cause{0, conversation.CauseMoved, conversation.CauseInterrupted}; !slices.Equal(causes, want) {
			t.Errorf("%v", causes)
		}
		h.reply(actorstest.Text("hi"))
		h.assertComplete(mainKey)
	})
}
