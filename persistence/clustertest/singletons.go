package clustertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/member"
)

// SingletonTable is a list of members with what only one of them may have.
type SingletonTable interface {
	member.Table
	member.Singletons
}

// RunSingletons proves who may have a singleton; open is that of RunMembers.
func RunSingletons(t *testing.T, open func(t *testing.T) func(cluster string) SingletonTable) {
	for _, c := range []struct {
		name string
		run  func(*singletonsFixture)
	}{
		{"nobody's is taken, once", taken},
		{"what was given up is taken by another", givenUp},
		{"a living owner is not robbed, a dead one is followed", followed},
		{"an owner that has left, was removed or has started again is followed", gone},
		{"who is not a member, or whose lease is over, takes nothing", noOwner},
		{"clusters and names do not see each other", otherNames},
		{"one of many has it at a time", manyTakers},
		{"a call that nobody waits for", endedTake},
	} {
		t.Run(c.name, func(t *testing.T) {
			handles := open(t)
			c.run(&singletonsFixture{membersFixture: &membersFixture{T: t, ctx: t.Context(), open: func(cluster string) member.Table { return handles(cluster) }}})
		})
	}
}

type singletonsFixture struct{ *membersFixture }

func (f *singletonsFixture) node(name string, lease time.Duration) *node {
	return f.join(f.open("main"), info(name), lease)
}

func (n *node) singletons() member.Singletons {
	s, ok := n.Table.(member.Singletons)
	if !ok {
		n.Fatalf("%T keeps no singletons", n.Table)
	}
	return s
}

// take wants a singleton for a node, and that it is owner's then.
func (n *node) take(name string, owner *node) {
	n.Helper()
	got, err := n.singletons().Take(n.ctx, name, n.who.Member)
	if err != nil || got != owner.who.Member {
		n.Errorf("%s takes %q: it is %s's, %v; want %s's", n.who.Member, name, got, err, owner.who.Member)
	}
}

func (n *node) give(name string) {
	n.Helper()
	if err := n.singletons().Give(n.ctx, name, n.who.Member); err != nil {
		n.Errorf("%s gives %q up: %v", n.who.Member, name, err)
	}
}

func taken(f *singletonsFixture) {
	a, b := f.node("a", longLease), f.node("b", longLease)
	a.take("poll", a)
	a.take("poll", a)
	b.take("poll", a)
	b.give("poll") // it is not b's
	b.take("poll", a)
}

func givenUp(f *singletonsFixture) {
	a, b := f.node("a", longLease), f.node("b", longLease)
	b.give("poll") // nobody's
	a.take("poll", a)
	a.give("poll")
	a.give("poll")
	b.take("poll", b)
	a.take("poll", b)
}

func followed(f *singletonsFixture) {
	a, b := f.node("a", shortLease), f.node("b", shortLease)
	a.take("poll", a)
	b.until("a is dead", func(l member.List) bool {
		dead := find(f, l, "a").Dead
		if !dead {
			if got, err := b.singletons().Take(f.ctx, "poll", b.who.Member); err == nil && got == b.who.Member {
				dead = find(f, b.renew(), "a").Dead // it may have died since the list was read
				if !dead {
					f.Error("a lives, and was robbed")
				}
			}
		}
		return dead
	})
	b.renew()
	b.take("poll", b)
	a.renew() // it is back, too late
	b.renew()
	a.take("poll", b)
}

func gone(f *singletonsFixture) {
	a, b := f.node("a", longLease), f.node("b", longLease)
	a.take("poll", a)
	if err := a.Leave(f.ctx, a.who.Member); err != nil {
		f.Fatal(err)
	}
	b.take("poll", b)
	again := f.node("b", longLease) // b has started again
	again.take("poll", again)
	if err := b.singletons().Give(f.ctx, "poll", b.who.Member); err != nil {
		f.Errorf("the older run gives it up: %v", err)
	}
	c := f.node("c", longLease)
	c.take("poll", again)
}

func noOwner(f *singletonsFixture) {
	a, b := f.node("a", shortLease), f.node("b", shortLease)
	young := f.node("a", shortLease)
	if _, err := a.singletons().Take(f.ctx, "poll", a.who.Member); !errors.Is(err, member.ErrDeposed) {
		f.Errorf("who was replaced takes it: %v", err)
	}
	nobody := conversation.Member{Node: "nobody", Incarnation: 1 << 40}
	if _, err := a.singletons().Take(f.ctx, "poll", nobody); !errors.Is(err, member.ErrDeposed) {
		f.Errorf("who never joined takes it: %v", err)
	}
	b.until("the young one is dead", func(l member.List) bool { return find(f, l, "a").Dead })
	if _, err := young.singletons().Take(f.ctx, "poll", young.who.Member); !errors.Is(err, member.ErrLeaseOver) {
		f.Errorf("who is dead takes it: %v", err)
	}
	b.renew()
	b.take("poll", b)
}

func otherNames(f *singletonsFixture) {
	a, b := f.node("a", longLease), f.node("b", longLease)
	other := f.join(f.open("other"), info("a"), longLease)
	a.take("poll", a)
	b.take("other", b)
	other.take("poll", other)
	a.take("poll", a)
}

func manyTakers(f *singletonsFixture) {
	const many, rounds = 6, 30
	var mu sync.Mutex
	var has *node
	var all sync.WaitGroup
	for i := range many {
		n := f.node(string(rune('a'+i)), longLease)
		all.Go(func() {
			for range rounds {
				got, err := n.singletons().Take(f.ctx, "poll", n.who.Member)
				if err != nil {
					f.Errorf("%s takes it: %v", n.who.Member, err)
					return
				}
				if got != n.who.Member {
					continue
				}
				mu.Lock()
				if has != nil {
					f.Errorf("%s has it, and so has %s", has.who.Member, n.who.Member)
				}
				has = n
				mu.Unlock()
				if rand.N(2) == 0 { // it is its own until it gives it up
					n.take("poll", n)
				}
				mu.Lock()
				has = nil
				mu.Unlock()
				n.give("poll")
			}
		})
	}
	all.Wait()
}

func endedTake(f *singletonsFixture) {
	a := f.node("a", longLease)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	if _, err := a.singletons().Take(ctx, "poll", a.who.Member); !errors.Is(err, context.Canceled) {
		f.Errorf("take: %v", err)
	}
	if err := a.singletons().Give(ctx, "poll", a.who.Member); !errors.Is(err, context.Canceled) {
		f.Errorf("give: %v", err)
	}
	a.take("poll", a)
}
