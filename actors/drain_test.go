package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// drain starts a drain and hands back where its end will be told.
func (w *world) drain(ctx context.Context) chan error {
	done := make(chan error, 1)
	go func() { done <- w.e.Drain(ctx) }()
	synctest.Wait()
	return done
}

func TestDrain(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.create(talk)
			if w.e.Ready() != nil {
				t.Error("not ready")
			}
			began := time.Now()
			if err := w.e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if time.Since(began) != 0 || w.e.registry.count() != 0 || w.e.Ready() == nil {
				t.Errorf("after %v: %d sessions, %v", time.Since(began), w.e.registry.count(), w.e.Ready())
			}
			if err := w.refused(w.tell(talk, say("a", "hello")), conversation.Unavailable); !err.Retryable() {
				t.Error("not retryable")
			}
			if v := w.view(talk); v.Head != 1 {
				t.Error("reading must go on")
			}
			if w.e.Drain(t.Context()) == nil {
				t.Error("a second drain is no error")
			}
		})
	})
	t.Run("a step that ends in time", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.create(talk)
			w.ok(w.tell(talk, say("a", "hello")))
			call := w.call()
			done := w.drain(t.Context())
			call.Answer(actorstest.Text("hi"))
			if err := <-done; err != nil {
				t.Error(err)
			}
			if w.count(talk, conversation.KindResponse) != 1 {
				t.Errorf("%v", kinds(w.stored(talk)))
			}
			w.whole(talk)
		})
	})
	t.Run("nothing new is started", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.create(talk)
			w.ok(w.tell(talk, say("a", "hello")))
			call := w.call()
			done := w.drain(t.Context())
			call.Answer(actorstest.Use("x", conversation.ToolRespond, `{"message":"one moment"}`))
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := len(w.model.Calls()); n != 1 {
				t.Errorf("%d model calls", n)
			}
			if w.count(talk, conversation.KindPartialResponse) != 1 {
				t.Error("what the step brought is lost")
			}
			w.restart()
			w.reply(actorstest.Text("done"))
		})
	})
	t.Run("a step that does not", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.create(talk)
			w.ok(w.tell(talk, say("a", "hello")))
			call := w.call()
			began := time.Now()
			if err := w.e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if took := time.Since(began); took != w.cfg.DrainTimeout || !call.Over() {
				t.Errorf("after %v, stopped %v", took, call.Over())
			}
			events := w.stored(talk)
			if b, ok := events[len(events)-1].Body.(conversation.StepStarted); !ok || b.Cause != conversation.CauseDrain {
				t.Errorf("%+v", events[len(events)-1])
			}
			if row, err := w.store.Task(t.Context(), talk, "t1-"+conversation.TaskID(talk.Session)); err != nil || row.Status != conversation.TaskRunning {
				t.Errorf("%+v, %v", row, err)
			}
			w.restart()
			w.call()
			for _, e := range w.stored(talk) {
				if b, ok := e.Body.(conversation.StepStarted); ok && b.Cause == conversation.CauseInterrupted {
					t.Error("a drain counts as an interruption")
				}
			}
			w.reply(actorstest.Text("hi"))
			w.whole(talk)
		})
	})
	t.Run("a tree", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.delegated()
			if err := w.e.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			w.restart()
			time.Sleep(w.cfg.TellEvery)
			w.reply(actorstest.Text("42"))
			w.reply(actorstest.Text("it is 42"))
			if w.count(talk, conversation.KindResponse) != 1 {
				t.Errorf("%v", kinds(w.stored(talk)))
			}
		})
	})
	t.Run("a store that hangs", func(t *testing.T) {
		inWorld(t, nil, func(t *testing.T, w *world) {
			w.create(talk)
			w.store.Hold(persistencetest.BeforeWrite, nil)
			a := w.tell(talk, say("a", "hello"))
			w.silent(a)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := w.e.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			w.silent(a)
			w.cancel()
			w.refused(a, conversation.Unavailable)
		})
	})
}

func TestReady(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		e, err := New(w.cfg, w.e.deps)
		if err != nil || e.Ready() == nil {
			t.Errorf("%v, %v", err, e.Ready())
		}
		refused := false
		e.Tell(talk, ada, say("a", "hello"), func(_ conversation.Receipt, err error) { refused = err != nil })
		if !refused {
			t.Error("an engine that does not run takes commands")
		}
		if err := e.Drain(t.Context()); err != nil || e.Run(t.Context()) == nil {
			t.Error("an engine that was drained before its start runs")
		}
		if w.e.Run(t.Context()) == nil {
			t.Error("an engine runs twice")
		}
	})
}
