package ws

import (
	"fmt"
	"testing"

	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// A connection that follows one session after the other, each erased at last, keeps
// those that live and a bounded number of the others, also without a limit.
func TestEndedFollowsAreDropped(t *testing.T) {
	for _, most := range []int{0, 500} {
		hub := fanout.NewHub(nil)
		queue := hub.NewQueue(nil, protocol.DefaultLimits())
		c := &handler{Services: &service.Services{Limits: protocol.Limits{FollowsPerConnection: most}}}
		follow := func(name string) *fanout.Subscription {
			f := queue.NewSubscription(fanout.Options{Key: gatewaytest.Key(name)})
			if _, refused := c.addFollow(f); refused != nil {
				t.Fatal(refused)
			}
			return f
		}
		const living = 100
		for i := range living {
			follow(fmt.Sprintf("living-%d", i))
		}
		largest := 0
		for i := range 10_000 {
			follow(fmt.Sprintf("erased-%d", i)).Close() // what the hub does when a session is gone
			largest = max(largest, len(c.follows))
		}
		if bound := 2*living + 1; largest > bound {
			t.Errorf("with a limit of %d, %d follows were kept at once, want %d at most", most, largest, bound)
		}
		for i := range living {
			if c.follows[gatewaytest.Key(fmt.Sprintf("living-%d", i))] == nil {
				t.Fatalf("living-%d is not followed any more", i)
			}
		}
	}
}
