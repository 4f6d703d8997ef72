package cluster

import (
	"context"

	"parley/actors/cluster/internal/hints"
	"parley/conversation"
)

// Users watch their lists of sessions on any node, and each node reads the rows that they are
// shown from the store. What changes in the sessions of one node the others are told.

// Watchers are those who watch lists on this node.
type Watchers interface {
	// Changed says whose rows of a session have changed: everyone's in its tenant, or those of users.
	Changed(key conversation.SessionKey, everyone bool, users []conversation.UserID)
	// Again says that changes may have been missed.
	Again(ctx context.Context) error
}

// Lists joins those who watch lists on this node with what the other nodes change, and says
// what has to be told of each change of this one. It must be called once, before Run.
func (n *Node) Lists(w Watchers) (changed func(key conversation.SessionKey, everyone bool, users []conversation.UserID)) {
	h := hints.New(hints.Options{
		Others: n.others,
		Send:   func(to conversation.Member, body []byte) bool { return n.link.Send(to, topicList, body) },
		Take:   func(h hints.Hint) { w.Changed(h.Key, h.Everyone, h.Users) },
		Again:  w.Again,
	})
	n.hints.Store(h)
	return func(key conversation.SessionKey, everyone bool, users []conversation.UserID) {
		w.Changed(key, everyone, users)
		h.Changed(hints.Hint{Key: key, Everyone: everyone, Users: users})
	}
}

// others are the other members whose lease held when the list was seen last.
func (n *Node) others() (all []conversation.Member) {
	if living := n.living.Load(); living != nil {
		for m := range *living {
			if m != n.self {
				all = append(all, m)
			}
		}
	}
	return all
}

// hinted takes what another node has changed.
func (n *Node) hinted(from conversation.Member, body []byte, _ func([]byte)) {
	if h := n.hints.Load(); h != nil {
		h.Receive(from, body)
	}
}

// hinting tells the other nodes what changes, until ctx ends.
func (n *Node) hinting(ctx context.Context) {
	if h := n.hints.Load(); h != nil {
		h.Run(ctx)
	}
}
