package placement

import (
	"hash/fnv"
	"slices"

	"parley/conversation"
)

// Ring gives each session one of the members: the one for which a hash of both is the
// highest (rendezvous hashing). Every node that knows the same members finds the same
// one, without asking; when a member comes or goes, only the sessions move that it has
// from then on, or had. A Ring does not change. The zero value has no members.
type Ring struct {
	members []conversation.Member
	seeds   []uint64 // the hash of each member's node
}

// NewRing makes the ring of these members, in any order. A node that starts again has the
// sessions that it had before: its incarnation does not count.
func NewRing(members []conversation.Member) *Ring {
	r := &Ring{members: slices.Clone(members)}
	for _, m := range r.members {
		r.seeds = append(r.seeds, hash(string(m.Node)))
	}
	return r
}

// Owner is the member that a root session belongs to; false if there are no members.
func (r *Ring) Owner(root conversation.SessionKey) (conversation.Member, bool) {
	session := mix(hash(string(root.Tenant)) + hash(string(root.Session)))
	best, highest := -1, uint64(0)
	for i, seed := range r.seeds {
		score := mix(seed ^ session)
		if best < 0 || score > highest || score == highest && r.members[i].Node < r.members[best].Node {
			best, highest = i, score
		}
	}
	if best < 0 {
		return conversation.Member{}, false
	}
	return r.members[best], true
}

// Members are those of the ring.
func (r *Ring) Members() []conversation.Member { return slices.Clone(r.members) }

// hash is the same one in every process and in every version: nodes must agree.
func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return mix(h.Sum64())
}

// mix spreads the bits: FNV leaves those of names that differ in their last letter close
// together, and some members would get far more than others. It is the finalizer of
// MurmurHash3 (Appleby, public domain).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
