package cluster

import (
	"parley/actors/cluster/internal/speech"
	"parley/conversation"
	"parley/conversation/wire"
)

// Outside runtimes claim on any node what waits in the sessions of all: each node's desk is
// told what the sessions of the others offer, and hands out by their nodes. What a desk
// believes may be out of date; the session decides.

// HandOut tells a session of any node to hand its message out.
func (n *Node) HandOut(key conversation.SessionKey, c conversation.HandOut, done func(conversation.Receipt, error)) {
	r := n.router.Load()
	if r == nil {
		done(conversation.Receipt{}, errMoving(nil))
		return
	}
	r.Tell(key, "", c, done)
}

// Offered tells the desks of the other nodes what can be claimed in a session of this one;
// nil = nothing any more.
func (n *Node) Offered(key conversation.SessionKey, c *conversation.Claimable) {
	a := speech.Ask{Key: key}
	if c != nil {
		a.Command = wire.AppendClaimable([]byte{}, c)
	}
	body := a.Append(nil)
	for _, m := range n.Members() {
		if m.Member != n.self && !m.Dead {
			n.link.Send(m.Member, topicOffer, body)
		}
	}
}

// offered takes what a session of another node offers.
func (n *Node) offered(_ conversation.Member, body []byte, _ func([]byte)) {
	var a speech.Ask
	engine := n.engine.Load()
	if engine == nil || a.Read(body) != nil {
		return
	}
	if a.Command == nil {
		(*engine).Offer(a.Key, nil)
		return
	}
	if c, err := wire.DecodeClaimable(a.Command); err == nil {
		(*engine).Offer(a.Key, c)
	}
}
