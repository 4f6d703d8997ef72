package actors

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// slowRecords holds readers of the log while hold is set.
type slowRecords struct {
	conversation.Store
	hold atomic.Pointer[chan struct{}]
}

func (s *slowRecords) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		if c := s.hold.Load(); c != nil {
			<-*c
		}
		for rec, err := range s.Store.Records(ctx, key, r) {
			if !yield(rec, err) {
				return
			}
		}
	}
}

// A model call that waits for its transcript does not start while the engine is suspended, and
// starts when it runs again.
func TestSuspendedWhileTranscriptIsRead(t *testing.T) {
	store := &slowRecords{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("m1", "hello")))
		h.reply(actorstest.Text("hello"))
		time.Sleep(time.Minute) // the transcript is dropped
		hold := make(chan struct{})
		store.hold.Store(&hold)
		h.ok(h.tell(mainKey, say("m2", "more")))
		synctest.Wait()
		before := len(h.model.Calls())
		h.e.Suspend()
		store.hold.Store(nil)
		close(hold)
		synctest.Wait()
		if n := len(h.model.Calls()); n != before {
			t.Errorf("%d model calls started while suspended", n-before)
		}
		h.e.Resume()
		h.reply(actorstest.Text("more"))
		if v := h.view(mainKey); len(v.Tasks) != 0 {
			t.Errorf("open: %+v", v.Tasks)
		}
	})
}
