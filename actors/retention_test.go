package actors

import (
	"testing"
	"testing/synctest"
	"time"
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
