package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/placement"
	"parley/conversation"
	"parley/conversation/member"
)

var _ placement.Map = (*places)(nil)

// places says which sessions are this node's: those that the ring gives it.
type places struct {
	self conversation.Member
	ring atomic.Pointer[placement.Ring]

	mu       sync.Mutex
	members  []conversation.Member // of the ring
	draining bool
	empty    time.Time // since when the ring has nobody; zero = it has somebody
}

// set takes the list of members. It is true when sessions belong to others than before.
func (p *places) set(all []member.Peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var members []conversation.Member
	for _, m := range all {
		if m.Sessions && !m.Dead && !m.Draining && (m.Member != p.self || !p.draining) {
			members = append(members, m.Member)
		}
	}
	if p.ring.Load() != nil && slices.Equal(members, p.members) {
		return false
	}
	p.fill(members)
	return true
}

// drain takes this node out of its own ring.
func (p *places) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	p.fill(slices.DeleteFunc(slices.Clone(p.members), func(m conversation.Member) bool { return m == p.self }))
}

// fill makes the ring of these members. The caller holds the lock.
func (p *places) fill(members []conversation.Member) {
	p.members = members
	p.ring.Store(placement.NewRing(members))
	switch {
	case len(members) > 0:
		p.empty = time.Time{}
	case p.empty.IsZero():
		p.empty = time.Now()
	}
}

// nobody is true when no member has been there that runs sessions, for so long.
func (p *places) nobody(long time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.empty.IsZero() && time.Since(p.empty) >= long
}

// Local implements placement.Map.
func (p *places) Local(root conversation.SessionKey) (conversation.Member, bool) {
	owner, ok := p.owner(root)
	if !ok {
		return conversation.Member{}, false
	}
	return owner, owner == p.self
}

// owner is whose a session is, as far as this node knows; false = nobody is there.
func (p *places) owner(root conversation.SessionKey) (conversation.Member, bool) {
	ring := p.ring.Load()
	if ring == nil {
		return conversation.Member{}, false
	}
	return ring.Owner(root)
}
