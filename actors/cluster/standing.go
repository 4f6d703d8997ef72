package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/cluster/internal/link"
	"parley/conversation"
	"parley/conversation/member"
)

// A node that the others cannot reach would own its share of the sessions, and nobody but its own
// clients could use them. So a node takes sessions only when it has spoken with a member that
// takes them already, both ways: its question has come there, and the answer has come back on
// the other's own connection. One whose turn it is to be the first has nobody to ask. Once it
// stands it stands: members that lose each other later keep what they have.

// What standing costs.
const (
	helloWait  = 2 * time.Second // for one answer
	firstHello = time.Second     // a start waits so long for it, and goes on without sessions then
	helloAgain = 50 * time.Millisecond
	sayAgain   = 30 * time.Second
)

// standing says whether a node may have sessions.
type standing struct {
	stands atomic.Bool

	mu      sync.Mutex
	asking  map[conversation.Member]bool
	changed chan struct{}                     // closed when it stands
	seen    map[conversation.Member]time.Time // members that were there first, and do not stand; since when they are known
	said    time.Time                         // when it was last logged that nobody answers
}

func newStanding() *standing {
	return &standing{asking: map[conversation.Member]bool{}, changed: make(chan struct{}), seen: map[conversation.Member]time.Time{}}
}

// ok is true for a node that stands.
func (s *standing) ok() bool { return s.stands.Load() }

// reached lets the node stand. It is true the first time.
func (s *standing) reached() bool {
	if !s.stands.CompareAndSwap(false, true) {
		return false
	}
	close(s.changed)
	return true
}

// first is true if nobody has to be asked: no other member has sessions, and those that were
// there before this one have not got them for a lease, or are none.
func (s *standing) first(self conversation.Member, all []member.Peer, lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, first := time.Now(), true
	for _, m := range all {
		if m.Member == self || m.Dead {
			continue
		}
		if m.Sessions {
			return false
		}
		if m.Incarnation > self.Incarnation || m.Incarnation == self.Incarnation && m.Node > self.Node {
			continue
		}
		if s.seen[m.Member].IsZero() {
			s.seen[m.Member] = now
		}
		first = first && now.Sub(s.seen[m.Member]) > lease
	}
	return first
}

// stand has the others asked, unless the node stands or need not ask.
func (n *Node) stand(all []member.Peer) {
	if n.standing.ok() {
		return
	}
	if n.standing.first(n.self, all, n.o.Lease) {
		n.stands("")
		return
	}
	for _, m := range all {
		if m.Member != n.self && !m.Dead {
			n.hello(m)
		}
	}
}

// hello asks a member, which may be slow, whether it is there. One of an older program does not
// know the question: it has heard it, and that is what counts.
func (n *Node) hello(to member.Peer) {
	s := n.standing
	s.mu.Lock()
	asked := s.asking[to.Member]
	s.asking[to.Member] = true
	s.mu.Unlock()
	if asked {
		return
	}
	n.link.Request(to.Member, topicHello, nil, helloWait, func(body []byte, err error) {
		s.mu.Lock()
		delete(s.asking, to.Member)
		s.mu.Unlock()
		if err == nil && len(body) > 0 || link.IsUnknown(err) {
			n.stands(to.Node)
			return
		}
		if err != nil {
			n.unheard(to, err)
		}
	})
}

// unheard logs that a member gave no answer, once in a while.
func (n *Node) unheard(to member.Peer, err error) {
	s := n.standing
	s.mu.Lock()
	say := !s.ok() && time.Since(s.said) > sayAgain
	if say {
		s.said = time.Now()
	}
	s.mu.Unlock()
	if say {
		n.log.Warn("this node takes no sessions and is not ready: it has reached no other member both ways; look at cluster.advertise, the certificates and firewalls",
			"node", n.self.String(), "advertise", n.o.Advertise, "member", to.Member.String(), "address", to.Address, "error", err)
	}
}

// greeted answers another node's hello: with something, if this one stands itself.
func (n *Node) greeted(_ conversation.Member, _ []byte, reply func([]byte)) {
	if reply == nil {
		return
	}
	if n.standing.ok() {
		reply([]byte{1})
		return
	}
	reply(nil)
}

// stands lets the node have sessions, and says so to the others.
func (n *Node) stands(by conversation.NodeID) {
	if !n.standing.reached() {
		return
	}
	n.log.Info("this node takes part: it has reached the others, or is the first", "node", n.self.String(), "answered", string(by))
	n.loop.Nudge()
}

// settle waits at a start until the node stands, a moment only.
func (n *Node) settle(ctx context.Context, list member.List) (member.List, error) {
	late, again := time.NewTimer(firstHello), time.NewTicker(helloAgain)
	defer late.Stop()
	defer again.Stop()
	for {
		select {
		case <-n.standing.changed:
			return n.table.Renew(ctx, n.info())
		case <-again.C: // they may have started together
			n.stand(list.Members)
		case <-late.C:
			return list, nil
		case <-ctx.Done():
			return list, ctx.Err()
		}
	}
}

// errOut refuses what would need the other nodes, which this one has not reached.
func errOut() error {
	err := conversation.Errorf(conversation.Unavailable, "this server has not reached the other servers yet; please try again in a moment, or at another one")
	err.RetryAfter = time.Second
	return err
}
