package actors

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"parley/conversation"
)

// slowDelete is a store whose deletions wait until the test says what becomes of each.
type slowDelete struct {
	conversation.Store
	mu   sync.Mutex
	held []chan error // nil: it is deleted; an error: it is not, and that is why
}

func (s *slowDelete) Delete(ctx context.Context, key conversation.SessionKey) error {
	gate := make(chan error)
	s.mu.Lock()
	s.held = append(s.held, gate)
	s.mu.Unlock()
	if err := <-gate; err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// waiting waits until nothing moves, and wants so many deletions to be held, ended or not.
func (s *slowDelete) waiting(t *testing.T, n int) []chan error {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) != n {
		t.Fatalf("%d deletions were begun, not %d", len(s.held), n)
	}
	return s.held
}

// What is told to a session while it is erased is refused, and does not bring it back:
// it would be acknowledged and then deleted. That holds until the last of several
// erasers has come to its end.
func TestToldWhileErased(t *testing.T) {
	store := &slowDelete{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		erase := func() chan error {
			done := make(chan error, 1)
			go func() { done <- h.e.Erase(t.Context(), mainKey, ada) }()
			synctest.Wait()
			return done
		}
		out := func(when, id string) {
			t.Helper()
			if err := h.refused(h.tell(mainKey, say(id, "hello")), conversation.Unavailable); !err.Retryable() {
				t.Errorf("%s: the refusal is final", when)
			}
			if h.active(mainKey) {
				t.Errorf("%s: the session is in memory", when)
			}
		}
		h.create(mainKey)
		one, two := erase(), erase()
		gates := store.waiting(t, 2)
		out("before the session is deleted", "a")
		gates[0] <- errLine // the first one fails
		if err := <-one; conversation.AsError(err) == nil {
			t.Error("a deletion that failed is reported as done")
		}
		out("the second one is not done", "b")
		gates[1] <- nil
		if err := <-two; err != nil {
			t.Error(err)
		}
		h.refused(h.tell(mainKey, say("c", "hello")), conversation.NotFound)
		if n := h.count(mainKey, conversation.KindMessageAccepted); n != 0 {
			t.Errorf("%d messages are stored", n)
		}
	})
}

// After a deletion that has failed the session is there as it was.
func TestEraseFails(t *testing.T) {
	store := &slowDelete{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		done := make(chan error, 1)
		go func() { done <- h.e.Erase(t.Context(), mainKey, ada) }()
		store.waiting(t, 1)[0] <- errLine
		if <-done == nil || len(h.pub.Erased()) != 0 {
			t.Error("a deletion that failed is reported as done")
		}
		h.ok(h.tell(mainKey, say("a", "hello")))
	})
}

// While a session is still at work nothing of it is deleted, and nobody is told that it
// is gone: what it does until it has left memory belongs to the time before.
func TestEraseWaitsForTheSession(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "work")))
		call := h.call()
		busy := make(pause)
		h.e.send(h.e.registry.Actor(mainKey), busy)
		done := make(chan error, 1)
		go func() { done <- h.e.Erase(t.Context(), mainKey, ada) }()
		call.Delta(0, "Bonj")
		synctest.Wait()
		if len(done) != 0 || len(h.pub.Erased()) != 0 || len(h.stored(mainKey)) == 0 {
			t.Error("the session is erased while it is in memory")
		}
		close(busy)
		err := <-done
		synctest.Wait()
		if err != nil || len(h.pub.Erased()) != 1 || len(h.stored(mainKey)) != 0 || !call.Over() {
			t.Errorf("%v, told %v", err, h.pub.Erased())
		}
	})
}
