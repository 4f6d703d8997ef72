package actors

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// drain starts a drain and hands back where its end will be told.
func (h *harness) drain(ctx context.Context) chan error {
	done := make(chan error, 1)
	go func() { done <- h.e.Drain(ctx) }()
	synctest.Wait()
	return done
}

func TestDrain(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			if h.e.Ready() != nil {
				t.Error("not ready")
			}
			began := time.Now()
			if err := h.e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if time.Since(began) != 0 || h.e.registry.Count() != 0 || h.e.Ready() == nil {
				t.Errorf("after %v: %d sessions, %v", time.Since(began), h.e.registry.Count(), h.e.Ready())
			}
			if err := h.refused(h.tell(mainKey, say("a", "hello")), conversation.Unavailable); !err.Retryable() {
				t.Error("not retryable")
			}
			if v := h.view(mainKey); v.Head != 1 {
				t.Error("reading must go on")
			}
			if h.e.Drain(t.Context()) == nil {
				t.Error("a second drain is no error")
			}
		})
	})
	t.Run("a step that ends in time", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "hello")))
			call := h.call()
			done := h.drain(t.Context())
			call.Answer(actorstest.Text("hi"))
			if err := <-done; err != nil {
				t.Error(err)
			}
			if h.count(mainKey, conversation.KindResponse) != 1 {
				t.Errorf("%v", kinds(h.stored(mainKey)))
			}
			h.assertComplete(mainKey)
		})
	})
	t.Run("nothing new is started", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "hello")))
			call := h.call()
			done := h.drain(t.Context())
			call.Answer(actorstest.Use("x", conversation.ToolRespond, `{"message":"one moment"}`))
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := len(h.model.Calls()); n != 1 {
				t.Errorf("%d model calls", n)
			}
			if h.count(mainKey, conversation.KindPartialResponse) != 1 {
				t.Error("what the step brought is lost")
			}
			h.restart()
			h.reply(actorstest.Text("done"))
		})
	})
	t.Run("a commit in flight that asks a model", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			held := h.store.Hold(persistencetest.BeforeWrite, nil)
			a := h.tell(mainKey, say("a", "hello"))
			<-held.Held()
			done, began := h.drain(t.Context()), time.Now()
			held.Release()
			if err := <-done; err != nil || time.Since(began) != 0 {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			h.ok(a)
			if n := len(h.model.Calls()); n != 0 {
				t.Errorf("%d model calls are started by a node that goes away", n)
			}
			h.restart()
			h.reply(actorstest.Text("hi"))
			h.assertComplete(mainKey)
		})
	})
	t.Run("a step that does not", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.ok(h.tell(mainKey, say("a", "hello")))
			call := h.call()
			began := time.Now()
			if err := h.e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if took := time.Since(began); took != h.cfg.DrainTimeout || !call.Over() {
				t.Errorf("after %v, stopped %v", took, call.Over())
			}
			events := h.stored(mainKey)
			if b, ok := events[len(events)-1].Body.(conversation.StepStarted); !ok || b.Cause != conversation.CauseDrain {
				t.Errorf("%+v", events[len(events)-1])
			}
			if row, err := h.store.Task(t.Context(), mainKey, "t1-"+conversation.TaskID(mainKey.Session)); err != nil || row.Status != conversation.TaskRunning {
				t.Errorf("%+v, %v", row, err)
			}
			h.restart()
			h.call()
			for _, e := range h.stored(mainKey) {
				if b, ok := e.Body.(conversation.StepStarted); ok && b.Cause == conversation.CauseInterrupted {
					t.Error("a drain counts as an interruption")
				}
			}
			h.reply(actorstest.Text("hi"))
			h.assertComplete(mainKey)
		})
	})
	t.Run("a tree", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.delegated()
			if err := h.e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			h.restart()
			time.Sleep(h.cfg.TellEvery)
			h.reply(actorstest.Text("42"))
			h.reply(actorstest.Text("it is 42"))
			if h.count(mainKey, conversation.KindResponse) != 1 {
				t.Errorf("%v", kinds(h.stored(mainKey)))
			}
		})
	})
	t.Run("a store that hangs", func(t *testing.T) {
		withHarness(t, nil, func(t *testing.T, h *harness) {
			h.create(mainKey)
			h.store.Hold(persistencetest.BeforeWrite, nil)
			a := h.tell(mainKey, say("a", "hello"))
			h.silent(a)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := h.e.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			h.silent(a)
			h.cancel()
			h.refused(a, conversation.Unavailable)
		})
	})
}

// slowReads is a store whose reads wait while a test holds them.
type slowReads struct {
	unsure
	held          atomic.Bool
	records, find chan struct{} // the test closes them
}

func (s *slowReads) wait(until chan struct{}) {
	if s.held.Load() {
		<-until
	}
}

func (s *slowReads) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	s.wait(s.records)
	return s.Store.Records(ctx, key, r)
}

func (s *slowReads) Find(ctx context.Context, key conversation.SessionKey, keys []conversation.Key) ([]conversation.Seq, error) {
	s.wait(s.find)
	return s.Store.Find(ctx, key, keys)
}

// A session that is still being loaded when the node drains takes its message, and
// leaves the task to the next start: a node that goes away makes nothing RUNNING.
func TestDrainWhileLoading(t *testing.T) {
	store := &slowReads{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.forget(mainKey)
		store.records = make(chan struct{})
		store.held.Store(true)
		a := h.tell(mainKey, say("a", "hello"))
		synctest.Wait()
		done := h.drain(t.Context())
		close(store.records)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if r := h.ok(a); r.Disposition != conversation.Queued {
			t.Errorf("the message is %v", r.Disposition)
		}
		store.held.Store(false)
		h.restart()
		h.reply(actorstest.Text("hi"))
		h.assertComplete(mainKey)
	})
}

// A store that does not come to the end of a load holds a drain up no longer than
// open work does.
func TestDrainWhileLoadHangs(t *testing.T) {
	store := &slowReads{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.forget(mainKey)
		store.records = make(chan struct{})
		store.held.Store(true)
		a := h.tell(mainKey, say("a", "hello"))
		h.silent(a)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := h.e.Drain(ctx); err != nil || time.Since(began) != h.cfg.DrainTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		h.refused(a, conversation.Unavailable)
		close(store.records)
	})
}

// A drain has ended when what it has decided is stored, not before.
func TestDrainWaitsForItsCommit(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		held := h.store.Hold(persistencetest.BeforeWrite, nil)
		b := h.tell(mainKey, say("b", "and this"))
		<-held.Held()
		parks := h.store.Hold(persistencetest.BeforeWrite, holds(conversation.KindStepStarted))
		done := h.drain(t.Context())
		held.Release()
		h.ok(b)
		time.Sleep(h.cfg.DrainTimeout)
		<-parks.Held()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the drain has ended with %v before the parked step is stored", err)
		default:
		}
		parks.Release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		h.assertComplete(mainKey)
	})
}

// A model call that waits for its transcript does not start any more when the node
// drains, also while the session still waits for a look-up.
func TestDrainWhileReading(t *testing.T) {
	store := &slowReads{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		time.Sleep(h.cfg.CacheIdle + time.Second)
		store.records, store.find = make(chan struct{}), make(chan struct{})
		store.held.Store(true)
		h.ok(h.tell(mainKey, say("a", "hello")))
		part := h.tell(mainKey, conversation.AddPart{Author: ada, Source: "n1", Text: "x"})
		synctest.Wait()
		began := time.Now()
		done := h.drain(t.Context())
		close(store.records)
		synctest.Wait()
		close(store.find)
		if err := <-done; err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		h.ok(part)
		if n := len(h.model.Calls()); n != 0 {
			t.Errorf("%d model calls", n)
		}
	})
}

func TestReady(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		e, err := New(h.cfg, h.e.deps)
		if err != nil || e.Ready() == nil {
			t.Errorf("%v, %v", err, e.Ready())
		}
		refused := false
		e.Tell(mainKey, ada, say("a", "hello"), func(_ conversation.Receipt, err error) { refused = err != nil })
		if !refused {
			t.Error("an engine that does not run takes commands")
		}
		if err := e.Drain(t.Context()); err != nil || e.Run(t.Context()) == nil {
			t.Error("an engine that was drained before its start runs")
		}
		if h.e.Run(t.Context()) == nil {
			t.Error("an engine runs twice")
		}
	})
}
