package clustertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/member"
)

// RunMembers proves a list of members. open makes an empty place for lists and returns what
// opens one more handle on the list of a cluster in it, as another node would; it
// closes them with t.Cleanup.
//
// The tests let leases run out, short ones. They wait for what the list says and never
// assert how long that took.
func RunMembers(t *testing.T, open func(t *testing.T) func(cluster string) member.Table) {
	for _, c := range []struct {
		name string
		run  func(*membersFixture)
	}{
		{"who joins is in the list", joins},
		{"every run of a node has a higher incarnation", incarnations},
		{"who was replaced is deposed", replaced},
		{"who has left is deposed, too", left},
		{"what a member says of itself is brought up to date", upToDate},
		{"clusters do not see each other", otherClusters},
		{"who is silent for longer than its lease is dead, and comes back", silent},
		{"the time that is left to a member is true", leftTime},
		{"after an outage nobody is dead for one lease", grace},
		{"the lowest feature of those that live counts", features},
		{"what all have known once is remembered, and older programs stay out", remembered},
		{"many at once", manyMembers},
		{"a member without a name or a lease is none", noMember},
		{"a call that nobody waits for", endedCall},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(&membersFixture{T: t, open: open(t), ctx: t.Context()})
		})
	}
}

type membersFixture struct {
	*testing.T
	open func(cluster string) member.Table
	ctx  context.Context
}

// Leases: one that does not run out while a test runs, and one that does.
const (
	longLease  = time.Hour
	shortLease = 400 * time.Millisecond
)

func info(node string) member.Info {
	return member.Info{
		Member: conversation.Member{Node: conversation.NodeID(node)}, Address: node + ".example:7946",
		Sessions: true, Version: "1.2.3", Feature: 3, Owned: 7,
	}
}

// node is a member with its handle on the list.
type node struct {
	*membersFixture
	member.Table
	who member.Info
}

func (f *membersFixture) join(table member.Table, who member.Info, lease time.Duration) *node {
	f.Helper()
	m, err := table.Join(f.ctx, who, lease)
	if err != nil {
		f.Fatalf("join %s: %v", who.Node, err)
	}
	if m.Node != who.Node || m.Incarnation == 0 {
		f.Fatalf("%s joined as %v", who.Node, m)
	}
	who.Member = m
	return &node{f, table, who}
}

func (n *node) renew() member.List {
	n.Helper()
	list, err := n.Renew(n.ctx, n.who)
	if err != nil {
		n.Fatalf("renew %s: %v", n.who.Member, err)
	}
	return list
}

func (n *node) deposed() {
	n.Helper()
	if _, err := n.Renew(n.ctx, n.who); !errors.Is(err, member.ErrDeposed) {
		n.Errorf("renew %s: %v, want that it is deposed", n.who.Member, err)
	}
}

// until renews until the list is as wanted.
func (n *node) until(what string, wanted func(member.List) bool) member.List {
	n.Helper()
	tick := time.NewTicker(shortLease / 20)
	defer tick.Stop()
	for {
		if list := n.renew(); wanted(list) {
			return list
		}
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			n.Fatalf("waited in vain: %s", what)
		}
	}
}

func nodes(list member.List) (all []string) {
	for _, p := range list.Members {
		all = append(all, string(p.Node))
	}
	return all
}

func find(t testing.TB, list member.List, id conversation.NodeID) member.Peer {
	t.Helper()
	i := slices.IndexFunc(list.Members, func(p member.Peer) bool { return p.Node == id })
	if i < 0 {
		t.Fatalf("%s is not in the list %v", id, nodes(list))
	}
	return list.Members[i]
}

func joins(f *membersFixture) {
	b := f.join(f.open("main"), info("b"), longLease)
	gate := info("Z-gate")
	gate.Sessions = false
	z := f.join(f.open("main"), gate, longLease)
	a := f.join(f.open("main"), info("a"), longLease)
	list := b.renew()
	if got := nodes(list); !slices.Equal(got, []string{"Z-gate", "a", "b"}) { // by bytes, wherever it is kept
		f.Errorf("the members are %v", got)
	}
	for _, n := range []*node{a, b, z} {
		p := find(f, list, n.who.Node)
		if p.Info != n.who || p.Dead || p.Silent < 0 {
			f.Errorf("%+v joined, and the list says %+v", n.who, p)
		}
	}
	if list.Feature != 3 {
		f.Errorf("all can read feature 3, and the list says %d", list.Feature)
	}
	if again := a.renew(); again.Log != list.Log {
		f.Errorf("two members see the logs %q and %q", again.Log, list.Log)
	}
}

func incarnations(f *membersFixture) {
	table := f.open("main")
	var last conversation.Incarnation
	for range 3 {
		n := f.join(table, info("a"), longLease)
		if n.who.Incarnation <= last {
			f.Errorf("incarnation %d follows %d", n.who.Incarnation, last)
		}
		last = n.who.Incarnation
		n.renew()
		if err := n.Leave(f.ctx, n.who.Member); err != nil {
			f.Fatal(err)
		}
	}
	if got := f.join(f.open("main"), info("a"), longLease); got.who.Incarnation <= last {
		f.Errorf("incarnation %d follows %d, which has left", got.who.Incarnation, last)
	}
}

func replaced(f *membersFixture) {
	old := f.join(f.open("main"), info("a"), longLease)
	young := f.join(f.open("main"), info("a"), longLease)
	old.deposed()
	if err := old.Leave(f.ctx, old.who.Member); err != nil {
		f.Errorf("leave of one that is not there: %v", err)
	}
	if list := young.renew(); len(list.Members) != 1 || list.Members[0].Member != young.who.Member {
		f.Errorf("after the older one has left, the list is %+v", list.Members)
	}
}

func left(f *membersFixture) {
	a, b := f.join(f.open("main"), info("a"), longLease), f.join(f.open("main"), info("b"), longLease)
	for range 2 {
		if err := a.Leave(f.ctx, a.who.Member); err != nil {
			f.Fatal(err)
		}
	}
	a.deposed()
	if got := nodes(b.renew()); !slices.Equal(got, []string{"b"}) {
		f.Errorf("the members are %v", got)
	}
}

func upToDate(f *membersFixture) {
	a, b := f.join(f.open("main"), info("a"), longLease), f.join(f.open("main"), info("b"), longLease)
	a.who.Draining, a.who.Owned, a.who.Feature, a.who.Address, a.who.Version, a.who.Sessions = true, 12, 9, "elsewhere:1", "2.0.0", false
	a.renew()
	if p := find(f, b.renew(), "a"); p.Info != a.who {
		f.Errorf("a says %+v, and the list %+v", a.who, p.Info)
	}
}

func otherClusters(f *membersFixture) {
	a := f.join(f.open("main"), info("a"), longLease)
	b := f.join(f.open("main"), info("b"), longLease)
	other := f.join(f.open("other"), info("a"), longLease)
	if got := nodes(a.renew()); !slices.Equal(got, []string{"a", "b"}) {
		f.Errorf("the members are %v", got)
	}
	if got := nodes(other.renew()); !slices.Equal(got, []string{"a"}) {
		f.Errorf("the members of the other cluster are %v", got)
	}
	if err := other.Leave(f.ctx, b.who.Member); err != nil {
		f.Error(err)
	}
	b.renew()
}

// leftTime: what the list says of the time that is left to a member is true, so that the others
// can look at that moment.
func leftTime(f *membersFixture) {
	a, b := f.join(f.open("main"), info("a"), shortLease), f.join(f.open("main"), info("b"), shortLease)
	a.renew()
	p := find(f, b.renew(), "a")
	if p.Dead || p.Left <= 0 || p.Left > shortLease || p.Silent+p.Left > shortLease+time.Millisecond {
		f.Fatalf("a has renewed its lease of %v: %v ago, %v left", shortLease, p.Silent, p.Left)
	}
	const steps = 4 // somebody is here all the time: no outage
	over := time.NewTicker(p.Left/steps + time.Millisecond)
	defer over.Stop()
	for range steps {
		p = find(f, b.renew(), "a")
		<-over.C
	}
	if p = find(f, b.renew(), "a"); !p.Dead {
		f.Errorf("the time that was left to a is over, and the list says %+v", p)
	}
}

func silent(f *membersFixture) {
	a, b := f.join(f.open("main"), info("a"), shortLease), f.join(f.open("main"), info("b"), shortLease)
	list := b.until("a is dead", func(l member.List) bool { return find(f, l, "a").Dead })
	if p := find(f, list, "a"); p.Silent < shortLease {
		f.Errorf("a is dead after a silence of %v, shorter than its lease", p.Silent)
	}
	if find(f, list, "b").Dead {
		f.Error("b finds itself dead")
	}
	if p := find(f, list, "a"); p.Left != 0 {
		f.Errorf("a is dead, and has %v left", p.Left)
	}
	if p := find(f, a.renew(), "a"); p.Dead { // nobody has taken it out
		f.Error("a has come back and is dead")
	}
}

func grace(f *membersFixture) {
	a, b := f.join(f.open("main"), info("a"), shortLease), f.join(f.open("main"), info("b"), shortLease)
	over := time.NewTimer(2 * shortLease) // nobody reaches the list meanwhile
	<-over.C
	list := b.renew()
	if p := find(f, list, "a"); p.Dead || p.Silent < shortLease || p.Left <= 0 || p.Left > shortLease {
		f.Errorf("after an outage the list says of a %+v", p)
	}
	a.renew()
	// The outage is over, and who stays silent now is dead.
	b.until("a is dead", func(l member.List) bool { return find(f, l, "a").Dead })
	// A node that joins after an outage brings the list back as well.
	over.Reset(2 * shortLease)
	<-over.C
	c := f.join(f.open("main"), info("c"), shortLease)
	if p := find(f, c.renew(), "b"); p.Dead {
		f.Error("b is dead, although nobody could renew before c joined")
	}
}

func features(f *membersFixture) {
	low, high := info("low"), info("high")
	low.Feature, high.Feature = 2, 5
	a := f.join(f.open("main"), low, shortLease)
	b := f.join(f.open("main"), high, shortLease)
	if got := a.renew().Feature; got != 2 {
		f.Errorf("the lowest feature is %d", got)
	}
	b.until("the older program is dead", func(l member.List) bool { return l.Feature == 5 })
	_, err := a.Renew(f.ctx, a.who) // b may have written what it cannot read
	tooOld(f, err, 2, 5)
	_, err = a.Join(f.ctx, low, longLease)
	tooOld(f, err, 2, 5)
	if list := b.renew(); list.Feature != 5 {
		f.Errorf("the older program has tried to come back, and the lowest feature is %d", list.Feature)
	}
}

func remembered(f *membersFixture) {
	old, next := info("old"), info("next")
	old.Feature, next.Feature = 3, 4
	a, b := f.join(f.open("main"), next, longLease), f.join(f.open("main"), old, longLease)
	if got := a.renew().Feature; got != 3 {
		f.Errorf("the lowest feature is %d", got)
	}
	if err := a.Leave(f.ctx, a.who.Member); err != nil { // the upgrade is taken back
		f.Fatal(err)
	}
	b = f.join(b.Table, old, longLease)
	b.renew()
	a = f.join(f.open("main"), next, longLease)
	a.renew()
	if err := b.Leave(f.ctx, b.who.Member); err != nil {
		f.Fatal(err)
	}
	if got := a.renew().Feature; got != 4 {
		f.Errorf("the newer program is alone, and the lowest feature is %d", got)
	}
	if err := a.Leave(f.ctx, a.who.Member); err != nil {
		f.Fatal(err)
	}
	_, err := b.Join(f.ctx, old, longLease) // although nobody is there
	tooOld(f, err, 3, 4)
	f.join(f.open("main"), next, longLease).renew()
}

func tooOld(f *membersFixture, err error, known, needed member.Feature) {
	f.Helper()
	var refused *member.TooOldError
	if !errors.As(err, &refused) || *refused != (member.TooOldError{Known: known, Needed: needed}) {
		f.Errorf("a program that knows feature %d where %d may have been used: %v", known, needed, err)
	}
}

func manyMembers(f *membersFixture) {
	const many = 8
	got := make([]conversation.Member, many)
	var all sync.WaitGroup
	for i := range many {
		table := f.open("main")
		all.Go(func() {
			who := info(fmt.Sprintf("n%d", i%4)) // two runs of each node
			m, err := table.Join(f.ctx, who, longLease)
			if err != nil {
				f.Errorf("join %s: %v", who.Node, err)
				return
			}
			who.Member, got[i] = m, m
			for range 5 {
				if _, err := table.Renew(f.ctx, who); err != nil && !errors.Is(err, member.ErrDeposed) {
					f.Errorf("renew %s: %v", m, err)
				}
			}
		})
	}
	all.Wait()
	distinct := map[conversation.Member]bool{}
	for _, m := range got {
		distinct[m] = true
	}
	if len(distinct) != many {
		f.Errorf("the members are %v", got)
	}
	last := f.join(f.open("main"), info("last"), longLease)
	if all := nodes(last.renew()); !slices.Equal(all, []string{"last", "n0", "n1", "n2", "n3"}) {
		f.Errorf("the members are %v", all)
	}
}

func noMember(f *membersFixture) {
	table := f.open("main")
	if _, err := table.Join(f.ctx, info(""), longLease); err == nil {
		f.Error("a node without a name joined")
	}
	if _, err := table.Join(f.ctx, info("a"), 0); err == nil {
		f.Error("a node without a lease joined")
	}
	if err := table.Leave(f.ctx, conversation.Member{Node: "nobody", Incarnation: 7}); err != nil {
		f.Errorf("leave of one that never was there: %v", err)
	}
}

func endedCall(f *membersFixture) {
	a := f.join(f.open("main"), info("a"), longLease)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	if _, err := a.Renew(ctx, a.who); !errors.Is(err, context.Canceled) {
		f.Errorf("renew: %v", err)
	}
	if _, err := a.Join(ctx, info("b"), longLease); !errors.Is(err, context.Canceled) {
		f.Errorf("join: %v", err)
	}
	a.renew() // it is a member all the same
}
