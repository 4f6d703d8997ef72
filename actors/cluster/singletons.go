package cluster

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"parley/actors/cluster/internal/singleton"
	"parley/conversation"
	"parley/conversation/member"
)

// endBound is how long a singleton may take to end before the log says that it does not.
const endBound = 10 * time.Second

// Singleton is what runs on one node of a cluster at a time.
type Singleton struct {
	Name string // the same on all nodes, and of no other singleton
	// Run runs until its context ends. It is started again, after a pause, if it returns
	// before. The context ends when this node's lease is over by its own clock, before
	// another node may begin (member.ErrLeaseOver is its cause: end at once); and when it is
	// to run elsewhere, or the node drains: no other node begins before Run has returned.
	Run func(ctx context.Context) error
}

// Singleton has it run on one of the nodes that run sessions; all of them should be told of it.
// Whose it is, the database says: a node that lives keeps it until it gives it up, one
// that has died, has left or was removed from the list has it no more. A node that is
// removed while it lives, or one that wakes from a freeze, notices that at its next
// look: for so long two may run.
func (n *Node) Singleton(s Singleton) error {
	if !n.keepsSingletons {
		return errors.New("this node's store keeps no singletons")
	}
	if n.o.GatewayOnly {
		return nil
	}
	n.m.Singletons.WithLabelValues(s.Name).Set(0)
	return n.keeper.Add(s.Name, s.Run)
}

// newKeeper makes the keeper of this node's singletons.
func (n *Node) newKeeper(table member.Singletons) *singleton.Keeper {
	return singleton.New(singleton.Options{
		Table: table, Self: n.self, Holds: n.loop.Holds, Pause: n.o.Lease / 5, Bound: endBound, Log: n.log,
		Belongs: func(name string) bool { _, here := n.places.Local(singletonKey(name)); return here },
		Began:   func(name string) { n.m.Singletons.WithLabelValues(name).Set(1) },
		Ended:   func(name string) { n.m.Singletons.WithLabelValues(name).Set(0) },
		Given: func(name string) {
			if owner, here := n.places.Local(singletonKey(name)); !here {
				n.link.Send(owner, topicGiven, nil)
			}
		},
	})
}

// singletonKey is what the ring knows a singleton by. No tenant has this name.
func singletonKey(name string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "\x00singleton", Session: conversation.SessionID(name)}
}

// Solo runs singletons in a process that is in no cluster, as a Node does in one.
type Solo struct{ keeper *singleton.Keeper }

// NewSolo makes a Solo; log may be nil.
func NewSolo(log *slog.Logger) *Solo {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	always, nothing := func() bool { return true }, func(string) {}
	return &Solo{singleton.New(singleton.Options{
		Holds: always, Belongs: func(string) bool { return true }, Pause: time.Second, Bound: endBound, Log: log,
		Began: nothing, Ended: nothing, Given: nothing,
	})}
}

// Singleton has it run from Run on.
func (s *Solo) Singleton(it Singleton) error { return s.keeper.Add(it.Name, it.Run) }

// Run runs all singletons until ctx ends and they have ended.
func (s *Solo) Run(ctx context.Context) {
	s.keeper.Begin(ctx)
	<-ctx.Done()
	s.keeper.End()
}
