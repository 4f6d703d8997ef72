package cluster

import (
	"context"
	"maps"

	"parley/actors/cluster/internal/relay"
	"parley/conversation"
	"parley/conversation/member"
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
		Send: func(to conversation.Member, body []byte) bool { return n.link.Send(to, topicFollow, body) },
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
