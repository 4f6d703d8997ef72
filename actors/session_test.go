package actors

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/actorstest"
	"parley/actors/internal/refusal"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

func TestTurn(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		if r := h.ok(h.tell(mainKey, say("a", "hello"))); r.Disposition != conversation.Started {
			t.Fatalf("disposition %s", r.Disposition)
		}
		h.reply(actorstest.Text("hi"))
		h.assertComplete(mainKey)
		if h.count(mainKey, conversation.KindResponse) != 1 || len(h.view(mainKey).Tasks) != 0 {
			t.Fatalf("%v", kinds(h.stored(mainKey)))
		}
		if n := len(h.store.Commits()); n != 3 {
			t.Errorf("%d commits for a create and a turn, not 3", n)
		}
	})
}

func TestCreate(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		missing := h.tell(mainKey, say("a", "hello"))
		h.refused(missing, conversation.NotFound)
		h.e.Create(mainKey, conversation.Create{Owner: ada, Agent: "nobody"}, func(_ conversation.SessionKey, created bool, err error) {
			if created || conversation.AsError(err).Code != conversation.BadRequest {
				t.Errorf("created %v, %v", created, err)
			}
		})
		synctest.Wait()
		if _, err := h.store.Head(t.Context(), mainKey); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("a refused create left something behind: %v", err)
		}
		if h.active(mainKey) {
			t.Error("a session that does not exist is kept in memory")
		}
		h.create(mainKey)
		again := true
		h.e.Create(mainKey, conversation.Create{Owner: ada}, func(_ conversation.SessionKey, created bool, err error) { again = created || err != nil })
		synctest.Wait()
		if again || h.count(mainKey, conversation.KindSessionCreated) != 1 {
			t.Error("a repeated create is not harmless")
		}
		// A message and a create that wait for the same load: in order.
		other := conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
		early := h.tell(other, say("a", "hello"))
		var created bool
		h.e.Create(other, conversation.Create{Owner: ada}, func(_ conversation.SessionKey, ok bool, err error) { created = ok })
		late := h.tell(other, say("b", "hello"))
		h.refused(early, conversation.NotFound)
		h.ok(late)
		if !created {
			t.Error("not created")
		}
		h.reply(actorstest.Text("hi"))
	})
}

func TestVisibility(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.reply(actorstest.Text("hi"))
		ask := func(as conversation.UserID) (told, seen error) {
			h.e.Tell(mainKey, as, conversation.Say{Author: as, ClientMsgID: "b", Text: "psst"}, func(_ conversation.Receipt, err error) { told = err })
			h.e.View(mainKey, as, func(_ conversation.View, err error) { seen = err })
			synctest.Wait()
			return told, seen
		}
		hidden := func(what string, err error) {
			if err == nil || conversation.AsError(err).Code != conversation.NotFound {
				t.Errorf("%s: %v", what, err)
			}
		}
		told, seen := ask("eve")
		hidden("a command", told)
		hidden("a view of an active session", seen)
		time.Sleep(h.cfg.Idle + time.Minute)
		synctest.Wait()
		_, seen = ask("eve")
		hidden("a view", seen)
		time.Sleep(h.cfg.Idle + time.Minute)
		synctest.Wait()
		h.e.View(mainKey, "eve", func(_ conversation.View, err error) { seen = err })
		synctest.Wait()
		hidden("a view of a passive session", seen)
		if h.active(mainKey) {
			t.Error("a view has loaded the session")
		}
		open := conversation.AccessTenant
		h.ok(h.tell(mainKey, conversation.Update{Access: &open}))
		if _, seen = ask("eve"); seen != nil {
			t.Error(seen)
		}
		h.reply(actorstest.Text("hi eve"))
	})
}

// N-06: a stop overtakes the queue and stops the model call at once, before its
// own commit.
func TestCancel(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		h.ok(h.tell(mainKey, conversation.Say{Author: ada, ClientMsgID: "b", Text: "later", Mode: conversation.ModeQueue}))
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindTaskCancelling))
		a := h.tell(mainKey, conversation.Cancel{By: conversation.ByUser})
		h.silent(a)
		if !call.Over() {
			t.Error("the model call goes on")
		}
		gate.Release()
		if r := h.ok(a); r.OldStatus != conversation.TaskRunning {
			t.Errorf("%+v", r)
		}
		h.assertComplete(mainKey)
		if got := h.call().Request.Task; got != "t2-aaaaaaaaaaaaaaaa" {
			t.Errorf("then %s is worked on", got)
		}
		h.reply(actorstest.Text("now"))
	})
}

// A cancel between a step's decision and its commit: the model is never asked.
func TestCancelBeforeStart(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindStepStarted))
		first := h.tell(mainKey, say("a", "hello"))
		h.silent(first)
		stop := h.tell(mainKey, conversation.Cancel{By: conversation.ByUser})
		h.silent(stop)
		gate.Release()
		h.ok(first)
		h.ok(stop)
		if n := len(h.model.Calls()); n != 0 {
			t.Errorf("%d model calls", n)
		}
	})
}

// N-09: idle sessions leave memory, also while they await an answer.
func TestPassivation(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.reply(actorstest.Use("x", conversation.ToolAsk, `{"question":"Which one?"}`))
		if v := h.view(mainKey); len(v.Tasks) != 1 || v.Tasks[0].Status != conversation.TaskAwaiting {
			t.Fatalf("%+v", v.Tasks)
		}
		time.Sleep(h.cfg.Idle - time.Second)
		if !h.active(mainKey) {
			t.Error("left too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h.active(mainKey) {
			t.Error("still in memory")
		}
		passive := h.view(mainKey)
		if h.active(mainKey) || len(passive.Questions) != 1 || passive.Log != h.store.LogID() {
			t.Errorf("a passive view: %+v", passive)
		}
		if r := h.ok(h.tell(mainKey, say("b", "that one"))); r.Disposition != conversation.Answered {
			t.Errorf("%+v", r)
		}
		h.reply(actorstest.Text("done"))
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
		h.assertComplete(mainKey)
	})
}

func TestBusySessionStays(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.ModelIdle, h.cfg.ModelLimit = 3*time.Hour, 3*time.Hour }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		call := h.call()
		time.Sleep(2 * time.Hour)
		if !h.active(mainKey) || call.Over() {
			t.Error("a working session left memory")
		}
		h.reply(actorstest.Text("at last"))
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
	})
}

// D-16: what was dropped from memory is read again for the model.
func TestTranscriptIsReadAgain(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "my name is Ada")))
		h.reply(actorstest.Text("hello Ada"))
		time.Sleep(h.cfg.CacheIdle + time.Second)
		synctest.Wait()
		h.ok(h.tell(mainKey, say("b", "what is my name?")))
		request := h.call().Request
		var texts []string
		for _, entry := range request.Entries {
			texts = append(texts, entry.Text)
			for _, item := range entry.Items {
				texts = append(texts, item.Text)
			}
		}
		for _, want := range []string{"my name is Ada", "hello Ada", "what is my name?"} {
			if !slices.Contains(texts, want) {
				t.Errorf("%q is not among %q", want, texts)
			}
		}
		h.reply(actorstest.Text("Ada"))
	})
}

// heldRecords is a store that has read a log, and holds it back.
type heldRecords struct {
	conversation.Store
	hold, release chan struct{} // closed by the test: hold before the read that waits for release
}

func (s *heldRecords) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		var all []conversation.Record
		for record, err := range s.Store.Records(ctx, key, r) {
			if err != nil {
				yield(record, err)
				return
			}
			all = append(all, record)
		}
		select {
		case <-s.hold:
			<-s.release
		default:
		}
		for _, record := range all {
			if !yield(record, nil) {
				return
			}
		}
	}
}

// What becomes durable while a transcript is read is behind it when the model is asked.
func TestStoredWhileTranscriptIsRead(t *testing.T) {
	store := &heldRecords{}
	withHarness(t, func(h *harness) {
		store.hold, store.release = make(chan struct{}), make(chan struct{})
		store.Store, h.through = h.store, store
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "one")))
		h.reply(actorstest.Text("hello"))
		time.Sleep(h.cfg.CacheIdle + time.Second)
		synctest.Wait()
		close(store.hold)
		h.ok(h.tell(mainKey, say("b", "two")))
		if n := len(h.model.Open()); n != 0 {
			t.Fatal("the transcript was not read again: the test shows nothing")
		}
		h.ok(h.tell(mainKey, say("c", "three")))
		close(store.release)
		h.reply(actorstest.Text("that was two"))
		if got := texts(h.call().Request); !slices.Contains(got, "one") || !slices.Contains(got, "three") {
			t.Errorf("the model is shown %q", got)
		}
		h.reply(actorstest.Text("and three"))
		h.assertComplete(mainKey)
	})
}

// N-02: what was open when the process ended goes on by itself.
func TestRecovery(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.call()
		h.restart()
		again := h.call()
		if again.Request.Attempt != 2 {
			t.Errorf("attempt %d", again.Request.Attempt)
		}
		events := h.stored(mainKey)
		if b, ok := events[len(events)-1].Body.(conversation.StepStarted); !ok || b.Cause != conversation.CauseInterrupted {
			t.Errorf("%+v", events[len(events)-1])
		}
		h.reply(actorstest.Text("hi"))
		if h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
		h.assertComplete(mainKey)
	})
}

func TestDuplicates(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Policy.Mode = conversation.ModeQueue
		h.model.Auto = func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		first := h.ok(h.tell(mainKey, say("first", "hello")))
		for i := range 300 {
			h.ok(h.tell(mainKey, say(fmt.Sprint(i), "hello")))
		}
		{ // M-10: forgotten by the session, known to the store.
			// In one burst: what is behind a look-up keeps its order.
			a, b, c := h.tell(mainKey, say("first", "hello")), h.tell(mainKey, say("first", "other")), h.tell(mainKey, say("new", "hello"))
			if r := h.ok(a); !r.Duplicate || r.Message != first.Message || r.Seq != first.Seq || r.Task != first.Task {
				t.Errorf("%+v, first %+v", r, first)
			}
			h.refused(b, conversation.Conflict)
			if h.ok(c).Duplicate {
				t.Error("a new message is taken for a repetition")
			}
		}
		{ // N-01: and across a restart.
			h.restart()
			if r := h.ok(h.tell(mainKey, say("first", "hello"))); !r.Duplicate || r.Message != first.Message {
				t.Errorf("%+v", r)
			}
		}
	})
}

// M-10, M-11, M-13, M-14: parts of an outside runtime.
func TestPartsFromOutside(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		part := func(source string, index conversation.PartIndex, text string) conversation.AddPart {
			return conversation.AddPart{Author: ada, Source: source, Index: index, Text: text}
		}
		one := h.ok(h.tell(mainKey, part("n1", 0, "zero")))
		// Both at once: the second must wait until the first is in the store.
		a, b := h.tell(mainKey, part("n1", 1, "one")), h.tell(mainKey, part("n1", 1, "one"))
		first, second := h.ok(a), h.ok(b)
		if first.Duplicate || !second.Duplicate || first.Message != second.Message || first.Message == one.Message {
			t.Errorf("%+v, then %+v", first, second)
		}
		x, y := h.ok(h.tell(mainKey, part("", 0, "plain"))), h.ok(h.tell(mainKey, part("", 0, "plain")))
		if x.Message == y.Message || y.Duplicate {
			t.Error("a part without a source has a key")
		}
		if n := h.count(mainKey, conversation.KindPartialResponse); n != 4 {
			t.Errorf("%d parts", n)
		}
	})
}

// M-16: a part never comes before the one that it follows, also of a source that no
// session remembers, and after a restart. It is told which one is next.
// PROTOCOL.md, rule 8.7.
func TestPartsFromOutsideHaveNoGaps(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		part := func(index conversation.PartIndex) *answer {
			return h.tell(mainKey, conversation.AddPart{Author: ada, Source: "n1", Index: index, Indexed: true, Text: fmt.Sprint("part ", index)})
		}
		gap := func(index, next conversation.PartIndex) {
			t.Helper()
			if e := h.refused(part(index), conversation.Conflict); e.NextPart == nil || *e.NextPart != next {
				t.Errorf("part %d: %v, want next part %d", index, e, next)
			}
		}
		gap(2, 0)
		// All at once: each waits until the one before it is in the store.
		a, b, c, d := part(0), part(2), part(1), part(2)
		h.ok(a)
		if e := h.refused(b, conversation.Conflict); e.NextPart == nil || *e.NextPart != 1 {
			t.Errorf("%v", e)
		}
		h.ok(c)
		h.ok(d)
		gap(1<<31-1, 3)
		h.restart()
		gap(4, 3)
		if r := h.ok(part(2)); !r.Duplicate {
			t.Errorf("%+v", r)
		}
		if r := h.ok(part(3)); r.Duplicate || r.PartIndex != 3 {
			t.Errorf("%+v", r)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Run("waiting for a load", func(t *testing.T) {
		withHarness(t, func(h *harness) { h.cfg.MaxWaiting, h.through = 3, unsure{h.store} }, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "hello")))
			gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindPartialResponse))
			var answers []*answer
			for i := range 6 {
				answers = append(answers, h.tell(mainKey, conversation.AddPart{Author: ada, Source: "n", Index: conversation.PartIndex(i), Text: "x"}))
				if i < 5 {
					h.silent(answers[i])
				}
			}
			// The first is being stored, the second asks for its key, three wait.
			h.refused(answers[5], conversation.Overloaded)
			gate.Release()
			for _, a := range answers[:5] {
				h.ok(a)
			}
			h.reply(actorstest.Text("hi"))
		})
	})
	t.Run("waiting for a commit", func(t *testing.T) {
		withHarness(t, func(h *harness) { h.cfg.MaxPending = 3 }, func(t *testing.T, h *harness) {
			h.create(mainKey)
			gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
			var answers []*answer
			for i := range 5 {
				answers = append(answers, h.tell(mainKey, say(fmt.Sprint(i), "hello")))
			}
			h.refused(answers[4], conversation.Overloaded)
			gate.Release()
			for _, a := range answers[:4] {
				h.ok(a)
			}
			h.reply(actorstest.Text("hi"))
		})
	})
	// N-06: a stop is not refused, whatever waits.
	t.Run("a stop while a commit is waited for", func(t *testing.T) {
		withHarness(t, func(h *harness) { h.cfg.MaxPending = 3 }, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "hello")))
			call := h.call()
			gate := h.store.Hold(persistencetest.BeforeWrite, nil)
			for i := range 4 {
				h.tell(mainKey, say(fmt.Sprint(i), "hello"))
			}
			h.refused(h.tell(mainKey, say("too many", "hello")), conversation.Overloaded)
			stop := h.tell(mainKey, conversation.Cancel{By: conversation.ByUser, Drop: true})
			h.silent(stop)
			if !call.Over() {
				t.Error("the model call goes on")
			}
			gate.Release()
			h.ok(stop)
		})
	})
	t.Run("a stop while the session is loaded", func(t *testing.T) {
		store := &racing{}
		withHarness(t, func(h *harness) {
			h.cfg.MaxWaiting = 1
			store.Store, h.through = h.store, store
		}, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.forget(mainKey)
			loading, goOn := make(chan struct{}), make(chan struct{})
			store.onAcquire(func(*conversation.Head) { store.onAcquire(nil); close(loading); <-goOn })
			first := h.tell(mainKey, say("a", "hello"))
			<-loading
			h.refused(h.tell(mainKey, say("b", "hello")), conversation.Overloaded)
			stop := h.tell(mainKey, conversation.Cancel{By: conversation.ByUser})
			h.silent(stop)
			close(goOn)
			h.ok(first)
			h.ok(stop)
		})
	})
	t.Run("views of passive sessions", func(t *testing.T) {
		withHarness(t, func(h *harness) { h.cfg.MaxFolds, h.cfg.MaxFoldWait = 1, 1 }, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.restart()
			h.view(mainKey)
			h.e.folding.Add(1) // one is under way
			var failed error
			h.e.View(mainKey, ada, func(_ conversation.View, err error) { failed = err })
			synctest.Wait()
			if conversation.AsError(failed).Code != conversation.Overloaded {
				t.Errorf("%v", failed)
			}
			h.e.folding.Add(-1)
			h.view(mainKey)
		})
	})
}

func TestConfig(t *testing.T) {
	deps := Deps{
		Store: persistencetest.NewMemory(), Publisher: &actorstest.Publisher{}, Metrics: metrics.NewActors(prometheus.NewRegistry()),
		Models: map[string]conversation.Model{"": &actorstest.Model{}},
	}
	if _, err := New(testConfig(), deps); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"MaxConcurrent": func(c *Config) { c.MaxConcurrent = 0 },
		"Idle":          func(c *Config) { c.Idle = -1 },
		"ToolOutput":    func(c *Config) { c.ToolOutput = 0 },
		"IdleJitter":    func(c *Config) { c.IdleJitter = -1 },
		"OnFull":        func(c *Config) { c.OnFull = 7 },
	} {
		t.Run("A-34 "+name, func(t *testing.T) {
			cfg := testConfig()
			change(&cfg)
			if _, err := New(cfg, deps); err == nil {
				t.Error("taken")
			}
		})
	}
	cfg := testConfig()
	cfg.Rules.Agents["odd"] = policy.Profile{Name: "odd", Model: "unheard of"}
	if _, err := New(cfg, deps); err == nil {
		t.Error("an agent without a model is taken")
	}
}

// Every command is answered exactly once, while sessions come and go under it.
// No bubble: real goroutines race here.
func TestAnsweredExactlyOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	store := persistencetest.NewMemory()
	n := 0
	store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) {
		if n++; n%50 == 0 {
			return conversation.ErrConflict, false
		}
		return nil, false
	})
	model := &actorstest.Model{Auto: func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }}
	e, err := New(testConfig(), Deps{
		Store: store, Publisher: &actorstest.Publisher{}, Models: map[string]conversation.Model{"": model},
		Logger: slog.New(slog.DiscardHandler), Metrics: metrics.NewActors(prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- e.Run(ctx) }()
	for e.Ready() != nil {
		runtime.Gosched()
	}
	keys := make([]conversation.SessionKey, 8)
	for i := range keys {
		keys[i] = conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%015d", i))}
	}
	const workers, each = 8, 200
	var answers [workers * each]atomic.Int32
	var positive atomic.Int32
	var all, tellers sync.WaitGroup
	for worker := range workers {
		tellers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for i := range each {
				id := worker*each + i
				key := keys[random.IntN(len(keys))]
				all.Add(1)
				done := func(err error) {
					if answers[id].Add(1) == 1 {
						all.Done()
					}
					if err == nil {
						positive.Add(1)
					}
				}
				switch random.IntN(10) {
				case 0:
					e.Create(key, conversation.Create{Owner: ada}, func(_ conversation.SessionKey, _ bool, err error) { done(err) })
				case 1:
					e.View(key, ada, func(_ conversation.View, err error) { done(err) })
				case 2: // it leaves memory now, whatever it does
					e.registry.Deliver(key, &unloadNow{reason: "idle", err: refusal.Unreachable()}, false)
					e.Tell(key, ada, conversation.Cancel{By: conversation.ByUser}, func(_ conversation.Receipt, err error) { done(err) })
				default:
					e.Tell(key, ada, say(fmt.Sprint(id), "hello"), func(_ conversation.Receipt, err error) { done(err) })
				}
			}
		})
	}
	tellers.Wait()
	all.Wait()
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	for id := range answers {
		if n := answers[id].Load(); n != 1 {
			t.Errorf("command %d was answered %d times", id, n)
		}
	}
	if positive.Load() == 0 {
		t.Error("nothing succeeded")
	}
	refusals := 0
	e.Tell(keys[0], ada, say("late", "hello"), func(_ conversation.Receipt, err error) {
		if conversation.AsError(err).Code == conversation.Unavailable {
			refusals++
		}
	})
	if refusals != 1 {
		t.Error("a stopped engine does not refuse")
	}
}

func TestErase(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		ctx := t.Context()
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look"}`))
		h.call()
		code := func(err error) conversation.Code {
			if err == nil {
				return ""
			}
			return conversation.AsError(err).Code
		}
		if c := code(h.e.Erase(ctx, mainKey, "eve")); c != conversation.NotFound {
			t.Errorf("for a user who may not see it: %s", c)
		}
		open := conversation.AccessTenant
		h.ok(h.tell(mainKey, conversation.Update{Access: &open}))
		if c := code(h.e.Erase(ctx, mainKey, "eve")); c != conversation.Forbidden {
			t.Errorf("for a user who does not own it: %s", c)
		}
		gate := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
		waits := h.tell(mainKey, say("b", "more"))
		h.silent(waits)
		if err := h.e.Erase(ctx, mainKey, ada); err != nil {
			t.Fatal(err)
		}
		gate.Release()
		h.refused(waits, conversation.NotFound)
		h.refused(h.tell(mainKey, say("c", "more")), conversation.NotFound)
		if len(h.model.Open()) != 0 {
			t.Error("the model call of an erased session goes on")
		}
		sub := conversation.SessionKey{Tenant: mainKey.Tenant, Session: mainKey.Session + "/d1"}
		if _, err := h.store.Head(ctx, sub); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("the sub-session: %v", err)
		}
		if !slices.Contains(h.pub.Erased(), mainKey) {
			t.Error("the followers were not told")
		}
		if c := code(h.e.Erase(ctx, mainKey, ada)); c != conversation.NotFound {
			t.Errorf("again: %s", c)
		}
	})
}

func TestSweep(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.cfg.RetentionAge, h.cfg.ModelIdle, h.cfg.ModelLimit = time.Hour, 24*time.Hour, 24*time.Hour
	}, func(t *testing.T, h *harness) {
		old, young := mainKey, conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
		working := conversation.SessionKey{Tenant: "acme", Session: "cccccccccccccccc"}
		h.create(old)
		h.create(working)
		h.ok(h.tell(working, say("a", "take your time")))
		time.Sleep(50 * time.Minute)
		h.create(young)
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		exists := func(key conversation.SessionKey) bool {
			_, err := h.store.Head(t.Context(), key)
			return err == nil
		}
		if exists(old) || !exists(young) || !exists(working) {
			t.Errorf("old %v, young %v, working %v", exists(old), exists(young), exists(working))
		}
		h.reply(actorstest.Text("done"))
	})
}

// A message that is accepted while the sweeper is about to erase its session
// keeps the session alive.
func TestSweepLooksAgain(t *testing.T) {
	store := &racing{}
	withHarness(t, func(h *harness) {
		h.cfg.RetentionAge = time.Hour
		store.Store, h.through = h.store, store
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		accepted := make(chan error, 1)
		store.onSummary(func() { // the sweeper has seen that it is old
			store.onSummary(nil)
			h.e.Tell(mainKey, ada, say("a", "hello again"), func(_ conversation.Receipt, err error) { accepted <- err })
			if err := <-accepted; err != nil {
				t.Error(err)
			}
		})
		time.Sleep(75 * time.Minute)
		synctest.Wait()
		if erased := h.pub.Erased(); len(erased) > 0 {
			t.Fatalf("erased with an acknowledged message: %v", erased)
		}
		h.reply(actorstest.Text("hello"))
		h.assertComplete(mainKey)
	})
}

// What one may not see of a session one may not see of its delegations either,
// whatever the access was when they began.
func TestVisibilityBelowRoot(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.delegated()
		ask := func(as conversation.UserID) conversation.Code {
			err := errors.New("no answer")
			h.e.View(sub, as, func(_ conversation.View, failed error) { err = failed })
			synctest.Wait()
			var told error
			h.e.Tell(sub, as, conversation.Cancel{By: conversation.ByUser}, func(_ conversation.Receipt, failed error) { told = failed })
			synctest.Wait()
			if told == nil {
				t.Error("a user may cancel a delegation")
			}
			if err == nil {
				return ""
			}
			return conversation.AsError(err).Code
		}
		if c := ask("eve"); c != conversation.NotFound {
			t.Errorf("private: %s", c)
		}
		open := conversation.AccessTenant
		h.ok(h.tell(mainKey, conversation.Update{Access: &open}))
		if c := ask("eve"); c != "" {
			t.Errorf("opened: %s", c)
		}
		h.reply(actorstest.Text("42"))
		closed := conversation.AccessPrivate
		h.ok(h.tell(mainKey, conversation.Update{Access: &closed}))
		if c := ask("eve"); c != conversation.NotFound {
			t.Errorf("closed again: %s", c)
		}
		if c := ask(ada); c != "" {
			t.Errorf("its owner: %s", c)
		}
		h.reply(actorstest.Text("done"))
		time.Sleep(2 * h.cfg.CacheIdle)
		if synctest.Wait(); h.active(sub) || !h.active(mainKey) {
			t.Error("an ended delegation stays in memory")
		}
	})
}
