package actors

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// lateStore is a store that keeps the ends of commits back while it is told to.
type lateStore struct {
	conversation.Store
	mu   sync.Mutex
	late bool
	kept []func()
}

func (s *lateStore) keepBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = true
}

// tell tells the ends that were kept back, and says how many.
func (s *lateStore) tell() int {
	s.mu.Lock()
	kept := s.kept
	s.late, s.kept = false, nil
	s.mu.Unlock()
	for _, end := range kept {
		end()
	}
	return len(kept)
}

func (s *lateStore) CommitAsync(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error)) {
	s.Store.CommitAsync(ctx, key, c, func(err error) {
		s.mu.Lock()
		late := s.late
		if late {
			s.kept = append(s.kept, func() { done(err) })
		}
		s.mu.Unlock()
		if !late {
			done(err)
		}
	})
}

// The store may be closed when Run has returned: so Run waits for the commits on their
// way, also for those of sessions that have left. What they tell then is told to nobody.
func TestRunWaitsForCommits(t *testing.T) {
	store := &lateStore{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.create(session2(1))
		store.keepBack()
		a, b := h.tell(mainKey, say("a", "hello")), h.tell(session2(1), say("a", "hello"))
		h.silent(a)
		h.silent(b)
		h.forget(mainKey)
		h.refused(a, conversation.Unavailable)
		h.cancel()
		select {
		case err := <-h.ran:
			t.Errorf("Run has returned, with %v, and two commits are on their way", err)
			h.ran <- nil
		case <-time.After(h.cfg.ToolGrace / 2):
		}
		h.refused(b, conversation.Unavailable)
		if n := store.tell(); n != 2 {
			t.Errorf("%d commits were on their way", n)
		}
		synctest.Wait()
		if err := <-h.ran; err != nil {
			t.Error(err)
		}
		h.ran <- nil // the harness ends too
	})
}

// chatty is a store that panics after it has told the end of a commit: the commit has
// ended all the same, and once.
type chatty struct {
	conversation.Store
	panics bool
}

func (s *chatty) CommitAsync(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error)) {
	done(s.Store.Commit(ctx, key, *c))
	if s.panics {
		panic("after the end was told")
	}
}

func TestStorePanicsAfterItHasTold(t *testing.T) {
	store := &chatty{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		store.panics = true
		h.ok(h.tell(mainKey, say("a", "hello")))
		h.reply(actorstest.Text("hi"))
		if !h.active(mainKey) || h.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%v", kinds(h.stored(mainKey)))
		}
		h.assertComplete(mainKey)
	})
}
