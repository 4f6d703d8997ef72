package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"parley/actors/cluster/internal/link"
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
	// Answer answers, on the node where Run runs, what any node asks by Ask; nil = nothing can
	// be asked. It may be called many times at once, from any goroutine.
	Answer Answerer
}

// Answerer answers a request on the node that runs a singleton; see singleton.Answerer.
type Answerer = singleton.Answerer

// Back is the way to who has asked; see singleton.Back.
type Back = singleton.Back

// Hear takes, where something was asked, what is said before the answer; see singleton.Hear.
type Hear = singleton.Hear

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
	if err := n.keeper.Add(s.Name, s.Run); err != nil {
		return err
	}
	n.answers.Store(s.Name, s.Answer)
	return nil
}

// Ask has a request answered by the node that runs a singleton, this one or another; gateways
// may ask, too. It waits for so long that some node runs it: then the error is
// member.ErrNotRunning, and nothing was done. After member.ErrUnanswered the answer was lost
// with the node or on the way, and what was asked for may have been done; it is never
// sent twice. Other errors are ctx's, whose end is told to the node, and of a body
// larger than 16 MiB. hear may be called from any goroutine, until Ask returns.
func (n *Node) Ask(ctx context.Context, name string, body []byte, wait time.Duration, hear Hear) ([]byte, error) {
	return n.asking.Ask(ctx, name, body, wait, hear)
}

// Elsewhere is true for a singleton that belongs to another node now.
func (n *Node) Elsewhere(name string) bool {
	_, here := n.places.Local(singletonKey(name))
	return !here
}

func (n *Node) newSwitch() *singleton.Switch {
	return singleton.NewSwitch(singleton.SwitchOptions{
		Self: n.self, Log: n.log,
		Owner:  func(name string) (conversation.Member, bool) { return n.places.owner(singletonKey(name)) },
		Answer: func(name string) Answerer { return runningAnswer(n.keeper, &n.answers, name) },
		Send:   func(to conversation.Member, body []byte) { n.link.Send(to, topicAsk, body) },
		Request: func(to conversation.Member, body []byte, wait time.Duration, done func([]byte, error)) {
			n.link.Request(to, topicAsk, body, wait, func(body []byte, err error) {
				if errors.Is(err, link.ErrNotTaken) {
					err = fmt.Errorf("%w: %w", member.ErrNotRunning, err)
				}
				done(body, err)
			})
		},
	})
}

// runningAnswer is the Answerer of a singleton that runs here; nil = it does not, or has none.
func runningAnswer(k *singleton.Keeper, answers *sync.Map, name string) Answerer {
	if !k.Runs(name) {
		return nil
	}
	answer, _ := answers.Load(name)
	a, _ := answer.(Answerer)
	return a
}

// newKeeper makes the keeper of this node's singletons.
func (n *Node) newKeeper(table member.Singletons) *singleton.Keeper {
	return singleton.New(singleton.Options{
		Table: table, Self: n.self, Holds: n.loop.Holds, Pause: n.o.Lease / 5, Bound: endBound, Log: n.log,
		Belongs: func(name string) bool { _, here := n.places.Local(singletonKey(name)); return here },
		Began:   func(name string) { n.m.Singletons.WithLabelValues(name).Set(1) },
		Ended: func(name string) {
			n.m.Singletons.WithLabelValues(name).Set(0)
			n.asking.Stopped(name)
		},
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
type Solo struct {
	keeper  *singleton.Keeper
	asking  *singleton.Switch
	answers sync.Map // by name
}

// NewSolo makes a Solo; log may be nil.
func NewSolo(log *slog.Logger) *Solo {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Solo{}
	always, nothing := func() bool { return true }, func(string) {}
	s.keeper = singleton.New(singleton.Options{
		Holds: always, Belongs: func(string) bool { return true }, Pause: time.Second, Bound: endBound, Log: log,
		Began: nothing, Ended: func(name string) { s.asking.Stopped(name) }, Given: nothing,
	})
	s.asking = singleton.NewSwitch(singleton.SwitchOptions{ // it has nobody to send to
		Log: log, Owner: func(string) (conversation.Member, bool) { return conversation.Member{}, true },
		Answer: func(name string) Answerer { return runningAnswer(s.keeper, &s.answers, name) },
	})
	return s
}

// Singleton has it run from Run on.
func (s *Solo) Singleton(it Singleton) error {
	if err := s.keeper.Add(it.Name, it.Run); err != nil {
		return err
	}
	s.answers.Store(it.Name, it.Answer)
	return nil
}

// Ask is that of a Node.
func (s *Solo) Ask(ctx context.Context, name string, body []byte, wait time.Duration, hear Hear) ([]byte, error) {
	return s.asking.Ask(ctx, name, body, wait, hear)
}

// Run runs all singletons until ctx ends and they have ended.
func (s *Solo) Run(ctx context.Context) {
	s.keeper.Begin(ctx)
	<-ctx.Done()
	s.keeper.End()
}
