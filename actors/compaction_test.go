package actors

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/persistence/persistencetest"
)

// narrow gives the model little room: three long messages call for a summary.
func narrow(h *harness) {
	a := h.cfg.Rules.Agents[conversation.Coordinator]
	a.EngineTools = false // their descriptions take room
	h.cfg.Rules.Agents[conversation.Coordinator] = a
	r := h.cfg.Rules.Agents[researcher]
	r.EngineTools = false
	h.cfg.Rules.Agents[researcher] = r
	h.cfg.Rules.Policy.Context = policy.Context{Budget: 600, Threshold: 400, Keep: 40, Summary: 20}
}

// long is a message of about 130 tokens.
func long(name string) string { return name + " " + strings.Repeat("blah", 130) }

// chat says something long and has it answered.
func (h *harness) chat(name string) {
	h.t.Helper()
	h.ok(h.tell(mainKey, say(name, long(name))))
	h.step().Answer(actorstest.Text("answer to " + name))
	synctest.Wait()
}

// step and asking are the open model calls: the step's, and the summary's.
func (h *harness) step() *actorstest.ModelCall {
	h.t.Helper()
	call := h.open(false)
	if call == nil {
		h.t.Fatal("no step is open")
	}
	return call
}

func (h *harness) asking() *actorstest.ModelCall { return h.open(true) }

func (h *harness) open(summary bool) *actorstest.ModelCall {
	h.t.Helper()
	synctest.Wait()
	var found *actorstest.ModelCall
	for _, c := range h.model.Open() {
		last := c.Request.Last
		if asks := len(last) > 0 && strings.HasPrefix(last[len(last)-1].Text, conversation.SummaryAsk); asks == summary {
			if found != nil {
				h.t.Fatalf("two calls are open, summary %v", summary)
			}
			found = c
		}
	}
	return found
}

// summaries are the counts of summaries by outcome.
func (h *harness) summaries() map[string]float64 { return h.counts("parley_compactions_total") }

// counts are a metric's values by its only label.
func (h *harness) counts(metric string) map[string]float64 {
	h.t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() == metric {
			for _, m := range f.Metric {
				all[m.Label[0].GetValue()] = m.Counter.GetValue()
			}
		}
	}
	return all
}

// texts are the user's entries of a request, by their first word or two.
func texts(r conversation.Request) []string {
	var all []string
	for _, e := range r.Entries {
		if e.Role == conversation.RoleUser {
			text, _, _ := strings.Cut(e.Text, " blah")
			all = append(all, text)
		}
	}
	return all
}

// ignoresContextInSummaries is a model that answers steps only.
type ignoresContextInSummaries struct {
	conversation.Model
	ignoresContext
}

func (d ignoresContextInSummaries) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	if n := len(r.Last); n > 0 && strings.HasPrefix(r.Last[n-1].Text, conversation.SummaryAsk) {
		return d.ignoresContext.Stream(ctx, r)
	}
	return d.Model.Stream(ctx, r)
}

func (ignoresContextInSummaries) Label() string { return "ignores context" }

func TestCompaction(t *testing.T) {
	t.Run("once, beside the work", func(t *testing.T) {
		withHarness(t, narrow, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.chat("one")
			if h.asking() != nil {
				t.Fatal("asked below the threshold")
			}
			h.chat("two")
			h.chat("three")
			call := h.asking()
			if call == nil {
				t.Fatal("no model is asked although the context is above the threshold")
			}
			if r := call.Request; len(r.Tools) != 0 || r.Agent != conversation.Coordinator || !slices.Contains(texts(r), "one") {
				t.Errorf("%+v", r)
			}
			// Work goes on while it is being made, and it is asked for once.
			h.chat("four")
			h.ok(h.tell(mainKey, say("five", long("five"))))
			five := h.step()
			if n := len(h.model.Calls()); n != 6 {
				t.Errorf("%d calls", n)
			}
			if n := five.Request.Tokens(); n > 600 {
				t.Errorf("a request of %d tokens", n)
			}
			call.Answer(actorstest.Text("They said one and two."))
			synctest.Wait()
			var event conversation.ContextCompacted
			for _, e := range h.stored(mainKey) {
				if b, ok := e.Body.(conversation.ContextCompacted); ok {
					event = b
				}
			}
			if event.Summary != "They said one and two." || event.Upto == 0 || event.TokensAfter >= event.TokensBefore {
				t.Errorf("%+v", event)
			}
			five.Answer(actorstest.Text("5"))
			synctest.Wait()
			if second := h.asking(); second != nil { // what was said meanwhile is long as well
				second.Answer(actorstest.Text("They said a lot."))
			}
			h.ok(h.tell(mainKey, say("six", "six")))
			got := texts(h.step().Request)
			if len(got) < 2 || got[0] != "one" || !strings.HasPrefix(got[1], "[summary of the conversation so far: They said") || slices.Contains(got, "two") {
				t.Errorf("%q", got)
			}
			h.step().Answer(actorstest.Text("6"))
			synctest.Wait()
			if n := h.summaries()["ok"]; n < 1 || n != float64(h.count(mainKey, conversation.KindContextCompacted)) {
				t.Errorf("%v", h.summaries())
			}
			h.assertComplete(mainKey)
		})
	})
	t.Run("once, also while it is being stored", func(t *testing.T) {
		withHarness(t, narrow, func(t *testing.T, h *harness) {
			h.create(mainKey)
			for _, name := range []string{"one", "two", "three"} {
				h.chat(name)
			}
			h.ok(h.tell(mainKey, say("four", "four")))
			gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindResponse))
			h.step().Answer(actorstest.Text("4"))
			<-gate.Held()
			h.asking().Answer(actorstest.Text("They said one and two."))
			synctest.Wait() // it waits for the commit of the task's end
			gate.Release()
			if h.asking() != nil {
				t.Error("asked again before the summary was stored")
			}
			if n := h.count(mainKey, conversation.KindContextCompacted); n != 1 {
				t.Errorf("%d summaries are stored", n)
			}
			h.assertComplete(mainKey)
		})
	})
	t.Run("a model that ignores its context is not waited for", func(t *testing.T) {
		d := ignoresContextInSummaries{ignoresContext: ignoresContext{asked: new(atomic.Int32)}}
		withHarness(t, func(h *harness) {
			narrow(h)
			d.free, d.Model = make(chan struct{}), h.model
			h.models = map[string]conversation.Model{"": d}
		}, func(t *testing.T, h *harness) {
			defer close(d.free)
			h.create(mainKey)
			for _, name := range []string{"one", "two", "three"} {
				h.chat(name)
			}
			time.Sleep(h.cfg.ModelLimit + time.Second)
			synctest.Wait()
			if n := d.asked.Load(); n != 1 || h.summaries()["failed"] != 1 {
				t.Errorf("asked %d times, %v", n, h.summaries())
			}
		})
	})
	t.Run("failure is harmless", func(t *testing.T) {
		for name, fail := range map[string]func(*actorstest.ModelCall){
			"failed": func(c *actorstest.ModelCall) { c.Fail(errors.New("secret")) },
			"cut":    (*actorstest.ModelCall).Cut,
			"empty":  func(c *actorstest.ModelCall) { c.Answer(actorstest.Text(" ")) },
			"never":  func(*actorstest.ModelCall) { time.Sleep(DefaultConfig().ModelLimit + time.Second) },
		} {
			t.Run(name, func(t *testing.T) {
				withHarness(t, narrow, func(t *testing.T, h *harness) {
					h.create(mainKey)
					for _, name := range []string{"one", "two", "three"} {
						h.chat(name)
					}
					fail(h.asking())
					if h.asking() != nil {
						t.Error("asked again at once")
					}
					h.ok(h.tell(mainKey, say("four", long("four"))))
					if h.asking() != nil {
						t.Error("asked again before a task has ended")
					}
					h.step().Answer(actorstest.Text("4"))
					again := h.asking()
					if again == nil {
						t.Fatal("not asked again after the task")
					}
					again.Answer(actorstest.Text("summary"))
					synctest.Wait()
					if n := h.count(mainKey, conversation.KindContextCompacted); n != 1 {
						t.Errorf("%d summaries", n)
					}
					h.assertComplete(mainKey)
				})
			})
		}
	})
	t.Run("a panic is harmless", func(t *testing.T) {
		withHarness(t, narrow, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.chat("one")
			h.chat("two")
			h.ok(h.tell(mainKey, say("three", long("three"))))
			h.e.deps.Models[""] = &panicky{Model: h.model}
			h.step().Answer(actorstest.Text("3"))
			synctest.Wait()
			if got := h.summaries(); got["failed"] != 1 {
				t.Errorf("%v", got)
			}
			h.chat("four")
		})
	})
	t.Run("a restart keeps the summary", func(t *testing.T) {
		withHarness(t, narrow, func(t *testing.T, h *harness) {
			h.create(mainKey)
			for _, name := range []string{"one", "two", "three"} {
				h.chat(name)
			}
			h.asking().Answer(actorstest.Text("They said one and two."))
			synctest.Wait()
			h.ok(h.tell(mainKey, say("four", "four")))
			before := texts(h.step().Request)
			h.reply(actorstest.Text("4"))
			h.restart()
			h.ok(h.tell(mainKey, say("five", "five")))
			after := texts(h.step().Request)
			if want := append(before, "five"); !slices.Equal(after, want) || !slices.ContainsFunc(after, func(s string) bool { return strings.HasPrefix(s, "[summary") }) {
				t.Errorf("%q, want %q", after, want)
			}
			h.reply(actorstest.Text("5"))
		})
	})
	t.Run("a crash stops it", func(t *testing.T) {
		withHarness(t, narrow, func(t *testing.T, h *harness) {
			h.create(mainKey)
			for _, name := range []string{"one", "two", "three"} {
				h.chat(name)
			}
			call := h.asking()
			h.stop()
			if got := h.summaries(); !call.Over() || got["stopped"] != 1 {
				t.Errorf("%v", got)
			}
			h.start()
			h.ok(h.tell(mainKey, say("four", long("four")))) // found long when it is read again
			if h.asking() == nil {
				t.Error("not asked again")
			}
			h.asking().Answer(actorstest.Text("summary"))
			h.step().Answer(actorstest.Text("4"))
			synctest.Wait()
			if n := h.count(mainKey, conversation.KindContextCompacted); n != 1 {
				t.Errorf("%d summaries", n)
			}
		})
	})
	t.Run("a drain stops it", func(t *testing.T) {
		withHarness(t, narrow, func(t *testing.T, h *harness) {
			h.create(mainKey)
			for _, name := range []string{"one", "two", "three"} {
				h.chat(name)
			}
			call := h.asking()
			began := time.Now()
			if err := h.e.Drain(t.Context()); err != nil || time.Since(began) > 0 {
				t.Errorf("%v after %s", err, time.Since(began))
			}
			if synctest.Wait(); !call.Over() {
				t.Error("it goes on")
			}
		})
	})
}

// A transcript that is read again when the session has idled is the one that was
// there: the summary, what came after it, and the first message.
func TestTranscriptAfterIdle(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.model.Auto = func(r conversation.Request) []conversation.Item {
			return []conversation.Item{actorstest.Text(fmt.Sprintf("answer of step %d", r.Step))}
		}
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		for i := range 400 { // 2,800 events
			h.ok(h.tell(mainKey, say(fmt.Sprint(i), fmt.Sprintf("message %d", i))))
		}
		if n := h.summaries()["ok"]; n < 3 {
			t.Fatalf("%v summaries", n)
		}
		last := func() []string {
			calls := h.model.Calls()
			return texts(calls[len(calls)-1].Request)
		}
		before := last()
		time.Sleep(h.cfg.CacheIdle + time.Second)
		h.ok(h.tell(mainKey, say("x", "message x")))
		if after := last(); !slices.Equal(after, append(before, "message x")) || after[0] != "message 0" {
			t.Errorf("%q\nwant %q", after, before)
		}
	})
}

// Limits that no agent can keep are refused when the engine is made.
func TestImpossibleContext(t *testing.T) {
	cfg := testConfig()
	cfg.Rules.Policy.Context.Threshold = cfg.Rules.Policy.Context.Budget
	if err := cfg.validate(); err == nil || !strings.Contains(err.Error(), "context.threshold") {
		t.Error(err)
	}
	cfg = testConfig()
	a := cfg.Rules.Agents[researcher]
	a.Prompt = strings.Repeat("word", 60_000)
	cfg.Rules.Agents[researcher] = a
	if err := cfg.validate(); err == nil || !strings.Contains(err.Error(), `"researcher"`) {
		t.Error(err)
	}
}
