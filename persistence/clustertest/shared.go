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

// Shared is one place where sessions are kept, as two nodes see it: each has a handle of
// its own on it. Of a store that one process has alone both may be the same.
type Shared struct {
	A, B conversation.Store
	List member.Table // of the nodes whose stores these are
}

// RunShared proves a store that several nodes share: that two handles never write to the
// same log at once, and that a session belongs to a member of the list. open makes an
// empty one for each sub-test and closes it with t.Cleanup.
func RunShared(t *testing.T, open func(t *testing.T) Shared) {
	for _, c := range []struct {
		name string
		run  func(*sharedFixture)
	}{
		{"N-10 who acquires fences the other node", fencesTheOther},
		{"what one node commits the other one reads", readsOfTheOther},
		{"N-10 an owner that lives keeps its session", ownersKeep},
		{"what is released is free at once", released},
		{"who releases too late releases nothing", releasedLate},
		{"an owner whose node has started again is dead", ownersThatDied},
		{"an owner whose lease is over may live", ownersThatExpired},
		{"an owner that has left gives all up", ownersThatLeft},
		{"what is due is for those who may have it", dueByOwner},
		{"M-10 M-18 keys of the other node are duplicates", keysOfTheOther},
		{"N-02 an unknown outcome is resolved at the other node", outcomeAtTheOther},
		{"a session that the other node erases", erasedByTheOther},
		{"lists are the same within a moment", listsOfTheOther},
		{"read cursors of both nodes", cursorsOfTheOther},
		{"N-10 two members take sessions from each other", tugOfWar},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			if s.A.LogID() == "" || s.A.LogID() != s.B.LogID() {
				t.Fatalf("the handles are on the logs %q and %q", s.A.LogID(), s.B.LogID())
			}
			c.run(&sharedFixture{
				T: t, list: s.List,
				a: &fixture{T: t, Store: s.A, ctx: t.Context()},
				b: &fixture{T: t, Store: s.B, ctx: t.Context()},
			})
		})
	}
}

type sharedFixture struct {
	*testing.T
	a, b *fixture
	list member.Table
}

// member joins a node.
func (f *sharedFixture) member(name string, lease time.Duration) *node {
	f.Helper()
	return (&membersFixture{T: f.T, ctx: f.Context()}).join(f.list, info(name), lease)
}

// own acquires for a member and wants to be told whose the session was.
func (f *sharedFixture) own(at *fixture, k conversation.SessionKey, by *node, prior conversation.Prior) conversation.Head {
	f.Helper()
	h, err := at.Acquire(at.ctx, k, conversation.AcquireHow{Create: true, Owner: by.who.Member})
	if err != nil {
		f.Fatalf("%s acquires %s: %v", by.who.Member, k, err)
	}
	if h.Prior != prior {
		f.Errorf("%s acquired %s, which was %d's, want %d", by.who.Member, k, h.Prior, prior)
	}
	return h
}

// kept wants that the session stays with its owner.
func (f *sharedFixture) kept(at *fixture, k conversation.SessionKey, by, owner *node) {
	f.Helper()
	_, err := at.Acquire(at.ctx, k, conversation.AcquireHow{Create: true, Owner: by.who.Member})
	if owned := new(conversation.OwnedError); !errors.As(err, &owned) || owned.By != owner.who.Member {
		f.Errorf("%s acquires what %s owns: %v", by.who.Member, owner.who.Member, err)
	}
}

func (f *sharedFixture) release(at *fixture, k conversation.SessionKey, epoch conversation.Epoch) {
	f.Helper()
	end := make(chan error, 1)
	at.Release(at.ctx, k, epoch, func(err error) { end <- err })
	if err := <-end; err != nil {
		f.Fatalf("release %s: %v", k, err)
	}
}

// fenced wants that a writer of before writes nothing more.
func (f *sharedFixture) fenced(at *fixture, k conversation.SessionKey, old conversation.Head) {
	f.Helper()
	f.a.want(at.try(k, &old, 1, nil), conversation.ErrFenced, "commit of a writer of before")
}

func (f *sharedFixture) last(k conversation.SessionKey, want conversation.Seq) {
	f.Helper()
	for name, at := range map[string]*fixture{"a": f.a, "b": f.b} {
		if h := at.head(k); h.Last != want {
			f.Errorf("%s sees the last seq %d, want %d", name, h.Last, want)
		}
	}
}

func fencesTheOther(f *sharedFixture) {
	k := key("s")
	ha := f.a.acquire(k)
	f.a.commit(k, &ha, 2, nil)
	hb := f.b.acquire(k)
	if hb.Epoch <= ha.Epoch || hb.Last != 2 || hb.LastCommit != ha.LastCommit {
		f.Errorf("a is at %+v, and b acquired %+v", ha, hb)
	}
	f.fenced(f.a, k, ha)
	f.b.commit(k, &hb, 1, nil)
	f.fenced(f.a, k, ha)
	stale := hb
	stale.Last--
	f.b.want(f.b.try(k, &stale, 1, nil), conversation.ErrConflict, "commit after another seq")
	f.last(k, 3)
}

func readsOfTheOther(f *sharedFixture) {
	k := key("s")
	h := f.a.acquire(k)
	for n := range 5 {
		f.a.commit(k, &h, n%2+1, func(c *conversation.Commit) { c.Snapshot = fmt.Appendf(nil, "state %d", n) })
		var seqs []conversation.Seq
		for _, r := range collect(f, f.b.Records(f.b.ctx, k, conversation.Range{})) {
			for _, e := range r.Events {
				seqs = append(seqs, e.Seq)
			}
		}
		if len(seqs) != int(h.Last) || seqs[len(seqs)-1] != h.Last {
			f.Fatalf("a has committed up to %d, and b reads %v", h.Last, seqs)
		}
		if got := f.b.head(k); string(got.Snapshot) != fmt.Sprintf("state %d", n) || got.LastCommit != h.LastCommit {
			f.Errorf("b sees the head %+v", got)
		}
	}
}

func ownersKeep(f *sharedFixture) {
	a, b := f.member("a", longLease), f.member("b", longLease)
	k := key("s")
	h := f.own(f.a, k, a, conversation.PriorNone)
	f.kept(f.b, k, b, a)
	f.a.commit(k, &h, 1, nil) // the attempt has changed nothing
	f.kept(f.b, k, b, a)
	again := f.own(f.a, k, a, conversation.PriorSame)
	if again.Epoch <= h.Epoch {
		f.Errorf("epoch %d was acquired again as %d", h.Epoch, again.Epoch)
	}
	f.fenced(f.a, k, h)
	f.a.commit(k, &again, 1, nil)
	f.last(k, 2)
}

func released(f *sharedFixture) {
	a, b := f.member("a", longLease), f.member("b", longLease)
	k := key("s")
	h := f.own(f.a, k, a, conversation.PriorNone)
	f.a.commit(k, &h, 1, nil)
	f.release(f.a, k, h.Epoch)
	hb := f.own(f.b, k, b, conversation.PriorNone)
	f.fenced(f.a, k, h)
	f.b.commit(k, &hb, 1, nil)
	f.kept(f.a, k, a, b)
	f.a.Release(f.a.ctx, key("absent"), 1, nil) // nobody asks how it ended
	f.last(k, 2)
}

func releasedLate(f *sharedFixture) {
	a, b := f.member("a", longLease), f.member("b", longLease)
	k := key("s")
	old := f.own(f.a, k, a, conversation.PriorNone)
	f.release(f.a, k, old.Epoch)
	h := f.own(f.b, k, b, conversation.PriorNone)
	f.release(f.a, k, old.Epoch)
	f.kept(f.a, k, a, b)
	f.b.commit(k, &h, 1, nil)
}

func ownersThatDied(f *sharedFixture) {
	a, b := f.member("a", longLease), f.member("b", longLease)
	mine, other := key("mine"), key("other")
	h1, h2 := f.own(f.a, mine, a, conversation.PriorNone), f.own(f.a, other, a, conversation.PriorNone)
	f.a.commit(mine, &h1, 1, nil)
	again := f.member("a", longLease) // its lease of before had not run out
	f.own(f.a, mine, again, conversation.PriorDead)
	f.own(f.b, other, b, conversation.PriorDead)
	f.fenced(f.a, mine, h1)
	f.fenced(f.a, other, h2)
	f.last(mine, 1)
}

func ownersThatExpired(f *sharedFixture) {
	a, b := f.member("a", shortLease), f.member("b", shortLease)
	k := key("s")
	h := f.own(f.a, k, a, conversation.PriorNone)
	f.a.commit(k, &h, 1, nil)
	b.until("a is dead", func(l member.List) bool { return find(f, l, "a").Dead })
	if _, err := f.a.Find(f.a.ctx, k, nil); err != nil {
		f.Errorf("a reads after its lease is over: %v", err)
	}
	f.a.commit(k, &h, 1, nil) // nobody has taken it
	f.own(f.b, k, b, conversation.PriorExpired)
	f.fenced(f.a, k, h)
	f.last(k, 2)
}

func ownersThatLeft(f *sharedFixture) {
	a, b := f.member("a", longLease), f.member("b", longLease)
	k := key("s")
	h := f.own(f.a, k, a, conversation.PriorNone)
	if err := a.Leave(f.Context(), a.who.Member); err != nil {
		f.Fatal(err)
	}
	f.own(f.b, k, b, conversation.PriorExpired)
	f.fenced(f.a, k, h)
}

func dueByOwner(f *sharedFixture) {
	a, b := f.member("a", longLease), f.member("b", longLease)
	for i, name := range []string{"owned", "free", "later"} {
		k := key(name)
		h := f.own(f.a, k, a, conversation.PriorNone)
		f.a.commit(k, &h, 1, func(c *conversation.Commit) { c.WakeAt = time.Now().Add(time.Duration(i-10) * time.Second) })
		if name == "later" {
			f.a.commit(k, &h, 1, func(c *conversation.Commit) { c.WakeAt = time.Now().Add(time.Hour) })
		}
		if name == "free" {
			f.release(f.a, k, h.Epoch)
		}
	}
	due := func(at *fixture, of *node) (names []string) {
		for _, k := range collect(f, at.Due(at.ctx, time.Now(), of.who.Member)) {
			names = append(names, string(k.Session))
		}
		return names
	}
	if got := due(f.a, a); !slices.Equal(got, []string{"owned", "free"}) {
		f.Errorf("a finds due: %v", got)
	}
	if got := due(f.b, b); !slices.Equal(got, []string{"free"}) {
		f.Errorf("b finds due: %v", got)
	}
	if err := a.Leave(f.Context(), a.who.Member); err != nil {
		f.Fatal(err)
	}
	if got := due(f.b, b); !slices.Equal(got, []string{"owned", "free"}) {
		f.Errorf("after a has left b finds due: %v", got)
	}
}

func keysOfTheOther(f *sharedFixture) {
	k := key("s")
	ha := f.a.acquire(k)
	f.a.commit(k, &ha, 1, func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{part("p1", 0, 1)} })
	hb := f.b.acquire(k)
	if !f.b.MayHold(k, part("p1", 0, 1).Key) {
		f.Error("b says for sure that there is not what a has committed")
	}
	duplicate := func(at *fixture, h conversation.Head, stored conversation.KeyAt) {
		f.Helper()
		again := stored
		again.Seq = h.Last + 1
		err := at.try(k, &h, 1, func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{again} })
		if twice := new(conversation.DuplicateError); !errors.As(err, &twice) || twice.Key != stored.Key || twice.Seq != stored.Seq {
			f.Errorf("commit of a key that the other node has stored: %v", err)
		}
	}
	duplicate(f.b, hb, part("p1", 0, 1))
	f.b.commit(k, &hb, 1, func(c *conversation.Commit) {
		c.Keys = []conversation.KeyAt{part("p2", 3, 2), client(alice, "c2", 2)}
	})
	// It comes back to a, which had it before and knows it only as it was.
	ha = f.a.acquire(k)
	for _, stored := range []conversation.KeyAt{part("p1", 0, 1), part("p2", 3, 2), client(alice, "c2", 2)} {
		if !f.a.MayHold(k, stored.Key) {
			f.Errorf("a says for sure that there is no %s", stored.Key)
		}
		duplicate(f.a, ha, stored)
		for _, at := range []*fixture{f.a, f.b} {
			if got, err := at.Find(at.ctx, k, []conversation.Key{stored.Key}); err != nil || !slices.Equal(got, []conversation.Seq{stored.Seq}) {
				f.Errorf("find %s: %v, %v", stored.Key, got, err)
			}
		}
	}
	f.last(k, 2)
}

func outcomeAtTheOther(f *sharedFixture) {
	k := key("s")
	h := f.a.acquire(k)
	f.a.commit(k, &h, 1, func(c *conversation.Commit) { c.ID = "unseen" })
	// Nobody has it: the same epoch can be acquired, and its last commit is known.
	got, err := f.b.Acquire(f.b.ctx, k, conversation.AcquireHow{IfEpoch: h.Epoch})
	if err != nil || got.LastCommit != "unseen" || got.Last != 1 {
		f.Errorf("b finds %+v, %v", got, err)
	}
	// Somebody has it: whoever asks for the epoch of before is fenced, and writes nothing.
	if _, err := f.a.Acquire(f.a.ctx, k, conversation.AcquireHow{IfEpoch: h.Epoch}); !errors.Is(err, conversation.ErrFenced) {
		f.Errorf("a acquires its epoch again: %v", err)
	}
	f.fenced(f.a, k, h)
	f.b.commit(k, &got, 1, nil)
	f.last(k, 2)
}

func erasedByTheOther(f *sharedFixture) {
	a, b := f.member("a", longLease), f.member("b", longLease)
	k := key("s")
	h := f.own(f.a, k, a, conversation.PriorNone)
	f.a.commit(k, &h, 1, nil)
	if err := f.b.Delete(f.b.ctx, k); err != nil {
		f.Fatal(err)
	}
	err := f.a.try(k, &h, 1, nil)
	if !errors.Is(err, conversation.ErrFenced) && !errors.Is(err, conversation.ErrNotFound) {
		f.Errorf("a commits to what b has erased: %v", err)
	}
	for _, at := range []*fixture{f.a, f.b} {
		if erased, err := at.Erased(at.ctx, k); err != nil || !erased {
			f.Errorf("the session is erased: %v, %v", erased, err)
		}
		_, err := at.Acquire(at.ctx, k, conversation.AcquireHow{Create: true, Owner: b.who.Member})
		at.want(err, conversation.ErrNotFound, "acquire of an erased session")
	}
}

// listsOfTheOther lets a store be late with the order of its lists, but not for good.
func listsOfTheOther(f *sharedFixture) {
	heads := map[string]*conversation.Head{}
	for i, name := range []string{"first", "second", "third"} {
		h := f.a.acquire(key(name))
		f.a.commit(key(name), &h, 1, func(c *conversation.Commit) { c.Summary = summary(noon.Add(time.Duration(i) * 10 * time.Second)) })
		heads[name] = &h
	}
	f.a.commit(key("first"), heads["first"], 1, func(c *conversation.Commit) { c.Summary = summary(noon.Add(100 * time.Second)) })
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var got []string
		for _, s := range collect(f, f.b.Sessions(f.b.ctx, conversation.Page{Tenant: tenant})) {
			got = append(got, string(s.Key.Session))
		}
		if slices.Equal(got, []string{"first", "third", "second"}) {
			return
		}
		select {
		case <-tick.C:
		case <-f.Context().Done():
			f.Fatalf("b lists %v", got)
		}
	}
}

func cursorsOfTheOther(f *sharedFixture) {
	k := key("s")
	h := f.a.acquire(k)
	f.a.commit(k, &h, 3, func(c *conversation.Commit) { c.Cursors = []conversation.Cursor{{User: alice, Seq: 2}} })
	h = f.b.acquire(k)
	f.b.commit(k, &h, 0, func(c *conversation.Commit) {
		c.Cursors = []conversation.Cursor{{User: alice, Seq: 1}, {User: bob, Seq: 3}}
	})
	for user, want := range map[conversation.UserID]conversation.Seq{alice: 2, bob: 3} {
		for _, at := range []*fixture{f.a, f.b} {
			if got := collect(f, at.Sessions(at.ctx, conversation.Page{Tenant: tenant, For: user})); len(got) != 1 || got[0].Seen != want {
				f.Errorf("%s has read up to %d: %+v", user, want, got)
			}
		}
	}
}

// tugOfWar: members that acquire, commit and release as they like. What was acknowledged
// is there, once, in order; what is there was acknowledged or its outcome was unknown.
func tugOfWar(f *sharedFixture) {
	const sessions, workers, turns = 3, 4, 12
	a, b := f.member("a", longLease), f.member("b", longLease)
	type written struct {
		key conversation.SessionKey
		id  conversation.CommitID
	}
	var mu sync.Mutex
	acked := map[written]int{}
	var all sync.WaitGroup
	for w := range workers {
		at, who := f.a, a
		if w%2 == 1 {
			at, who = f.b, b
		}
		all.Go(func() {
			for turn := range turns {
				k := key(fmt.Sprintf("s%d", (w+turn)%sessions))
				h, err := at.Acquire(f.Context(), k, conversation.AcquireHow{Create: true, Owner: who.who.Member})
				if errors.As(err, new(*conversation.OwnedError)) {
					continue
				}
				if err != nil {
					f.Errorf("acquire %s: %v", k, err)
					return
				}
				for n := range 3 {
					id := conversation.CommitID(fmt.Sprintf("w%d-t%d-%d", w, turn, n))
					err := at.try(k, &h, 1, func(c *conversation.Commit) { c.ID = id })
					if errors.Is(err, conversation.ErrFenced) {
						break // another worker of the same member
					}
					if err != nil {
						f.Errorf("commit to %s: %v", k, err)
						return
					}
					mu.Lock()
					acked[written{k, id}]++
					mu.Unlock()
				}
				at.Release(context.WithoutCancel(f.Context()), k, h.Epoch, nil)
			}
		})
	}
	all.Wait()
	for i := range sessions {
		k := key(fmt.Sprintf("s%d", i))
		next := conversation.Seq(1)
		for _, r := range collect(f, f.a.Records(f.a.ctx, k, conversation.Range{})) {
			if acked[written{k, r.ID}] != 1 || r.Events[0].Seq != next {
				f.Errorf("%s holds commit %s at seq %d, which was acknowledged %d times; the next seq is %d",
					k, r.ID, r.Events[0].Seq, acked[written{k, r.ID}], next)
			}
			delete(acked, written{k, r.ID})
			next++
		}
		f.last(k, next-1)
	}
	for w := range acked {
		f.Errorf("commit %s to %s was acknowledged and is not there", w.id, w.key)
	}
}
