package placement

import (
	"fmt"
	"math"
	"testing"

	"parley/conversation"
)

func members(names ...string) (all []conversation.Member) {
	for i, name := range names {
		all = append(all, conversation.Member{Node: conversation.NodeID(name), Incarnation: conversation.Incarnation(i + 1)})
	}
	return all
}

func root(n int) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%015d", n))}
}

const many = 30_000

// Members whose names differ in one letter share the sessions evenly: none is further from
// its part than four standard deviations of a fair draw.
func TestRingSpreads(t *testing.T) {
	for _, names := range [][]string{
		{"10.0.0.1:7950", "10.0.0.2:7950", "10.0.0.3:7950"},
		{"parley-0", "parley-1", "parley-2", "parley-3", "parley-4", "parley-5", "parley-6"},
		{"a", "b"},
	} {
		ring, count := NewRing(members(names...)), map[conversation.NodeID]int{}
		for n := range many {
			owner, ok := ring.Owner(root(n))
			if !ok {
				t.Fatal("nobody")
			}
			count[owner.Node]++
		}
		share := 1 / float64(len(names))
		off := 4 * math.Sqrt(many*share*(1-share))
		for _, name := range names {
			if n := float64(count[conversation.NodeID(name)]); math.Abs(n-many*share) > off {
				t.Errorf("%s of %v has %v sessions of %d", name, names, n, many)
			}
		}
	}
}

// When a member comes, sessions move to it and nowhere else; when it goes, only its own move.
// The order of the list and incarnations do not matter.
func TestRingMovesLittle(t *testing.T) {
	three := NewRing(members("a", "b", "c"))
	four := NewRing(members("d", "c", "b", "a"))
	for n := range many {
		before, _ := three.Owner(root(n))
		after, _ := four.Owner(root(n))
		if after.Node != before.Node && after.Node != "d" {
			t.Fatalf("%v moved from %s to %s", root(n), before.Node, after.Node)
		}
	}
}

// Nodes of different versions must agree: these owners never change.
func TestRingIsStable(t *testing.T) {
	ring := NewRing(members("node-a", "node-b", "node-c"))
	got := ""
	for n := range 24 {
		owner, _ := ring.Owner(root(n))
		got += string(owner.Node[5:])
	}
	if want := "abcccccabbabcbaaaabacabc"; got != want {
		t.Errorf("the owners are %s, not %s: nodes of the version before would disagree", got, want)
	}
	if _, ok := NewRing(nil).Owner(root(1)); ok {
		t.Error("a ring without members has an owner")
	}
}

func BenchmarkRing(b *testing.B) {
	ring, key := NewRing(members("node-a", "node-b", "node-c", "node-d", "node-e")), root(7)
	b.ReportAllocs()
	for b.Loop() {
		ring.Owner(key)
	}
}
