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
	"parley/persistence/persistencetest"
)

// narrow gives the model little room: three long messages call for a summary.
func narrow(w *world) {
	a := w.cfg.Rules.Agents[conversation.Coordinator]
	a.EngineTools = false // their descriptions take room
	w.cfg.Rules.Agents[conversation.Coordinator] = a
	r := w.cfg.Rules.Agents[researcher]
	r.EngineTools = false
	w.cfg.Rules.Agents[researcher] = r
	w.cfg.Rules.Policy.Context = conversation.Context{Budget: 600, Threshold: 400, Keep: 40, Summary: 20}
}

// long is a message of about 120 tokens.
func long(name string) string { return name + " " + strings.Repeat("blah", 120) }

// chat says something long and has it answered.
func (w *world) chat(name string) {
	w.t.Helper()
	w.ok(w.tell(talk, say(name, long(name))))
	w.step().Answer(actorstest.Text("answer to " + name))
	synctest.Wait()
}

// step and asking are the open model calls: the step's, and the summary's.
func (w *world) step() *actorstest.Call {
	w.t.Helper()
	call := w.open(false)
	if call == nil {
		w.t.Fatal("no step is open")
	}
	return call
}

func (w *world) asking() *actorstest.Call { return w.open(true) }

func (w *world) open(summary bool) *actorstest.Call {
	w.t.Helper()
	synctest.Wait()
	var found *actorstest.Call
	for _, c := range w.model.Open() {
		last := c.Request.Last
		if asks := len(last) > 0 && strings.HasPrefix(last[len(last)-1].Text, conversation.SummaryAsk); asks == summary {
			if found != nil {
				w.t.Fatalf("two calls are open, summary %v", summary)
			}
			found = c
		}
	}
	return found
}

// summaries are the counts of summaries by outcome.
func (w *world) summaries() map[string]float64 { return w.counts("parley_compactions_total") }

// counts are a metric's values by its only label.
func (w *world) counts(metric string) map[string]float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
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

// deafToSummaries is a model that answers steps only.
type deafToSummaries struct {
	conversation.Model
	deaf
}

func (d deafToSummaries) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	if n := len(r.Last); n > 0 && strings.HasPrefix(r.Last[n-1].Text, conversation.SummaryAsk) {
		return d.deaf.Stream(ctx, r)
	}
	return d.Model.Stream(ctx, r)
}

func (deafToSummaries) Label() string { return "deaf to summaries" }

func TestCompaction(t *testing.T) {
	t.Run("once, beside the work", func(t *testing.T) {
		inWorld(t, narrow, func(t *testing.T, w *world) {
			w.create(talk)
			w.chat("one")
			if w.asking() != nil {
				t.Fatal("asked below the threshold")
			}
			w.chat("two")
			w.chat("three")
			call := w.asking()
			if call == nil {
				t.Fatal("above the threshold nobody is asked")
			}
			if r := call.Request; len(r.Tools) != 0 || r.Agent != conversation.Coordinator || !slices.Contains(texts(r), "one") {
				t.Errorf("%+v", r)
			}
			// Work goes on while it is being made, and it is asked for once.
			w.chat("four")
			w.ok(w.tell(talk, say("five", long("five"))))
			five := w.step()
			if n := len(w.model.Calls()); n != 6 {
				t.Errorf("%d calls", n)
			}
			if n := five.Request.Tokens(); n > 600 {
				t.Errorf("a request of %d tokens", n)
			}
			call.Answer(actorstest.Text("They said one and two."))
			synctest.Wait()
			var event conversation.ContextCompacted
			for _, e := range w.stored(talk) {
				if b, ok := e.Body.(conversation.ContextCompacted); ok {
					event = b
				}
			}
			if event.Summary != "They said one and two." || event.Upto == 0 || event.TokensAfter >= event.TokensBefore {
				t.Errorf("%+v", event)
			}
			five.Answer(actorstest.Text("5"))
			synctest.Wait()
			if second := w.asking(); second != nil { // what was said meanwhile is long as well
				second.Answer(actorstest.Text("They said a lot."))
			}
			w.ok(w.tell(talk, say("six", "six")))
			got := texts(w.step().Request)
			if len(got) < 2 || got[0] != "one" || !strings.HasPrefix(got[1], "[summary of the conversation so far: They said") || slices.Contains(got, "two") {
				t.Errorf("%q", got)
			}
			w.step().Answer(actorstest.Text("6"))
			synctest.Wait()
			if n := w.summaries()["ok"]; n < 1 || n != float64(w.count(talk, conversation.KindContextCompacted)) {
				t.Errorf("%v", w.summaries())
			}
			w.whole(talk)
		})
	})
	t.Run("once, also while it is being stored", func(t *testing.T) {
		inWorld(t, narrow, func(t *testing.T, w *world) {
			w.create(talk)
			for _, name := range []string{"one", "two", "three"} {
				w.chat(name)
			}
			w.ok(w.tell(talk, say("four", "four")))
			gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindResponse))
			w.step().Answer(actorstest.Text("4"))
			<-gate.Held()
			w.asking().Answer(actorstest.Text("They said one and two."))
			synctest.Wait() // it waits for the commit of the task's end
			gate.Release()
			if w.asking() != nil {
				t.Error("asked again before the summary was stored")
			}
			if n := w.count(talk, conversation.KindContextCompacted); n != 1 {
				t.Errorf("%d summaries are stored", n)
			}
			w.whole(talk)
		})
	})
	t.Run("a model that ignores its context is not waited for", func(t *testing.T) {
		d := deafToSummaries{deaf: deaf{asked: new(atomic.Int32)}}
		inWorld(t, func(w *world) {
			narrow(w)
			d.free, d.Model = make(chan struct{}), w.model
			w.models = map[string]conversation.Model{"": d}
		}, func(t *testing.T, w *world) {
			defer close(d.free)
			w.create(talk)
			for _, name := range []string{"one", "two", "three"} {
				w.chat(name)
			}
			time.Sleep(w.cfg.ModelLimit + time.Second)
			synctest.Wait()
			if n := d.asked.Load(); n != 1 || w.summaries()["failed"] != 1 {
				t.Errorf("asked %d times, %v", n, w.summaries())
			}
		})
	})
	t.Run("failure is harmless", func(t *testing.T) {
		for name, fail := range map[string]func(*actorstest.Call){
			"failed": func(c *actorstest.Call) { c.Fail(errors.New("secret")) },
			"cut":    (*actorstest.Call).Cut,
			"empty":  func(c *actorstest.Call) { c.Answer(actorstest.Text(" ")) },
			"never":  func(*actorstest.Call) { time.Sleep(DefaultConfig().ModelLimit + time.Second) },
		} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, narrow, func(t *testing.T, w *world) {
					w.create(talk)
					for _, name := range []string{"one", "two", "three"} {
						w.chat(name)
					}
					fail(w.asking())
					if w.asking() != nil {
						t.Error("asked again at once")
					}
					w.ok(w.tell(talk, say("four", long("four"))))
					if w.asking() != nil {
						t.Error("asked again before a task has ended")
					}
					w.step().Answer(actorstest.Text("4"))
					again := w.asking()
					if again == nil {
						t.Fatal("not asked again after the task")
					}
					again.Answer(actorstest.Text("summary"))
					synctest.Wait()
					if n := w.count(talk, conversation.KindContextCompacted); n != 1 {
						t.Errorf("%d summaries", n)
					}
					w.whole(talk)
				})
			})
		}
	})
	t.Run("a panic is harmless", func(t *testing.T) {
		inWorld(t, narrow, func(t *testing.T, w *world) {
			w.create(talk)
			w.chat("one")
			w.chat("two")
			w.ok(w.tell(talk, say("three", long("three"))))
			w.e.deps.Models[""] = &panicky{Model: w.model}
			w.step().Answer(actorstest.Text("3"))
			synctest.Wait()
			if got := w.summaries(); got["failed"] != 1 {
				t.Errorf("%v", got)
			}
			w.chat("four")
		})
	})
	t.Run("a restart keeps the summary", func(t *testing.T) {
		inWorld(t, narrow, func(t *testing.T, w *world) {
			w.create(talk)
			for _, name := range []string{"one", "two", "three"} {
				w.chat(name)
			}
			w.asking().Answer(actorstest.Text("They said one and two."))
			synctest.Wait()
			w.ok(w.tell(talk, say("four", "four")))
			before := texts(w.step().Request)
			w.reply(actorstest.Text("4"))
			w.restart()
			w.ok(w.tell(talk, say("five", "five")))
			after := texts(w.step().Request)
			if want := append(before, "five"); !slices.Equal(after, want) || !slices.ContainsFunc(after, func(s string) bool { return strings.HasPrefix(s, "[summary") }) {
				t.Errorf("%q, want %q", after, want)
			}
			w.reply(actorstest.Text("5"))
		})
	})
	t.Run("a crash stops it", func(t *testing.T) {
		inWorld(t, narrow, func(t *testing.T, w *world) {
			w.create(talk)
			for _, name := range []string{"one", "two", "three"} {
				w.chat(name)
			}
			call := w.asking()
			w.stop()
			if got := w.summaries(); !call.Over() || got["stopped"] != 1 {
				t.Errorf("%v", got)
			}
			w.start()
			w.ok(w.tell(talk, say("four", long("four")))) // found long when it is read again
			if w.asking() == nil {
				t.Error("not asked again")
			}
			w.asking().Answer(actorstest.Text("summary"))
			w.step().Answer(actorstest.Text("4"))
			synctest.Wait()
			if n := w.count(talk, conversation.KindContextCompacted); n != 1 {
				t.Errorf("%d summaries", n)
			}
		})
	})
	t.Run("a drain stops it", func(t *testing.T) {
		inWorld(t, narrow, func(t *testing.T, w *world) {
			w.create(talk)
			for _, name := range []string{"one", "two", "three"} {
				w.chat(name)
			}
			call := w.asking()
			began := time.Now()
			if err := w.e.Drain(t.Context()); err != nil || time.Since(began) > 0 {
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
	inWorld(t, func(w *world) {
		w.model.Auto = func(r conversation.Request) []conversation.Item {
			return []conversation.Item{actorstest.Text(fmt.Sprintf("answer of step %d", r.Step))}
		}
	}, func(t *testing.T, w *world) {
		w.create(talk)
		for i := range 400 { // 2,800 events
			w.ok(w.tell(talk, say(fmt.Sprint(i), fmt.Sprintf("message %d", i))))
		}
		if n := w.summaries()["ok"]; n < 3 {
			t.Fatalf("%v summaries", n)
		}
		last := func() []string {
			calls := w.model.Calls()
			return texts(calls[len(calls)-1].Request)
		}
		before := last()
		time.Sleep(w.cfg.CacheIdle + time.Second)
		w.ok(w.tell(talk, say("x", "message x")))
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
