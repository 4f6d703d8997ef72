package cluster

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/placement"
	"parley/conversation"
	"parley/conversation/member"
)

// keepFor is how long a session is taken for this node's although it is not by the ring,
// after another node was sent here for it.
const keepFor = 5 * time.Second

var _ placement.Map = (*places)(nil)

// places says which sessions are this node's: those that the ring gives it, and those that
// the store says it owns although the ring does not.
type places struct {
	self conversation.Member
	ring atomic.Pointer[placement.Ring]

	mu       sync.Mutex
	members  []conversation.Member // of the ring
	draining bool
	kept     map[conversation.SessionKey]time.Time // until when
	keeps    atomic.Int32                          // how many
	swept    time.Time                             // when those that are over were last taken out
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
	p.members = members
	p.ring.Store(placement.NewRing(members))
	return true
}

// drain takes this node out of its own ring.
func (p *places) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	p.members = slices.DeleteFunc(slices.Clone(p.members), func(m conversation.Member) bool { return m == p.self })
	p.ring.Store(placement.NewRing(p.members))
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
	if p.keeps.Load() > 0 && p.isKept(root) {
		return p.self, true
	}
	ring := p.ring.Load()
	if ring == nil {
		return conversation.Member{}, false
	}
	return ring.Owner(root)
}

// keep takes a session for this node's own for a while: another node was told that it is,
// by the store or by a member that sees another ring. Acquire decides. It is false while
// the node drains: it takes nothing any more.
func (p *places) keep(root conversation.SessionKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining {
		return false
	}
	if p.kept == nil {
		p.kept = map[conversation.SessionKey]time.Time{}
	}
	now := time.Now()
	if now.Sub(p.swept) > time.Second {
		p.swept = now
		maps.DeleteFunc(p.kept, func(_ conversation.SessionKey, until time.Time) bool { return now.After(until) })
	}
	p.kept[root] = now.Add(keepFor)
	p.keeps.Store(int32(len(p.kept)))
	return true
}

func (p *places) isKept(root conversation.SessionKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, kept := p.kept[root]
	if kept && time.Now().After(until) {
		delete(p.kept, root)
		p.keeps.Store(int32(len(p.kept)))
		return false
	}
	return kept
}
