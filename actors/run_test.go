package actors

import (
	"testing"
	"testing/synctest"
)

// Run waits for what sessions have started, also when a goroutine does it that
// was there for their mailboxes.
func TestRunWaitsForWork(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		sessions{w.e}.Schedule(func() {})
		synctest.Wait()
		release := make(chan struct{})
		w.e.goWork("the test", func() { <-release }, nil)
		w.cancel()
		synctest.Wait()
		select {
		case err := <-w.ran:
			t.Error("Run has returned while work runs")
			w.ran <- err
		default:
		}
		close(release)
	})
}
