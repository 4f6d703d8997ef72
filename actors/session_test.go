package actors

import (
	"context"
	"errors"
	"fmt"
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
	"parley/conversation"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

func TestTurn(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		if r := w.ok(w.tell(talk, say("a", "hello"))); r.Disposition != conversation.Started {
			t.Fatalf("disposition %s", r.Disposition)
		}
		w.reply(actorstest.Text("hi"))
		w.whole(talk)
		if w.count(talk, conversation.KindResponse) != 1 || len(w.view(talk).Tasks) != 0 {
			t.Fatalf("%v", kinds(w.stored(talk)))
		}
		if n := len(w.store.Commits()); n != 3 {
			t.Errorf("%d commits for a create and a turn, not 3", n)
		}
	})
}

func TestCreate(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		missing := w.tell(talk, say("a", "hello"))
		w.refused(missing, conversation.NotFound)
		w.e.Create(talk, conversation.Create{Owner: ada, Agent: "nobody"}, func(created bool, err error) {
			if created || conversation.AsError(err).Code != conversation.BadRequest {
				t.Errorf("created %v, %v", created, err)
			}
		})
		synctest.Wait()
		if _, err := w.store.Head(t.Context(), talk); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("a refused create left something behind: %v", err)
		}
		if w.e.registry.active(talk) {
			t.Error("a session that does not exist is kept in memory")
		}
		w.create(talk)
		again := true
		w.e.Create(talk, conversation.Create{Owner: ada}, func(created bool, err error) { again = created || err != nil })
		synctest.Wait()
		if again || w.count(talk, conversation.KindSessionCreated) != 1 {
			t.Error("a repeated create is not harmless")
		}
		// A message and a create that wait for the same load: in order.
		other := conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
		early := w.tell(other, say("a", "hello"))
		var created bool
		w.e.Create(other, conversation.Create{Owner: ada}, func(ok bool, err error) { created = ok })
		late := w.tell(other, say("b", "hello"))
		w.refused(early, conversation.NotFound)
		w.ok(late)
		if !created {
			t.Error("not created")
		}
		w.reply(actorstest.Text("hi"))
	})
}

func TestVisibility(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		w.reply(actorstest.Text("hi"))
		ask := func(as conversation.UserID) (told, seen error) {
			w.e.Tell(talk, as, conversation.Say{Author: as, ClientMsgID: "b", Text: "psst"}, func(_ conversation.Receipt, err error) { told = err })
			w.e.View(talk, as, func(_ conversation.View, err error) { seen = err })
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
		time.Sleep(w.cfg.Idle + time.Minute)
		synctest.Wait()
		_, seen = ask("eve")
		hidden("a view", seen)
		time.Sleep(w.cfg.Idle + time.Minute)
		synctest.Wait()
		w.e.View(talk, "eve", func(_ conversation.View, err error) { seen = err })
		synctest.Wait()
		hidden("a view of a passive session", seen)
		if w.e.registry.active(talk) {
			t.Error("a view has loaded the session")
		}
		open := conversation.AccessTenant
		w.ok(w.tell(talk, conversation.Update{Access: &open}))
		if _, seen = ask("eve"); seen != nil {
			t.Error(seen)
		}
		w.reply(actorstest.Text("hi eve"))
	})
}

// N-06: a stop overtakes the queue and stops the model call at once, before its
// own commit.
func TestCancel(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		call := w.call()
		w.ok(w.tell(talk, conversation.Say{Author: ada, ClientMsgID: "b", Text: "later", Mode: conversation.ModeQueue}))
		gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindTaskCancelling))
		a := w.tell(talk, conversation.Cancel{By: conversation.ByUser})
		w.silent(a)
		if !call.Over() {
			t.Error("the model call goes on")
		}
		gate.Release()
		if r := w.ok(a); r.OldStatus != conversation.TaskRunning {
			t.Errorf("%+v", r)
		}
		w.whole(talk)
		if got := w.call().Request.Task; got != "t2-aaaaaaaaaaaaaaaa" {
			t.Errorf("then %s is worked on", got)
		}
		w.reply(actorstest.Text("now"))
	})
}

// A cancel between a step's decision and its commit: the model is never asked.
func TestCancelBeforeStart(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindStepStarted))
		first := w.tell(talk, say("a", "hello"))
		w.silent(first)
		stop := w.tell(talk, conversation.Cancel{By: conversation.ByUser})
		w.silent(stop)
		gate.Release()
		w.ok(first)
		w.ok(stop)
		if n := len(w.model.Calls()); n != 0 {
			t.Errorf("%d model calls", n)
		}
	})
}

// N-09: idle sessions leave memory, also while they await an answer.
func TestPassivation(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		w.reply(actorstest.Use("x", conversation.ToolAsk, `{"question":"Which one?"}`))
		if v := w.view(talk); len(v.Tasks) != 1 || v.Tasks[0].Status != conversation.TaskAwaiting {
			t.Fatalf("%+v", v.Tasks)
		}
		time.Sleep(w.cfg.Idle - time.Second)
		if !w.e.registry.active(talk) {
			t.Error("left too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.e.registry.active(talk) {
			t.Error("still in memory")
		}
		passive := w.view(talk)
		if w.e.registry.active(talk) || len(passive.Questions) != 1 || passive.Log != w.e.LogID() {
			t.Errorf("a passive view: %+v", passive)
		}
		if r := w.ok(w.tell(talk, say("b", "that one"))); r.Disposition != conversation.Answered {
			t.Errorf("%+v", r)
		}
		w.reply(actorstest.Text("done"))
		if w.count(talk, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(w.stored(talk)))
		}
		w.whole(talk)
	})
}

func TestBusySessionStays(t *testing.T) {
	inWorld(t, func(w *world) { w.cfg.ModelIdle, w.cfg.ModelLimit = 3*time.Hour, 3*time.Hour }, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		call := w.call()
		time.Sleep(2 * time.Hour)
		if !w.e.registry.active(talk) || call.Over() {
			t.Error("a working session left memory")
		}
		w.reply(actorstest.Text("at last"))
		if w.count(talk, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(w.stored(talk)))
		}
	})
}

// D-16: what was dropped from memory is read again for the model.
func TestTranscriptIsReadAgain(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "my name is Ada")))
		w.reply(actorstest.Text("hello Ada"))
		time.Sleep(w.cfg.CacheIdle + time.Second)
		synctest.Wait()
		w.ok(w.tell(talk, say("b", "what is my name?")))
		request := w.call().Request
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
		w.reply(actorstest.Text("Ada"))
	})
}

// N-02: what was open when the process ended goes on by itself.
func TestRecovery(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		w.call()
		w.restart()
		again := w.call()
		if again.Request.Attempt != 2 {
			t.Errorf("attempt %d", again.Request.Attempt)
		}
		events := w.stored(talk)
		if b, ok := events[len(events)-1].Body.(conversation.StepStarted); !ok || b.Cause != conversation.CauseInterrupted {
			t.Errorf("%+v", events[len(events)-1])
		}
		w.reply(actorstest.Text("hi"))
		if w.count(talk, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(w.stored(talk)))
		}
		w.whole(talk)
	})
}

func TestDuplicates(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Rules.Policy.Mode = conversation.ModeQueue
		w.model.Auto = func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }
	}, func(t *testing.T, w *world) {
		w.create(talk)
		first := w.ok(w.tell(talk, say("first", "hello")))
		for i := range 300 {
			w.ok(w.tell(talk, say(fmt.Sprint(i), "hello")))
		}
		{ // M-10: forgotten by the session, known to the store.
			// In one burst: what is behind a look-up keeps its order.
			a, b, c := w.tell(talk, say("first", "hello")), w.tell(talk, say("first", "other")), w.tell(talk, say("new", "hello"))
			if r := w.ok(a); !r.Duplicate || r.Message != first.Message || r.Seq != first.Seq || r.Task != first.Task {
				t.Errorf("%+v, first %+v", r, first)
			}
			w.refused(b, conversation.Conflict)
			if w.ok(c).Duplicate {
				t.Error("a new message is taken for a repetition")
			}
		}
		{ // N-01: and across a restart.
			w.restart()
			if r := w.ok(w.tell(talk, say("first", "hello"))); !r.Duplicate || r.Message != first.Message {
				t.Errorf("%+v", r)
			}
		}
	})
}

// M-10, M-11, M-13, M-14: parts of an outside runtime.
func TestPartsFromOutside(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.create(talk)
		part := func(source string, index conversation.PartIndex, text string) conversation.AddPart {
			return conversation.AddPart{Author: ada, Source: source, Index: index, Text: text}
		}
		one := w.ok(w.tell(talk, part("n1", 0, "zero")))
		// Both at once: the second must wait until the first is in the store.
		a, b := w.tell(talk, part("n1", 1, "one")), w.tell(talk, part("n1", 1, "one"))
		first, second := w.ok(a), w.ok(b)
		if first.Duplicate || !second.Duplicate || first.Message != second.Message || first.Message == one.Message {
			t.Errorf("%+v, then %+v", first, second)
		}
		x, y := w.ok(w.tell(talk, part("", 0, "plain"))), w.ok(w.tell(talk, part("", 0, "plain")))
		if x.Message == y.Message || y.Duplicate {
			t.Error("a part without a source has a key")
		}
		if n := w.count(talk, conversation.KindPartialResponse); n != 4 {
			t.Errorf("%d parts", n)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Run("waiting for a load", func(t *testing.T) {
		inWorld(t, func(w *world) { w.cfg.MaxWaiting = 3 }, func(t *testing.T, w *world) {
			w.create(talk)
			w.ok(w.tell(talk, say("a", "hello")))
			gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindPartialResponse))
			var answers []*answer
			for i := range 6 {
				answers = append(answers, w.tell(talk, conversation.AddPart{Author: ada, Source: "n", Index: conversation.PartIndex(i), Text: "x"}))
				if i < 5 {
					w.silent(answers[i])
				}
			}
			// The first is being stored, the second asks for its key, three wait.
			w.refused(answers[5], conversation.Overloaded)
			gate.Release()
			for _, a := range answers[:5] {
				w.ok(a)
			}
			w.reply(actorstest.Text("hi"))
		})
	})
	t.Run("waiting for a commit", func(t *testing.T) {
		inWorld(t, func(w *world) { w.cfg.MaxPending = 3 }, func(t *testing.T, w *world) {
			w.create(talk)
			gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
			var answers []*answer
			for i := range 5 {
				answers = append(answers, w.tell(talk, say(fmt.Sprint(i), "hello")))
			}
			w.refused(answers[4], conversation.Overloaded)
			gate.Release()
			for _, a := range answers[:4] {
				w.ok(a)
			}
			w.reply(actorstest.Text("hi"))
		})
	})
	// N-06: a stop is not refused, whatever waits.
	t.Run("a stop while a commit is waited for", func(t *testing.T) {
		inWorld(t, func(w *world) { w.cfg.MaxPending = 3 }, func(t *testing.T, w *world) {
			w.create(talk)
			w.ok(w.tell(talk, say("a", "hello")))
			call := w.call()
			gate := w.store.Hold(persistencetest.BeforeWrite, nil)
			for i := range 4 {
				w.tell(talk, say(fmt.Sprint(i), "hello"))
			}
			w.refused(w.tell(talk, say("too many", "hello")), conversation.Overloaded)
			stop := w.tell(talk, conversation.Cancel{By: conversation.ByUser, Drop: true})
			w.silent(stop)
			if !call.Over() {
				t.Error("the model call goes on")
			}
			gate.Release()
			w.ok(stop)
		})
	})
	t.Run("a stop while the session is loaded", func(t *testing.T) {
		store := &racing{}
		inWorld(t, func(w *world) {
			w.cfg.MaxWaiting = 1
			store.Store, w.through = w.store, store
		}, func(t *testing.T, w *world) {
			w.create(talk)
			w.forget(talk)
			loading, goOn := make(chan struct{}), make(chan struct{})
			store.onAcquire(func(*conversation.Head) { store.onAcquire(nil); close(loading); <-goOn })
			first := w.tell(talk, say("a", "hello"))
			<-loading
			w.refused(w.tell(talk, say("b", "hello")), conversation.Overloaded)
			stop := w.tell(talk, conversation.Cancel{By: conversation.ByUser})
			w.silent(stop)
			close(goOn)
			w.ok(first)
			w.ok(stop)
		})
	})
	t.Run("views of passive sessions", func(t *testing.T) {
		inWorld(t, func(w *world) { w.cfg.MaxFolds, w.cfg.MaxFoldWait = 1, 1 }, func(t *testing.T, w *world) {
			w.create(talk)
			w.restart()
			w.view(talk)
			w.e.folding.Add(1) // one is under way
			var failed error
			w.e.View(talk, ada, func(_ conversation.View, err error) { failed = err })
			synctest.Wait()
			if conversation.AsError(failed).Code != conversation.Overloaded {
				t.Errorf("%v", failed)
			}
			w.e.folding.Add(-1)
			w.view(talk)
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
	cfg.Rules.Agents["odd"] = conversation.Profile{Name: "odd", Model: "unheard of"}
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
					e.Create(key, conversation.Create{Owner: ada}, func(_ bool, err error) { done(err) })
				case 1:
					e.View(key, ada, func(_ conversation.View, err error) { done(err) })
				case 2: // it leaves memory now, whatever it does
					e.registry.deliver(key, &leaveNow{reason: "idle", err: errUnreachable()}, false)
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
	inWorld(t, nil, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.create(talk)
		w.ok(w.tell(talk, say("a", "hello")))
		w.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look"}`))
		w.call()
		code := func(err error) conversation.Code {
			if err == nil {
				return ""
			}
			return conversation.AsError(err).Code
		}
		if c := code(w.e.Erase(ctx, talk, "eve")); c != conversation.NotFound {
			t.Errorf("for somebody who may not see it: %s", c)
		}
		open := conversation.AccessTenant
		w.ok(w.tell(talk, conversation.Update{Access: &open}))
		if c := code(w.e.Erase(ctx, talk, "eve")); c != conversation.Forbidden {
			t.Errorf("for somebody who does not own it: %s", c)
		}
		gate := w.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindMessageAccepted))
		waits := w.tell(talk, say("b", "more"))
		w.silent(waits)
		if err := w.e.Erase(ctx, talk, ada); err != nil {
			t.Fatal(err)
		}
		gate.Release()
		w.refused(waits, conversation.NotFound)
		w.refused(w.tell(talk, say("c", "more")), conversation.NotFound)
		if len(w.model.Open()) != 0 {
			t.Error("the model call of an erased session goes on")
		}
		sub := conversation.SessionKey{Tenant: talk.Tenant, Session: talk.Session + "/d1"}
		if _, err := w.store.Head(ctx, sub); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("the sub-session: %v", err)
		}
		if !slices.Contains(w.pub.Erased(), talk) {
			t.Error("nobody was told")
		}
		if c := code(w.e.Erase(ctx, talk, ada)); c != conversation.NotFound {
			t.Errorf("again: %s", c)
		}
	})
}

func TestSweep(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.RetentionAge, w.cfg.ModelIdle, w.cfg.ModelLimit = time.Hour, 24*time.Hour, 24*time.Hour
	}, func(t *testing.T, w *world) {
		old, young := talk, conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
		working := conversation.SessionKey{Tenant: "acme", Session: "cccccccccccccccc"}
		w.create(old)
		w.create(working)
		w.ok(w.tell(working, say("a", "take your time")))
		time.Sleep(50 * time.Minute)
		w.create(young)
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		exists := func(key conversation.SessionKey) bool {
			_, err := w.store.Head(t.Context(), key)
			return err == nil
		}
		if exists(old) || !exists(young) || !exists(working) {
			t.Errorf("old %v, young %v, working %v", exists(old), exists(young), exists(working))
		}
		w.reply(actorstest.Text("done"))
	})
}

// A message that is accepted while the sweeper is about to erase its session
// keeps the session alive.
func TestSweepLooksAgain(t *testing.T) {
	store := &racing{}
	inWorld(t, func(w *world) {
		w.cfg.RetentionAge = time.Hour
		store.Store, w.through = w.store, store
	}, func(t *testing.T, w *world) {
		w.create(talk)
		accepted := make(chan error, 1)
		store.onSummary(func() { // the sweeper has seen that it is old
			store.onSummary(nil)
			w.e.Tell(talk, ada, say("a", "hello again"), func(_ conversation.Receipt, err error) { accepted <- err })
			if err := <-accepted; err != nil {
				t.Error(err)
			}
		})
		time.Sleep(75 * time.Minute)
		synctest.Wait()
		if erased := w.pub.Erased(); len(erased) > 0 {
			t.Fatalf("erased with an acknowledged message: %v", erased)
		}
		w.reply(actorstest.Text("hello"))
		w.whole(talk)
	})
}

// What one may not see of a session one may not see of its delegations either,
// whatever the access was when they began.
func TestVisibilityBelowRoot(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.delegated()
		ask := func(as conversation.UserID) conversation.Code {
			err := errors.New("no answer")
			w.e.View(sub, as, func(_ conversation.View, failed error) { err = failed })
			synctest.Wait()
			var told error
			w.e.Tell(sub, as, conversation.Cancel{By: conversation.ByUser}, func(_ conversation.Receipt, failed error) { told = failed })
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
		w.ok(w.tell(talk, conversation.Update{Access: &open}))
		if c := ask("eve"); c != "" {
			t.Errorf("opened: %s", c)
		}
		w.reply(actorstest.Text("42"))
		closed := conversation.AccessPrivate
		w.ok(w.tell(talk, conversation.Update{Access: &closed}))
		if c := ask("eve"); c != conversation.NotFound {
			t.Errorf("closed again: %s", c)
		}
		if c := ask(ada); c != "" {
			t.Errorf("its owner: %s", c)
		}
		w.reply(actorstest.Text("done"))
		time.Sleep(2 * w.cfg.CacheIdle)
		if synctest.Wait(); w.e.registry.active(sub) || !w.e.registry.active(talk) {
			t.Error("an ended delegation stays in memory")
		}
	})
}
