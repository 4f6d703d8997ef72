package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

// A clock that is wrong when the process starts erases nothing: it is put right
// before the first sweep, and until then the newest of what is stored tells how
// late it can be.
func TestClockAheadAtStart(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.RetentionAge = 30 * 24 * time.Hour }, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.stop()
		time.Sleep(31 * 24 * time.Hour) // to the engine this is a clock that is ahead
		h.start()
		if _, err := h.store.Head(t.Context(), mainKey); err != nil {
			t.Fatalf("erased before the first command: %v", err)
		}
		time.Sleep(20 * time.Hour)
		synctest.Wait()
		if _, err := h.store.Head(t.Context(), mainKey); err != nil {
			t.Errorf("erased before the clock was steady for a day: %v", err)
		}
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		if _, err := h.store.Head(t.Context(), mainKey); err == nil {
			t.Error("never erased")
		}
	})
}

// deletes notes what a node has erased.
type deletes struct {
	conversation.Store
	keys []conversation.SessionKey
}

func (d *deletes) Delete(ctx context.Context, key conversation.SessionKey) error {
	err := d.Store.Delete(ctx, key)
	if err == nil {
		d.keys = append(d.keys, key)
	}
	return err
}

// Of several nodes the one to which a session belongs erases it, once; when it has died, the
// node that follows does.
func TestEachSessionIsErasedByItsOwner(t *testing.T) {
	otherKey := conversation.SessionKey{Tenant: mainKey.Tenant, Session: "bbbbbbbbbbbbbbbb"}
	erased := func(h *harness) int { return len(h.through.(*deletes).keys) }
	withNodes(t, func(h *harness) {
		h.cfg.RetentionAge, h.through = time.Hour, &deletes{Store: h.store}
	}, func(t *testing.T, c *nodes) {
		one, two := c.each["n1"], c.each["n2"]
		one.create(mainKey)
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		if _, err := c.store.Summary(t.Context(), mainKey); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("it was not erased: %v", err)
		}
		if erased(one) != 1 || erased(two) != 0 {
			t.Errorf("its owner has erased %v, and the other node %v", erased(one), erased(two))
		}
		one.create(otherKey)
		c.mu.Lock()
		c.silent["n1"] = true
		c.mu.Unlock()
		one.e.Suspend() // as its node does when its lease is over
		time.Sleep(2 * testLease)
		c.move(func() { c.at = "n2" })
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		if _, err := c.store.Summary(t.Context(), otherKey); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("the session of a node that has died was not erased: %v", err)
		}
		if erased(one) != 1 || erased(two) != 1 {
			t.Errorf("the node that has died has erased %v, and the next one %v", erased(one), erased(two))
		}
	})
}
