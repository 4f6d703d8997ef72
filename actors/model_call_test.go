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
func (h *harness) deltas() []conversation.Delta {
	var all []conversation.Delta
	for _, s := range h.pub.Shown(mainKey) {
		if d, ok := s.What.(conversation.Delta); ok {
			all = append(all, d)
		}
	}
	return all
}

func (h *harness) dropped() []conversation.DraftID {
	var all []conversation.DraftID
	for _, s := range h.pub.Shown(mainKey) {
		if d, ok := s.What.(conversation.DraftDropped); ok {
			all = append(all, d.Draft)
		}
	}
	return all
}

// A draft ends also when its session leaves in the middle of it.
func TestDraftEndsWithSession(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.call().Delta(0, "Bonj")
		synctest.Wait()
		h.forget(mainKey)
		if ids := h.dropped(); len(ids) != 1 || ids[0] != h.deltas()[0].Draft {
			t.Errorf("followers are told that %q have ended", ids)
		}
	})
}

func TestDeltas(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		if _, ok := h.pub.Shown(mainKey)[0].What.(conversation.Thinking); !ok {
			t.Error("A-25: nothing says that a model is being asked")
		}
		call.Delta(0, "Bonjour")
		synctest.Wait()
		if d := h.deltas(); len(d) != 1 || d[0].Text != "Bonjour" || d[0].Draft != "1.1.0" || d[0].At != 0 {
			t.Fatalf("the first piece is not shown at once: %+v", d)
		}
		for _, piece := range []string{" à", " vous", "\xc3", "\xa9", "!"} {
			call.Delta(0, piece)
		}
		synctest.Wait()
		if len(h.deltas()) != 1 {
			t.Error("pieces are not gathered")
		}
		time.Sleep(h.cfg.DeltaEvery)
		synctest.Wait()
		d := h.deltas()
		if len(d) != 2 || d[1].Text != " à vousé!" || d[1].At != 7 {
			t.Fatalf("%+v", d)
		}
		if v := h.view(mainKey); len(v.Drafts) != 1 || v.Drafts[0].Text != "Bonjour à vousé!" {
			t.Errorf("drafts of a late follower: %+v", v.Drafts)
		}
		call.Delta(0, " half \xf0\x9f")
		call.Answer(actorstest.Streamed("Bonjour à vousé! half 😀"))
		synctest.Wait()
		d = h.deltas()
		if len(d) != 3 || d[2].Text != " half " || d[2].At != 16 {
			t.Errorf("what is left before the end: %+v", d[2:])
		}
		for _, s := range h.pub.Shown(mainKey) {
			if s.After < 4 {
				t.Errorf("%+v was shown behind %d, before its step_started", s.What, s.After)
			}
		}
		if len(h.dropped()) != 0 {
			t.Errorf("dropped %v, though a part took its place", h.dropped())
		}
		for _, e := range h.stored(mainKey) {
			if r, ok := e.Body.(conversation.Response); ok && r.Draft != "1.1.0" {
				t.Errorf("the part names the draft %q", r.Draft)
			}
		}
	})
}

// A sign of life, as of a call that waits for its turn, is no output of the model.
func TestFirstOutputIsText(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		for range 3 {
			time.Sleep(10 * time.Second)
			call.Delta(0, "")
		}
		time.Sleep(10 * time.Second)
		call.Delta(0, "Bonjour")
		time.Sleep(10 * time.Second)
		call.Answer(actorstest.Text("Bonjour."))
		synctest.Wait()
		families, err := h.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != "parley_model_first_output_seconds" {
				continue
			}
			if first := family.GetMetric()[0].GetHistogram(); first.GetSampleCount() != 1 || first.GetSampleSum() != 40 {
				t.Errorf("%d outputs, the first after %v s, want 40", first.GetSampleCount(), first.GetSampleSum())
			}
			return
		}
		t.Error("no first output")
	})
}

// lateSpeaker is a model that goes on with its text a second after it was stopped.
type lateSpeaker struct{}

func (lateSpeaker) Label() string { return "late" }

func (lateSpeaker) Stream(ctx context.Context, _ conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		if !yield(conversation.Output{Delta: "Bonj"}, nil) {
			return
		}
		<-ctx.Done()
		time.Sleep(time.Second)
		if yield(conversation.Output{Delta: "our"}, nil) {
			yield(conversation.Output{}, ctx.Err())
		}
	}
}

// Nothing of a call is shown once it was stopped, also if its model goes on: followers
// were told that the draft has ended.
func TestNothingIsShownAfterTheStop(t *testing.T) {
	withHarness(t, func(h *harness) { h.models = map[string]conversation.Model{"": lateSpeaker{}} }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
		if n := len(h.dropped()); n != 0 {
			t.Errorf("%d drafts have ended without their part", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := h.deltas(); len(d) != 1 || d[0].Text != "Bonj" {
			t.Errorf("%+v", d)
		}
	})
}

// A view that waits for a commit brings the text that was shown meanwhile: its
// reader was not there to see it.
func TestDraftsOfALateView(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
		h.silent(h.tell(mainKey, say("b", "more")))
		var v conversation.View
		h.e.View(mainKey, ada, func(view conversation.View, _ error) { v = view })
		call.Delta(0, "Bonjour")
		synctest.Wait()
		gate.Release()
		synctest.Wait()
		if v.Head != 5 || len(v.Drafts) != 1 || v.Drafts[0].Text != "Bonjour" {
			t.Errorf("%d, %+v", v.Head, v.Drafts)
		}
		h.reply(actorstest.Text("hi"))
		h.reply(actorstest.Text("hi"))
	})
}

// M-22: text that may still become a sentinel is held back.
func TestSentinelsAreHeldBack(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		call.Delta(0, "NO")
		synctest.Wait()
		time.Sleep(time.Second)
		if d := h.deltas(); len(d) != 0 {
			t.Errorf("%+v", d)
		}
		call.Delta(0, "_REPLY")
		call.Answer(actorstest.Streamed("NO_REPLY"))
		synctest.Wait()
		if len(h.deltas()) != 0 || len(h.dropped()) != 0 {
			t.Errorf("%+v, dropped %v", h.deltas(), h.dropped())
		}
		h.ok(h.tell(mainKey, say("b", "again")))
		call = h.call()
		call.Delta(0, "NO")
		call.Delta(0, " way")
		call.Answer(actorstest.Streamed("NO way"))
		synctest.Wait()
		if d := h.deltas(); len(d) != 1 || d[0].Text != "NO way" || d[0].At != 0 {
			t.Errorf("%+v", d)
		}
	})
}

// N-15: nothing streams of a step that a nudge opened: what it says may have been shown before.
func TestNudgedStepsAreHeldBack(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "Is order 17 shipped?")))
		call := h.call()
		h.ok(h.tell(mainKey, say("b", "Is order 18 shipped?")))
		call.Answer(actorstest.Use("x", "nothing", `{}`))
		h.reply(actorstest.Text("Order 17 is shipped. Order 18 is not."))
		closing := h.call()
		if !closing.Request.MustCall || len(closing.Request.Tools) != 2 {
			t.Errorf("calls alone: %v, of %v", closing.Request.MustCall, closing.Request.Tools)
		}
		closing.Delta(0, "Both were answered.")
		time.Sleep(time.Second)
		closing.Answer(actorstest.Streamed("Both were answered."))
		for _, text := range []string{"Order 17 is shipped.", "Order 18 is not."} {
			alone := h.call()
			alone.Delta(0, text)
			time.Sleep(time.Second)
			alone.Answer(actorstest.Streamed(text))
		}
		synctest.Wait()
		if d := h.deltas(); len(d) != 0 || len(h.dropped()) != 0 || h.count(mainKey, conversation.KindPartialResponse)+h.count(mainKey, conversation.KindResponse) != 2 {
			t.Errorf("deltas %+v, dropped %v", d, h.dropped())
		}
		for _, e := range h.stored(mainKey) {
			if b, is := e.Body.(conversation.MessageResolved); is && (b.Evidence != conversation.EvidenceAsked || *b.Part != 0) {
				t.Errorf("%s is %s by %s", b.Message, b.How, b.Evidence)
			}
		}
	})
}

func TestDraftsThatBecameNothing(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		call.Delta(0, "one")
		call.Delta(1, "two")
		time.Sleep(time.Second)
		call.Answer(actorstest.Streamed("one"))
		synctest.Wait()
		if d := h.dropped(); !slices.Equal(d, []conversation.DraftID{"1.1.1"}) {
			t.Errorf("after an answer: %v", d)
		}
		h.ok(h.tell(mainKey, say("b", "again")))
		h.call().Delta(0, "three")
		synctest.Wait()
		h.call().Cut()
		synctest.Wait()
		if d := h.dropped(); !slices.Equal(d, []conversation.DraftID{"1.1.1", "2.1.0"}) {
			t.Errorf("after a failure: %v", d)
		}
		time.Sleep(time.Minute) // the back-off
		h.call().Delta(0, "four")
		synctest.Wait()
		h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
		if d := h.dropped(); len(d) != 2 {
			t.Errorf("after a cancel, which keeps the text: %v", d)
		}
	})
}

func TestModelFailures(t *testing.T) {
	retried := func(t *testing.T, h *harness, code conversation.Code) {
		t.Helper()
		synctest.Wait()
		events := h.stored(mainKey)
		b, ok := events[len(events)-1].Body.(conversation.StepStarted)
		if !ok || b.Attempt != 2 || b.Cause != conversation.CauseError || b.Error == nil || b.Error.Code != code {
			t.Fatalf("%+v", events[len(events)-1].Body)
		}
		if strings.Contains(b.Error.Message, "secret") {
			t.Errorf("a foreign error is shown: %s", b.Error.Message)
		}
		if time.Until(b.NotBefore) > 0 && len(h.model.Open()) != 0 {
			t.Error("the attempt begins before its time")
		}
		time.Sleep(time.Minute)
		if call := h.call(); call.Request.Attempt != 2 {
			t.Errorf("attempt %d", call.Request.Attempt)
		}
		h.reply(actorstest.Text("hi"))
		h.assertComplete(mainKey)
	}
	begin := func(h *harness) *actorstest.ModelCall {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		return h.call()
	}
	t.Run("silence", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			call := begin(h)
			time.Sleep(h.cfg.ModelIdle - time.Second)
			call.Delta(0, "I am")
			time.Sleep(h.cfg.ModelIdle - time.Second)
			if synctest.Wait(); call.Over() {
				t.Fatal("given up although it spoke")
			}
			time.Sleep(2 * time.Second)
			retried(t, h, conversation.Timeout)
		})
	})
	t.Run("too long", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			call := begin(h)
			for range 9 {
				time.Sleep(time.Minute)
				call.Delta(0, "and then ")
			}
			time.Sleep(time.Minute + time.Second)
			if synctest.Wait(); !call.Over() {
				t.Error("not stopped")
			}
			retried(t, h, conversation.Timeout)
		})
	})
	t.Run("cut", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			begin(h).Cut()
			retried(t, h, conversation.Unavailable)
		})
	})
	t.Run("foreign error", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			begin(h).Fail(errors.New("secret dial tcp"))
			retried(t, h, conversation.Unavailable)
		})
	})
	t.Run("understood", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			begin(h).Fail(&conversation.ModelError{
				Failure: conversation.Failure{Code: conversation.RateLimited, Message: "the provider is busy"}, RetryAfter: 20 * time.Second,
			})
			synctest.Wait()
			time.Sleep(19 * time.Second)
			if synctest.Wait(); len(h.model.Open()) != 0 {
				t.Error("the provider's advice is not taken")
			}
			retried(t, h, conversation.RateLimited)
			if got := h.modelCalls("rate_limited"); got != 1 {
				t.Errorf("%v calls met the provider's limit, want 1", got)
			}
		})
	})
	t.Run("permanent", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			begin(h).Fail(&conversation.ModelError{Failure: conversation.Failure{Code: conversation.BadRequest, Message: "no"}, Permanent: true})
			synctest.Wait()
			if v := h.view(mainKey); len(v.Tasks) != 0 || len(h.model.Calls()) != 1 {
				t.Errorf("%+v", v.Tasks)
			}
		})
	})
	t.Run("panic", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.e.deps.Models[""] = &panicky{Model: h.model}
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "hello")))
			retried(t, h, conversation.Internal)
		})
	})
}

// modelCalls is how many model calls have had an outcome.
func (h *harness) modelCalls(outcome string) (n float64) {
	h.t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if labels := m.GetLabel(); family.GetName() == "parley_model_calls_total" && labels[1].GetValue() == outcome { // model, outcome
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
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
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Policy.Mode = conversation.ModeQueue
		h.cfg.Rules.Policy.TriageAgent = researcher
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "first")))
		first := h.call()
		for _, text := range []string{"second", "third", "fourth"} {
			h.ok(h.tell(mainKey, say(text, text)))
		}
		var triage *actorstest.ModelCall
		for _, c := range h.model.Open() {
			if c != first {
				triage = c
			}
		}
		if triage == nil {
			t.Fatal("no model is asked")
		}
		triage.Answer(actorstest.Text("3, 1, 9 and 2"))
		synctest.Wait()
		var order []string
		for _, m := range h.view(mainKey).Inbox {
			order = append(order, m.Excerpt)
		}
		if !slices.Equal(order, []string{"fourth", "second", "third"}) {
			t.Errorf("%v", order)
		}
		for _, call := range h.model.Open() {
			call.Answer(actorstest.Text("done"))
		}
		synctest.Wait()
		h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser, Drop: true}))
	})
}
