package exchange

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"parley/conversation"
	"parley/gateway/door"
)

// One has the turn in a session; others wait for its end, or for that of their patience, and those of
// another session for nothing. Nothing stays behind.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &Exchange{}
		one, two := conversation.SessionKey{Session: "1"}, conversation.SessionKey{Session: "2"}
		take := func(ctx context.Context, key conversation.SessionKey) func() {
			end, err := x.Turn(ctx, key)
			if err != nil {
				t.Error(err)
			}
			return end
		}
		end := take(t.Context(), one)
		take(t.Context(), two)()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := x.Turn(over, one); !errors.Is(err, door.ErrNoAnswer) {
			t.Error(err)
		}
		done := 0
		for range 3 {
			go func() {
				defer take(t.Context(), one)()
				done++ // the race detector tells when two are here
			}()
		}
		if synctest.Wait(); done != 0 {
			t.Errorf("%d did not wait", done)
		}
		end()
		if synctest.Wait(); done != 3 || len(x.turns.of) != 0 {
			t.Errorf("%d are done, and %v is left", done, x.turns.of)
		}
	})
}
