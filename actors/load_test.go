package actors

import (
	"sync/atomic"
	"testing"

	"parley/conversation"
)

// A session is opened with one look at the store, and a message to an absent one, or a
// refused opening, makes none.
func TestOpeningAcquiresOnce(t *testing.T) {
	store := &racing{}
	withHarness(t, func(h *harness) { store.Store, h.through = h.store, store }, func(t *testing.T, h *harness) {
		var acquired atomic.Int64
		store.onAcquire(func(*conversation.Head) { acquired.Add(1) })
		h.create(mainKey)
		if n := acquired.Load(); n != 1 {
			t.Errorf("the store was asked %d times for a session that was opened", n)
		}
		other := conversation.SessionKey{Tenant: mainKey.Tenant, Session: "bbbbbbbbbbbbbbbb"}
		h.refused(h.tell(other, say("a", "hello")), conversation.NotFound)
		h.refused(h.tell(other, conversation.Create{Owner: ada, Agent: "nobody"}), conversation.BadRequest)
		if _, err := h.store.Head(t.Context(), other); err == nil {
			t.Error("what was refused has made a session")
		}
	})
}
