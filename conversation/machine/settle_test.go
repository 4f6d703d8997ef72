package machine

import (
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
)

// A rule that undoes what another does costs one session its place in memory,
// never the node its own: the loop is bounded, and the panic says whose it was.
func TestSettleIsBounded(t *testing.T) {
	w := script(t, "create", `send a "one"`, `send b "two" mode=queue`)
	d := decision{Session: w.s, now: w.now}
	rounds := 0
	defer func() {
		said := fmt.Sprint(recover())
		if !strings.Contains(said, w.s.Key().String()) || !strings.Contains(said, "does not settle") {
			t.Errorf("the panic says %q", said)
		}
		if want := settleRounds + settleRoundsPerTask*len(w.s.View().Tasks); rounds != want+1 {
			t.Errorf("stopped after %d rounds, want %d", rounds, want)
		}
	}()
	d.repeat(func() progress {
		rounds++
		d.emit(nil, conversation.SessionUpdated{Title: new("again")})
		return again
	})
}
