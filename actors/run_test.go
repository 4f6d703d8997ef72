package actors

import (
	"testing"
	"testing/synctest"
)

// Run waits for what sessions have started, also when a goroutine does it that
// was there for their mailboxes.
func TestRunWaitsForWork(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.e.workers.Schedule(func() {})
		synctest.Wait()
		release := make(chan struct{})
		h.e.workers.Go("the test", func() { <-release }, nil)
		h.cancel()
		synctest.Wait()
		select {
		case err := <-h.ran:
			t.Error("Run has returned while work runs")
			h.ran <- err
		default:
		}
		close(release)
	})
}
