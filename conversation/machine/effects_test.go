package machine

import (
	"strings"
	"testing"
	"time"

	"parley/conversation"
)

// A clock that is set back brings the time of an attempt a second time. Its model
// is asked once.
func TestClockSetBackAsksOnce(t *testing.T) {
	w := script(t, "create", `send a "one"`, "fail unavailable")
	asked := 0
	tick := func(after time.Duration) {
		w.s.Decide(conversation.Inputs{At: w.now.Add(after), Slot: true}, conversation.Tick{})
		for _, e := range w.s.Durable(w.s.Head()) {
			if ask, ok := e.(conversation.AskModel); ok && ask.Attempt == 2 {
				asked++
			}
		}
	}
	for _, after := range []time.Duration{0, 2 * time.Second, 100 * time.Millisecond, 3 * time.Second} {
		tick(after)
	}
	if asked != 1 {
		t.Errorf("the second attempt was handed out %d times, want once", asked)
	}
}

// A delegation that the wrap-up stops before its start is durable is not started
// either when a message then comes: it ends as one that was stopped, and the task goes
// on after that.
func TestStoppedBeforeItsStart(t *testing.T) {
	w := script(t, `create policy={"task.max_steps":1}`, `send a "one"`,
		`model k1:delegate{"agent":"researcher","objective":"find it"} k2:askUser{"question":"Soon?","blocking":false,"expiresIn":"1s"}`,
		"wait 2s", `send b "two"`)
	if handed := w.s.Durable(w.s.Head()); len(handed) > 0 {
		t.Errorf("handed out before it has ended: %s", describeAll(handed))
	}
	w.run(&strings.Builder{}, "delegation d1 cancelled")
	var handed []string
	for _, e := range w.s.Durable(w.s.Head()) {
		handed = append(handed, describe(e))
	}
	if len(handed) != 1 || !strings.HasPrefix(handed[0], "AskModel") {
		t.Errorf("handed out: %s", strings.Join(handed, "; "))
	}
}
