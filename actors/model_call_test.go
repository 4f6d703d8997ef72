package actors

import (
	"context"
	"errors"
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

// deltas are the pieces of text that were shown, in order.
func (w *world) deltas() []conversation.Delta {
	var all []conversation.Delta
	for _, s := range w.pub.Shown(talk) {
		if d, ok := s.What.(conversation.Delta); ok {
			all = append(all, d)
		}
	}
	return all
}

func (w *world) dropped() []conversation.DraftID {
	var all []conversation.DraftID
	for _, s := range w.pub.Shown(talk) {
		if d, ok := s.What.(conversation.DraftDropped); ok {
			all = append(all, d.Draft)
		}
	}
	return all
}

func TestDeltas(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		call := w.call()
		if _, ok := w.pub.Shown(talk)[0].What.(conversation.Thinking); !ok {
			t.Error("A-25: nothing says that a model is being asked")
		}
		call.Delta(0, "Bonjour")
		synctest.Wait()
		if d := w.deltas(); len(d) != 1 || d[0].Text != "Bonjour" || d[0].Draft != "1.1.0" || d[0].At != 0 {
			t.Fatalf("the first piece is not shown at once: %+v", d)
		}
		for _, piece := range []string{" à", " vous", "\xc3", "\xa9", "!"} {
			call.Delta(0, piece)
		}
		synctest.Wait()
		if len(w.deltas()) != 1 {
			t.Error("pieces are not gathered")
		}
		time.Sleep(w.cfg.DeltaEvery)
		synctest.Wait()
		d := w.deltas()
		if len(d) != 2 || d[1].Text != " à vousé!" || d[1].At != 7 {
			t.Fatalf("%+v", d)
		}
		if v := w.view(talk); len(v.Drafts) != 1 || v.Drafts[0].Text != "Bonjour à vousé!" {
			t.Errorf("drafts of a late follower: %+v", v.Drafts)
		}
		call.Delta(0, " half \xf0\x9f")
		call.Answer(actorstest.Streamed("Bonjour à vousé! half 😀"))
		synctest.Wait()
		d = w.deltas()
		if len(d) != 3 || d[2].Text != " half " || d[2].At != 16 {
			t.Errorf("what is left before the end: %+v", d[2:])
		}
		for _, s := range w.pub.Shown(talk) {
			if s.After < 4 {
				t.Errorf("%+v was shown behind %d, before its step_started", s.What, s.After)
			}
		}
		if len(w.dropped()) != 0 {
			t.Errorf("dropped %v, though a part took its place", w.dropped())
		}
		for _, e := range w.stored(talk) {
			if r, ok := e.Body.(conversation.Response); ok && r.Draft != "1.1.0" {
				t.Errorf("the part names the draft %q", r.Draft)
			}
		}
	})
}

// A view that waits for a commit brings the text that was shown meanwhile: its
// reader was not there to see it.
func TestDraftsOfALateView(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		call := w.call()
		gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
		w.silent(w.tell(talk, say("b", "more")))
		var v conversation.View
		w.e.View(talk, ada, func(view conversation.View, _ error) { v = view })
		call.Delta(0, "Bonjour")
		synctest.Wait()
		gate.Release()
		synctest.Wait()
		if v.Head != 5 || len(v.Drafts) != 1 || v.Drafts[0].Text != "Bonjour" {
			t.Errorf("%d, %+v", v.Head, v.Drafts)
		}
		w.reply(actorstest.Text("hi"))
		w.reply(actorstest.Text("hi"))
	})
}

// M-22: text that may still become a sentinel is held back.
func TestSentinelsAreHeldBack(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		call := w.call()
		call.Delta(0, "NO")
		synctest.Wait()
		time.Sleep(time.Second)
		if d := w.deltas(); len(d) != 0 {
			t.Errorf("%+v", d)
		}
		call.Delta(0, "_REPLY")
		call.Answer(actorstest.Streamed("NO_REPLY"))
		synctest.Wait()
		if len(w.deltas()) != 0 || len(w.dropped()) != 0 {
			t.Errorf("%+v, dropped %v", w.deltas(), w.dropped())
		}
		w.ok(w.tell(talk, say("b", "again")))
		call = w.call()
		call.Delta(0, "NO")
		call.Delta(0, " way")
		call.Answer(actorstest.Streamed("NO way"))
		synctest.Wait()
		if d := w.deltas(); len(d) != 1 || d[0].Text != "NO way" || d[0].At != 0 {
			t.Errorf("%+v", d)
		}
	})
}

func TestDraftsThatBecameNothing(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		call := w.call()
		call.Delta(0, "one")
		call.Delta(1, "two")
		time.Sleep(time.Second)
		call.Answer(actorstest.Streamed("one"))
		synctest.Wait()
		if d := w.dropped(); !slices.Equal(d, []conversation.DraftID{"1.1.1"}) {
			t.Errorf("after an answer: %v", d)
		}
		w.ok(w.tell(talk, say("b", "again")))
		w.call().Delta(0, "three")
		synctest.Wait()
		w.call().Cut()
		synctest.Wait()
		if d := w.dropped(); !slices.Equal(d, []conversation.DraftID{"1.1.1", "2.1.0"}) {
			t.Errorf("after a failure: %v", d)
		}
		time.Sleep(time.Minute) // the back-off
		w.call().Delta(0, "four")
		synctest.Wait()
		w.ok(w.tell(talk, conversation.Cancel{By: conversation.ByUser}))
		if d := w.dropped(); len(d) != 3 || d[2] != "2.2.0" {
			t.Errorf("after a cancel: %v", d)
		}
	})
}

func TestModelFailures(t *testing.T) {
	retried := func(t *testing.T, w *world, code conversation.Code) {
		t.Helper()
		synctest.Wait()
		events := w.stored(talk)
		b, ok := events[len(events)-1].Body.(conversation.StepStarted)
		if !ok || b.Attempt != 2 || b.Cause != conversation.CauseError || b.Error == nil || b.Error.Code != code {
			t.Fatalf("%+v", events[len(events)-1].Body)
		}
		if strings.Contains(b.Error.Message, "secret") {
			t.Errorf("a foreign error is shown: %s", b.Error.Message)
		}
		if time.Until(b.NotBefore) > 0 && len(w.model.Open()) != 0 {
			t.Error("the attempt begins before its time")
		}
		time.Sleep(time.Minute)
		if call := w.call(); call.Request.Attempt != 2 {
			t.Errorf("attempt %d", call.Request.Attempt)
		}
		w.reply(actorstest.Text("hi"))
		w.whole(talk)
	}
	begin := func(w *world) *actorstest.Call {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		return w.call()
	}
	t.Run("silence", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			call := begin(w)
			time.Sleep(w.cfg.ModelIdle - time.Second)
			call.Delta(0, "I am")
			time.Sleep(w.cfg.ModelIdle - time.Second)
			if synctest.Wait(); call.Over() {
				t.Fatal("given up although it spoke")
			}
			time.Sleep(2 * time.Second)
			retried(t, w, conversation.Timeout)
		})
	})
	t.Run("too long", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			call := begin(w)
			for range 9 {
				time.Sleep(time.Minute)
				call.Delta(0, "and then ")
			}
			time.Sleep(time.Minute + time.Second)
			if synctest.Wait(); !call.Over() {
				t.Error("not stopped")
			}
			retried(t, w, conversation.Timeout)
		})
	})
	t.Run("cut", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			begin(w).Cut()
			retried(t, w, conversation.Unavailable)
		})
	})
	t.Run("foreign error", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			begin(w).Fail(errors.New("secret dial tcp"))
			retried(t, w, conversation.Unavailable)
		})
	})
	t.Run("understood", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			begin(w).Fail(&conversation.ModelError{
				Failure: conversation.Failure{Code: conversation.RateLimited, Message: "the provider is busy"}, RetryAfter: 20 * time.Second,
			})
			synctest.Wait()
			time.Sleep(19 * time.Second)
			if synctest.Wait(); len(w.model.Open()) != 0 {
				t.Error("the provider's advice is not taken")
			}
			retried(t, w, conversation.RateLimited)
		})
	})
	t.Run("permanent", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			begin(w).Fail(&conversation.ModelError{Failure: conversation.Failure{Code: conversation.BadRequest, Message: "no"}, Permanent: true})
			synctest.Wait()
			if v := w.view(talk); len(v.Tasks) != 0 || len(w.model.Calls()) != 1 {
				t.Errorf("%+v", v.Tasks)
			}
		})
	})
	t.Run("panic", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.e.deps.Models[""] = &panicky{Model: w.model}
			w.create(talk)
			w.ok(w.tell(talk, say("a", "hello")))
			retried(t, w, conversation.Internal)
		})
	})
}

// panicky panics in its first call.
type panicky struct {
	conversation.Model
	calls int
}

func (p *panicky) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	if p.calls++; p.calls == 1 {
		panic("secret")
	}
	return p.Model.Stream(ctx, r)
}

// D-29: a triage agent orders what waits, and can do nothing else.
func TestTriage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Rules.Policy.Mode = conversation.ModeQueue
		w.cfg.Rules.Policy.TriageAgent = researcher
	}, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "first")))
		first := w.call()
		for _, text := range []string{"second", "third", "fourth"} {
			w.ok(w.tell(talk, say(text, text)))
		}
		var triage *actorstest.Call
		for _, c := range w.model.Open() {
			if c != first {
				triage = c
			}
		}
		if triage == nil {
			t.Fatal("nobody is asked")
		}
		triage.Answer(actorstest.Text("3, 1, 9 and 2"))
		synctest.Wait()
		var order []string
		for _, m := range w.view(talk).Inbox {
			order = append(order, m.Excerpt)
		}
		if !slices.Equal(order, []string{"fourth", "second", "third"}) {
			t.Errorf("%v", order)
		}
		for _, call := range w.model.Open() {
			call.Answer(actorstest.Text("done"))
		}
		synctest.Wait()
		w.ok(w.tell(talk, conversation.Cancel{By: conversation.ByUser, Drop: true}))
	})
}
