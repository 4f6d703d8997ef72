package cluster

import (
	"context"
	"maps"

	"parley/actors/cluster/internal/relay"
	"parley/conversation"
	"parley/conversation/member"
	"parley/metrics"
)

// Upstream brings to a node's hub what happens in sessions of other nodes; fanout.Upstream says
// what is asked of it.
type Upstream interface {
	Followed(key conversation.SessionKey)
	Unfollowed(key conversation.SessionKey)
	View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error))
	Typing(key conversation.SessionKey, after conversation.Seq, user conversation.UserID, on bool)
}

// Publisher stands between this node's engine and its hub: what the engine publishes goes to
// the hub, and to the nodes that follow the session. It must be called once, before Run.
func (n *Node) Publisher(hub conversation.Publisher) conversation.Publisher {
	n.relay.Store(relay.New(relay.Options{
		Self: n.self, Lease: n.o.Lease, Hub: fullHub(hub), Log: n.log, Owner: n.places.owner, Alive: n.alive, Holds: n.loop.Holds,
		Send:   func(to conversation.Member, body []byte) bool { return n.link.Send(to, topicFollow, body) },
		Behind: n.lanes.Behind,
		Meter:  newFollowMeter(n.m),
	}))
	return n.relay.Load()
}

// Upstream is the other nodes, for the hub that Publisher was given.
func (n *Node) Upstream() Upstream { return n.relay.Load() }

// fullHub is a hub that need not know of other nodes.
func fullHub(hub conversation.Publisher) relay.Hub {
	if h, full := hub.(relay.Hub); full {
		return h
	}
	return plainHub{hub}
}

type plainHub struct{ conversation.Publisher }

func (plainHub) Typing(conversation.SessionKey, conversation.Seq, conversation.UserID, bool) {}
func (plainHub) Missed(conversation.SessionKey)                                              {}

// follows takes what other nodes say about followed sessions.
func (n *Node) follows(from conversation.Member, body []byte, _ func([]byte)) {
	if r := n.relay.Load(); r != nil {
		r.Receive(from, body)
	}
}

// relaying renews what is followed on other nodes, until ctx ends.
func (n *Node) relaying(ctx context.Context) {
	if r := n.relay.Load(); r != nil {
		r.Run(ctx)
	}
}

// moved has sessions followed where they live by now.
func (n *Node) moved() {
	if r := n.relay.Load(); r != nil {
		r.Changed()
	}
	if h := n.hints.Load(); h != nil {
		h.Moved()
	}
}

// alive is true for a member whose lease held when the list was seen last.
func (n *Node) alive(m conversation.Member) bool {
	living := n.living.Load()
	return living != nil && (*living)[m]
}

// live notes whose lease holds; true = others than before.
func (n *Node) live(all []member.Peer) (changed bool) {
	now := map[conversation.Member]bool{}
	for _, m := range all {
		if !m.Dead {
			now[m.Member] = true
		}
	}
	before := n.living.Swap(&now)
	return before == nil || !maps.Equal(*before, now)
}

// followMeter counts what the relay does in the metrics of the node.
type followMeter struct {
	m       *metrics.Cluster
	in, out followCounts
}

// followCounts are the counters of one direction: they are looked up once, not for each message.
type followCounts struct {
	messages interface{ Inc() }
	bytes    interface{ Add(float64) }
}

func newFollowMeter(m *metrics.Cluster) *followMeter {
	counts := func(direction string) followCounts {
		return followCounts{m.FollowMessages.WithLabelValues(direction), m.FollowBytes.WithLabelValues(direction)}
	}
	return &followMeter{m, counts("in"), counts("out")}
}

func (f *followMeter) Follows(there, here int) {
	f.m.Follows.WithLabelValues("there").Set(float64(there))
	f.m.Follows.WithLabelValues("here").Set(float64(here))
}

func (f *followMeter) Renewal(outcome string) { f.m.FollowRenewals.WithLabelValues(outcome).Inc() }
func (f *followMeter) Gap(of string)          { f.m.FollowGaps.WithLabelValues(of).Inc() }
func (f *followMeter) Dropped(reason string)  { f.m.FollowDropped.WithLabelValues(reason).Inc() }

func (f *followMeter) Message(direction string, bytes int) {
	c := &f.out
	if direction == "in" {
		c = &f.in
	}
	c.messages.Inc()
	c.bytes.Add(float64(bytes))
}
