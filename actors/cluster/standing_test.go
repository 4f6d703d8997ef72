package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/conversation/member"
)

// Who need not ask anybody: the first one of those that start together, and who is alone with
// members that are dead, or that have been there without sessions for a lease.
func TestWhoIsFirst(t *testing.T) {
	const lease = 5 * time.Second
	self := conversation.Member{Node: "m", Incarnation: 10}
	peer := func(name conversation.NodeID, run conversation.Incarnation, sessions, dead bool) member.Peer {
		p := member.Peer{Dead: dead}
		p.Member, p.Sessions = conversation.Member{Node: name, Incarnation: run}, sessions
		return p
	}
	for name, c := range map[string]struct {
		others      []member.Peer
		first, late bool // at once, and a lease later
	}{
		"nobody else is there":                           {first: true, late: true},
		"an older one has sessions":                      {others: []member.Peer{peer("a", 3, true, false)}},
		"a younger one has sessions":                     {others: []member.Peer{peer("z", 30, true, false)}},
		"one that had sessions is dead":                  {others: []member.Peer{peer("a", 3, true, true)}, first: true, late: true},
		"an older one starts, or is a gateway":           {others: []member.Peer{peer("a", 3, false, false)}, late: true},
		"a younger one starts":                           {others: []member.Peer{peer("z", 30, false, false)}, first: true, late: true},
		"one of the same run, which comes first, starts": {others: []member.Peer{peer("a", 10, false, false)}, late: true},
		"one of the same run, which comes later, starts": {others: []member.Peer{peer("z", 10, false, false)}, first: true, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStanding()
				all := append([]member.Peer{peer(self.Node, self.Incarnation, false, false)}, c.others...)
				if got := s.first(self, all, lease); got != c.first {
					t.Errorf("at once: %v", got)
				}
				<-time.After(lease + time.Millisecond)
				if got := s.first(self, all, lease); got != c.late {
					t.Errorf("a lease later: %v", got)
				}
			})
		})
	}
}
