package nodes

import (
	"testing"
	"time"
)

// What is counted is what falls after a fault and before the node's return.
func TestWhatProbesSaw(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(100, 0).Add(time.Duration(ms) * time.Millisecond) }
	p := &probes{
		failures: []time.Time{at(-5), at(30), at(400), at(2500)},
		acks: []acked{
			{at(-10), at(-5)},    // over before
			{at(-10), at(5)},     // under way
			{at(20), at(900)},    // the longest
			{at(2600), at(4000)}, // after the return
		},
	}
	if got, want := p.since(at(0), at(2000)), (seen{last: 400 * time.Millisecond, longest: 880 * time.Millisecond, failed: 2, sent: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
