package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Giving up at the moment of getting the slot passes it on.
func TestSlotThatNobodyWantsAnyMore(t *testing.T) {
	g := New(1)
	first, second, third := g.ask(), g.ask(), g.ask()
	if !first.granted() || second.granted() {
		t.Fatal("the first has the slot")
	}
	g.Leave()
	if !second.granted() {
		t.Fatal("the second has it next")
	}
	g.giveUp(second)
	if !third.granted() {
		t.Fatal("the third was forgotten")
	}
	g.Leave()
	if g.Taken() != 0 || len(g.queue) != 0 {
		t.Errorf("%d are taken, %d wait", g.Taken(), len(g.queue))
	}
}

// A caller who waits hears a sign of life every pulse, and leaves no hole when it
// stops reading or its context ends.
func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(1)
		if waited, err := g.Enter(t.Context(), Pulse, nil); waited || err != nil {
			t.Fatalf("the first one: waited %v, %v", waited, err)
		}
		began, beats := time.Now(), 0
		waited, err := g.Enter(t.Context(), Pulse, func() bool { beats++; return beats < 3 })
		if !waited || !errors.Is(err, ErrStopped) || beats != 3 || time.Since(began) != 3*Pulse {
			t.Errorf("waited %v, %v, %d beats, %s", waited, err, beats, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Enter(ctx, Pulse, func() bool { return true }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that ended: %v", err)
		}
		entered := make(chan error)
		go func() {
			_, err := g.Enter(t.Context(), Pulse, func() bool { return true })
			entered <- err
		}()
		synctest.Wait()
		if g.Leave(); <-entered != nil || g.Taken() != 1 {
			t.Errorf("the next one did not get the slot: %d are taken", g.Taken())
		}
	})
}
