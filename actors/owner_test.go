package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/actorstest"
	"parley/actors/internal/handover"
	"parley/actors/placement"
	"parley/conversation"
	"parley/conversation/member"
	"parley/persistence/persistencetest"
)

const testLease = 5 * time.Second

// place says that all sessions are of one member, for one node that asks.
type place struct {
	mu   sync.Mutex
	self conversation.NodeID
	all  *map[conversation.NodeID]conversation.Member
	at   *conversation.NodeID
}

func (p *place) Local(conversation.SessionKey) (conversation.Member, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return (*p.all)[*p.at], *p.at == p.self
}

// nodes are engines that share one store, as members of its list, in one bubble.
type nodes struct {
	t       *testing.T
	store   *persistencetest.Memory
	members map[conversation.NodeID]conversation.Member
	at      conversation.NodeID // where sessions belong
	each    map[conversation.NodeID]*harness
	places  []*place
	silent  map[conversation.NodeID]bool // their leases are not renewed
	handed  []conversation.SessionKey
	mu      sync.Mutex
}

// withNodes runs f with engines n1 and n2; sessions belong to n1.
func withNodes(t *testing.T, change func(*harness), f func(t *testing.T, c *nodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &nodes{t: t, store: persistencetest.NewMemory(), at: "n1", members: map[conversation.NodeID]conversation.Member{}, each: map[conversation.NodeID]*harness{}, silent: map[conversation.NodeID]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		for _, name := range []conversation.NodeID{"n1", "n2"} {
			c.start(ctx, name, change)
		}
		defer func() {
			cancel()
			for _, h := range c.each {
				h.stop()
			}
		}()
		f(t, c)
	})
}

// start starts a node; one of its name that was there before has died.
func (c *nodes) start(ctx context.Context, name conversation.NodeID, change func(*harness)) {
	me, err := c.store.Join(ctx, member.Info{Member: conversation.Member{Node: name}, Sessions: true}, testLease)
	if err != nil {
		c.t.Fatal(err)
	}
	h := &harness{t: c.t, cfg: testConfig(), store: c.store, journal: &actorstest.Journal{}}
	h.cfg.Node, h.cfg.Member = name, me
	h.pub = &actorstest.Publisher{Journal: h.journal, Log: h.logged}
	h.model = &actorstest.Model{Name: "fake", Journal: h.journal}
	p := &place{self: name, all: &c.members, at: &c.at}
	h.place = p
	h.handed = func(key conversation.SessionKey) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.handed = append(c.handed, key)
	}
	if change != nil {
		change(h)
	}
	c.move(func() { c.members[name] = me })
	c.places = append(c.places, p)
	c.each[name] = h
	h.start()
	go func() { // the node's own loop
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(testLease / 5):
			}
			c.mu.Lock()
			silent := c.silent[name]
			c.mu.Unlock()
			if silent {
				return
			}
			if _, err := c.store.Renew(ctx, member.Info{Member: me, Sessions: true}); err != nil {
				return
			}
		}
	}()
}

// move changes where sessions belong, for all nodes in one moment.
func (c *nodes) move(change func()) {
	for _, p := range c.places {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	change()
}

// elsewhere wants a refusal that names the owner.
func (c *nodes) elsewhere(h *harness, a *answer, owner conversation.NodeID) {
	c.t.Helper()
	refused := h.refused(a, conversation.Unavailable)
	var where *placement.ElsewhereError
	if !errors.As(refused, &where) || where.At.Node != owner || !refused.Retryable() {
		c.t.Fatalf("refused with %v, not because the session is %s's", refused, owner)
	}
}

// Two engines on one store, and nothing fails: a task whose model calls take longer than
// the scan for due work is run once, by its owner. Without owners each engine took the
// session from the other, until the task ended in ERROR.
func TestTwoEngines(t *testing.T) {
	withNodes(t, nil, func(t *testing.T, c *nodes) {
		one, two := c.each["n1"], c.each["n2"]
		one.create(mainKey)
		one.ok(one.tell(mainKey, say("m1", "a long question")))
		for range 8 { // less than model.hard_timeout
			time.Sleep(45 * time.Second)
			one.call().Delta(0, "on ")
		}
		one.reply(actorstest.Text("the answer"))
		if calls := len(one.model.Calls()) + len(two.model.Calls()); calls != 1 {
			t.Errorf("the model was asked %d times", calls)
		}
		v := one.view(mainKey)
		if len(v.Tasks) != 0 || one.count(mainKey, conversation.KindResponse) != 1 {
			t.Errorf("%+v, %v", v.Tasks, kinds(one.stored(mainKey)))
		}
		if two.active(mainKey) {
			t.Error("the other engine has loaded it")
		}
	})
}

// What a node is told of a session that is not its own, it refuses, and says whose it is: by
// the placement, and by the store if that knows better.
func TestElsewhere(t *testing.T) {
	withNodes(t, nil, func(t *testing.T, c *nodes) {
		one, two := c.each["n1"], c.each["n2"]
		one.create(mainKey)
		c.elsewhere(two, two.tell(mainKey, say("m1", "hello")), "n1")
		c.move(func() { c.at = "n2" }) // n1 has it in memory
		c.elsewhere(two, two.tell(mainKey, say("m1", "hello")), "n1")
		one.ok(one.tell(mainKey, say("m1", "hello"))) // and serves it
		if err := two.e.Erase(t.Context(), mainKey, ada); err == nil || one.count(mainKey, conversation.KindSessionCreated) != 1 {
			t.Errorf("erased beside its owner: %v", err)
		}
	})
}

// A hand-over: an idle session leaves at once, one that works when its call has ended, or when
// the time for that is over. The new owner takes it without waiting for a lease, and nothing
// of it counts as a failure.
func TestHandOver(t *testing.T) {
	for _, x := range []struct {
		name     string
		before   func(one *harness)
		during   func(one *harness)
		attempts int
		told     bool // the new owner is told that there is work
	}{
		{"idle", nil, nil, 0, false},
		{"its call ends", func(one *harness) { one.ok(one.tell(mainKey, say("m1", "hello"))) },
			func(one *harness) { one.reply(actorstest.Text("hello")) }, 1, false},
		{"its call does not end", func(one *harness) { one.ok(one.tell(mainKey, say("m1", "hello"))) },
			func(*harness) { time.Sleep(11 * time.Second) }, 2, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			withNodes(t, nil, func(t *testing.T, c *nodes) {
				one, two := c.each["n1"], c.each["n2"]
				one.create(mainKey)
				if x.before != nil {
					x.before(one)
				}
				c.move(func() { c.at = "n2" })
				ended := make(chan error, 1)
				go func() { ended <- one.e.HandOver(t.Context()) }()
				synctest.Wait()
				if x.during != nil {
					if !one.active(mainKey) {
						t.Error("it left in the middle of its work")
					}
					x.during(one)
				}
				if err := <-ended; err != nil || one.active(mainKey) {
					t.Fatalf("%v, still in memory: %v", err, one.active(mainKey))
				}
				c.elsewhere(one, one.tell(mainKey, say("m2", "and now")), "n2")
				two.ok(two.tell(mainKey, say("m2", "and now")))
				if x.told != slices.Contains(c.handed, mainKey) {
					t.Errorf("told: %v", c.handed)
				}
				for range 5 {
					synctest.Wait()
					for _, call := range two.model.Open() {
						call.Answer(actorstest.Text("done"))
					}
					time.Sleep(time.Second)
				}
				v := two.view(mainKey)
				if len(v.Tasks) != 0 {
					t.Errorf("open: %+v", v.Tasks)
				}
				for _, e := range two.stored(mainKey) {
					switch b := e.Body.(type) {
					case conversation.TaskStatusChanged:
						if b.New == conversation.TaskError {
							t.Error("a task ended in ERROR")
						}
					case conversation.StepStarted:
						if b.Cause != 0 && b.Cause != conversation.CauseDrain {
							t.Errorf("an attempt for the cause %v", b.Cause)
						}
					}
				}
			})
		})
	}
}

// The sessions of a node that says nothing more are another's when its lease is over, and not
// before. Its process may live: that is a move. If the node has started again, its
// process has died: that is an interruption.
func TestTakeover(t *testing.T) {
	for _, x := range []struct {
		name    string
		restart bool
		cause   conversation.Cause
	}{
		{"its lease ran out", false, conversation.CauseMoved},
		{"its node has started again", true, conversation.CauseInterrupted},
	} {
		t.Run(x.name, func(t *testing.T) {
			withNodes(t, nil, func(t *testing.T, c *nodes) {
				one, two := c.each["n1"], c.each["n2"]
				one.create(mainKey)
				one.ok(one.tell(mainKey, say("m1", "a long question")))
				call := one.call()
				c.mu.Lock()
				c.silent["n1"] = true
				c.mu.Unlock()
				c.move(func() { c.at = "n2" })
				c.elsewhere(two, two.tell(mainKey, say("m2", "still there?")), "n1")
				if x.restart {
					if _, err := c.store.Join(t.Context(), member.Info{Member: conversation.Member{Node: "n1"}}, testLease); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(testLease + time.Second)
				}
				two.e.ScanNow()
				synctest.Wait()
				time.Sleep(5 * time.Second) // a pause before the attempt after a move
				if n := len(two.model.Open()); n != 1 {
					t.Fatalf("%d calls of the new owner", n)
				}
				call.Answer(actorstest.Text("too late")) // of the one who does not know
				synctest.Wait()
				two.reply(actorstest.Text("in time"))
				var cause conversation.Cause
				var texts []string
				for _, e := range two.stored(mainKey) {
					switch b := e.Body.(type) {
					case conversation.StepStarted:
						cause = max(cause, b.Cause)
					case conversation.Response:
						texts = append(texts, b.Text)
					}
				}
				if cause != x.cause || fmt.Sprint(texts) != "[in time]" {
					t.Errorf("cause %v, said %q", cause, texts)
				}
				for _, e := range one.pub.Events(mainKey) {
					if r, ok := e.Body.(conversation.Response); ok {
						t.Errorf("the old owner has shown %q", r.Text)
					}
				}
			})
		})
	}
}

// What this engine once lost to a node whose process has died since was interrupted by that
// death: that it was lost here, too, before, says nothing about its last owner.
func TestLostBeforeItsOwnerDied(t *testing.T) {
	withNodes(t, nil, func(t *testing.T, c *nodes) {
		one, two := c.each["n1"], c.each["n2"]
		one.create(mainKey)
		one.ok(one.tell(mainKey, say("m1", "a long question")))
		call := one.call()
		c.mu.Lock()
		c.silent["n1"] = true
		c.mu.Unlock()
		c.move(func() { c.at = "n2" })
		time.Sleep(testLease + time.Second)
		two.e.ScanNow()
		synctest.Wait()
		call.Answer(actorstest.Use("c1", "no_such_tool", "{}")) // n1 learns that it has lost the session
		time.Sleep(10 * time.Second)                            // a pause before the attempt after a move
		if n := len(two.model.Open()); n != 1 || one.active(mainKey) {
			t.Fatalf("%d calls of the new owner, in memory of the old one: %v", n, one.active(mainKey))
		}
		// The lease of n1 holds again, and the process of n2 dies.
		if _, err := c.store.Renew(t.Context(), member.Info{Member: c.members["n1"], Sessions: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.store.Join(t.Context(), member.Info{Member: conversation.Member{Node: "n2"}}, testLease); err != nil {
			t.Fatal(err)
		}
		c.move(func() { c.at = "n1" })
		one.e.ScanNow()
		synctest.Wait()
		var last conversation.StepStarted
		for range 10 {
			time.Sleep(time.Second)
			for _, e := range one.stored(mainKey) {
				if b, ok := e.Body.(conversation.StepStarted); ok {
					last = b
				}
			}
		}
		if last.Cause != conversation.CauseInterrupted {
			t.Errorf("attempt %d has the cause %v", last.Attempt, last.Cause)
		}
		one.reply(actorstest.Text("in time"))
	})
}

// The commit of an answer that would have ended its task fails again and again, as while the
// store comes and goes. No process has ended, so the task must not end in ERROR for it.
func TestAnswersThatCannotBeStored(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("m1", "hello")))
		h.store.FailCommit(func(_ int, _ conversation.SessionKey, c conversation.Commit) (error, bool) {
			if slices.ContainsFunc(c.Events, func(e conversation.Event) bool { _, is := e.Body.(conversation.Response); return is }) {
				return conversation.ErrFenced, false
			}
			return nil, false
		})
		for range 7 { // retry.max_interrupted is 5
			for _, call := range h.model.Open() {
				call.Answer(actorstest.Text("lost"))
			}
			synctest.Wait()
			h.e.ScanNow()
			time.Sleep(time.Minute) // a pause before the attempt after a move
		}
		h.store.FailCommit(nil)
		for _, e := range h.stored(mainKey) {
			switch b := e.Body.(type) {
			case conversation.StepStarted:
				if b.Cause == conversation.CauseInterrupted {
					t.Errorf("attempt %d for the cause %v", b.Attempt, b.Cause)
				}
			case conversation.TaskStatusChanged:
				if b.New == conversation.TaskError {
					t.Error("the task ended in ERROR")
				}
			}
		}
		h.reply(actorstest.Text("hello"))
		h.assertComplete(mainKey)
	})
}

// A task whose answer could not be stored goes on after a pause, which grows while that lasts, and
// does not wait for the next scan for due work: what was decided was its end, but what is stored
// is that it runs.
func TestAnswerThatCouldNotBeStoredIsRetriedSoon(t *testing.T) {
	store := &sick{ill: map[conversation.SessionKey]bool{}, tries: map[conversation.SessionKey]int{}}
	withHarness(t, func(h *harness) {
		store.Store, h.through = h.store, store
		h.cfg.DueEvery = time.Hour // no scan helps
		h.cfg.Rules.Policy.MaxMoved = 1000
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("m1", "hello")))
		var stored atomic.Bool
		h.store.FailCommit(func(_ int, _ conversation.SessionKey, c conversation.Commit) (error, bool) {
			if !stored.Load() && slices.ContainsFunc(c.Events, func(e conversation.Event) bool { _, is := e.Body.(conversation.Response); return is }) {
				return conversation.ErrConflict, false
			}
			return nil, false
		})
		loads := func() (n int) { store.set(func() { n = store.tries[mainKey] }); return n }
		before := loads()
		h.reply(actorstest.Text("lost"))
		time.Sleep(10 * time.Second)
		if n := loads() - before; n != 1 {
			t.Fatalf("loaded %d times within ten seconds", n)
		}
		before = loads()
		const minutes = 30
		for range minutes * 60 {
			synctest.Wait()
			for _, call := range h.model.Open() {
				call.Answer(actorstest.Text("lost"))
			}
			time.Sleep(time.Second)
		}
		if n := loads() - before; n < minutes/2 || n > minutes*60/int(maxLostPause/time.Second)+5 {
			t.Errorf("loaded %d times in %d minutes in which it failed", n, minutes)
		}
		stored.Store(true)
		time.Sleep(5 * time.Minute)
		h.reply(actorstest.Text("hello"))
		h.assertComplete(mainKey)
	})
}

// A suspended engine starts nothing and refuses what comes; what runs goes on, and what it has
// led to is done when the engine runs again.
func TestSuspend(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("m1", "use a tool")))
		call := h.call()
		h.e.Suspend()
		h.refused(h.tell(mainKey, say("m2", "more")), conversation.Unavailable)
		if h.e.Ready() == nil {
			t.Error("ready")
		}
		call.Answer(actorstest.Use("c1", "no_such_tool", "{}"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(h.model.Calls()); n != 1 {
			t.Errorf("%d model calls while suspended", n)
		}
		h.e.Resume()
		if h.e.Ready() != nil {
			t.Error(h.e.Ready())
		}
		h.ok(h.tell(mainKey, say("m2", "more")))
		h.reply(actorstest.Text("done"))
		if n := len(h.model.Calls()); n < 2 {
			t.Errorf("%d model calls at the end", n)
		}
		if v := h.view(mainKey); len(v.Tasks) != 0 && len(h.model.Open()) == 0 {
			t.Errorf("nothing goes on: %+v", v.Tasks)
		}
	})
}

// A session that was erased by another node is not there any more: its owner's next commit is
// refused by its fence, and what waits for it hears not_found.
func TestErasedElsewhere(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("m1", "hello")))
		if err := h.store.Delete(t.Context(), mainKey); err != nil {
			t.Fatal(err)
		}
		h.refused(h.tell(mainKey, say("m2", "hello again")), conversation.NotFound)
	})
}

// A session that is served here although it belongs elsewhere by now has its delegations
// here, too: they live with their root.
func TestDelegationBesideItsRoot(t *testing.T) {
	withNodes(t, nil, func(t *testing.T, c *nodes) {
		one := c.each["n1"]
		one.create(mainKey)
		one.ok(one.tell(mainKey, say("a", "find out")))
		c.move(func() { c.at = "n2" }) // nobody has told n1 to hand over
		one.reply(actorstest.Use("x", conversation.ToolDelegate, `{"agent":"researcher","objective":"look it up"}`))
		if call := one.call(); call.Request.Session != sub.Session {
			t.Fatalf("asked %s of %s", call.Request.Agent, call.Request.Session)
		}
		one.reply(actorstest.Text("it is 42"))
		if f := one.ended(mainKey); f.Status != conversation.CallOK || f.Summary != "it is 42" {
			t.Errorf("%+v", f)
		}
	})
}

// A member that knows less than this program: what it could not read is not written, and the
// session is as it was before.
func TestOlderMember(t *testing.T) {
	var level atomic.Uint32
	level.Store(uint32(member.Newest))
	withHarness(t, func(h *harness) {
		h.feature = func() member.Feature { return member.Feature(level.Load()) }
	}, func(t *testing.T, h *harness) {
		h.create(mainKey)
		level.Store(uint32(member.Newest) - 1)
		h.refused(h.tell(mainKey, say("m1", "hello")), conversation.Unavailable)
		if got := kinds(h.stored(mainKey)); len(got) != 1 {
			t.Errorf("stored: %v", got)
		}
		level.Store(uint32(member.Newest))
		h.ok(h.tell(mainKey, say("m1", "hello")))
		h.reply(actorstest.Text("hello"))
	})
}

// A session that has to move while the node has been handing over others for a long time has its
// own time to come to the end of its call.
func TestHandOverOfALaterSession(t *testing.T) {
	withNodes(t, nil, func(t *testing.T, c *nodes) {
		one := c.each["n1"]
		other := conversation.SessionKey{Tenant: "acme", Session: "bbbbbbbbbbbbbbbb"}
		one.create(mainKey)
		one.ok(one.tell(mainKey, say("m1", "a question whose answer takes long")))
		c.move(func() { c.at = "n2" })
		ended := make(chan error, 1)
		go func() { ended <- one.e.HandOver(t.Context()) }()
		time.Sleep(one.cfg.DrainTimeout - time.Second + handover.Look/2) // between two looks
		c.move(func() { c.at = "n1" })                                   // as the ring says for a moment
		one.create(other)
		one.ok(one.tell(other, say("m1", "hello")))
		c.move(func() { c.at = "n2" })
		time.Sleep(3 * time.Second)
		if one.active(mainKey) || !one.active(other) {
			t.Fatalf("in memory: the first %v, the later one %v", one.active(mainKey), one.active(other))
		}
		one.reply(actorstest.Text("hello"))
		if err := <-ended; err != nil || one.active(other) {
			t.Errorf("%v, in memory: %v", err, one.active(other))
		}
		if n := one.count(other, conversation.KindResponse); n != 1 {
			t.Errorf("its call was stopped: %v", kinds(one.stored(other)))
		}
	})
}

// What is put into a session as a snapshot is of use to all members, or is not put there.
func TestNoSnapshotForAnOlderMember(t *testing.T) {
	var level atomic.Uint32
	level.Store(uint32(member.Newest))
	withHarness(t, func(h *harness) {
		h.cfg.SnapshotEvery, h.cfg.SnapshotOnIdle = 1000, 5
		h.model.Auto = func(conversation.Request) []conversation.Item { return []conversation.Item{actorstest.Text("ok")} }
		h.feature = func() member.Feature { return member.Feature(level.Load()) }
	}, func(t *testing.T, h *harness) {
		idle := func() conversation.Head {
			t.Helper()
			time.Sleep(h.cfg.Idle)
			synctest.Wait()
			if h.active(mainKey) {
				t.Fatal("the session is in memory")
			}
			head, err := h.store.Head(t.Context(), mainKey)
			if err != nil {
				t.Fatal(err)
			}
			return head
		}
		h.create(mainKey)
		h.ok(h.tell(mainKey, say("a", "hello")))
		level.Store(0)
		if head := idle(); head.Snapshot != nil {
			t.Errorf("there is a snapshot at %d that a member could not use", head.SnapshotAt)
		}
		level.Store(uint32(member.Newest))
		h.ok(h.tell(mainKey, say("b", "hello")))
		if head := idle(); head.SnapshotAt != head.Last {
			t.Errorf("the snapshot is at %d of %d", head.SnapshotAt, head.Last)
		}
	})
}

// told counts what a session is told of a hand-over.
type told struct {
	session
	n *atomic.Int64
}

func (s *told) Receive(ctx actor.Context) {
	if _, is := ctx.Message().(*drain); is {
		s.n.Add(1)
	}
	s.session.Receive(ctx)
}

// A session that works is told once that it is to move, and again when its time is over, however
// often HandOver looks: of a hundred thousand each look would cost a second.
func TestHandOverTellsOnce(t *testing.T) {
	withNodes(t, nil, func(t *testing.T, c *nodes) {
		one := c.each["n1"]
		var n atomic.Int64
		one.e.props = actor.PropsFromProducer(func() actor.Actor { return &told{session: session{e: one.e}, n: &n} }, actor.WithDispatcher(one.e.workers))
		one.create(mainKey)
		one.ok(one.tell(mainKey, say("m1", "a long question")))
		c.move(func() { c.at = "n2" })
		ended := make(chan error, 1)
		go func() { ended <- one.e.HandOver(t.Context()) }()
		time.Sleep(one.cfg.DrainTimeout - time.Second)
		if got := n.Load(); got != 1 {
			t.Errorf("told %d times", got)
		}
		if err := <-ended; err != nil || n.Load() > 3 {
			t.Errorf("%v, told %d times in all", err, n.Load())
		}
	})
}

// count of the sessions that a node has taken from the store.
type loads struct {
	conversation.Store
	n atomic.Int64
}

func (l *loads) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	head, err := l.Store.Acquire(ctx, key, how)
	if err == nil {
		l.n.Add(1)
	}
	return head, err
}

// What comes late to the node that has given a session up, because its store said a moment before
// that the session was there, does not bring the session back to it: it would have to be given up
// again, and its owner would have to wait meanwhile.
func TestGivenUpForGood(t *testing.T) {
	taken := map[conversation.NodeID]*loads{}
	withNodes(t, func(h *harness) {
		l := &loads{Store: h.store}
		taken[h.cfg.Node], h.through = l, l
	}, func(t *testing.T, c *nodes) {
		one, two := c.each["n1"], c.each["n2"]
		one.create(mainKey)
		c.move(func() { c.at = "n2" })
		if err := one.e.HandOver(t.Context()); err != nil {
			t.Fatal(err)
		}
		asOwner := func(h *harness, c conversation.Command) *answer {
			a := &answer{}
			h.e.AsOwner(mainKey, ada, c, func(r conversation.Receipt, err error) {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.times, a.receipt, a.err = a.times+1, r, err
			})
			return a
		}
		c.elsewhere(one, asOwner(one, say("m1", "hello")), "n2")
		if one.active(mainKey) {
			t.Error("it is in the memory of the node that has given it up")
		}
		two.ok(two.tell(mainKey, say("m1", "hello")))
		for i := range 20 {
			id := fmt.Sprint("m", 2+i)
			c.elsewhere(one, asOwner(one, say(id, "more")), "n2")
			two.ok(two.tell(mainKey, say(id, "more")))
		}
		if n := taken["n2"].n.Load(); n != 1 {
			t.Errorf("its owner has loaded it %d times", n)
		}
		if n := taken["n1"].n.Load(); n > 2 { // it was made there, and looked at once
			t.Errorf("the node of before has taken it %d times", n)
		}
	})
}

// unreachableOwner is a store that can be away, also for those who release a session.
type unreachableOwner struct{ counting }

func (u *unreachableOwner) Release(ctx context.Context, key conversation.SessionKey, epoch conversation.Epoch, done func(error)) {
	u.mu.Lock()
	away := u.away
	u.mu.Unlock()
	if away {
		done(errLine)
		return
	}
	u.Store.Release(ctx, key, epoch, done)
}

// A commit whose outcome stayed unknown, of a session that belongs elsewhere by now and could not be
// released: the store says that it is here still, and nobody else can tell followers what is stored.
// It is woken where it was, and leaves from there.
func TestUnclearCommitOfASessionThatBelongsElsewhere(t *testing.T) {
	stores := map[conversation.NodeID]*unreachableOwner{}
	withNodes(t, func(h *harness) {
		s := &unreachableOwner{counting{Store: h.store}}
		stores[h.cfg.Node], h.through = s, s
	}, func(t *testing.T, c *nodes) {
		one, two := c.each["n1"], c.each["n2"]
		one.createAs(mainKey, conversation.Create{Owner: ada, Agent: conversation.External})
		c.move(func() { c.at = "n2" })
		c.store.FailCommit(func(int, conversation.SessionKey, conversation.Commit) (error, bool) { return errLine, true })
		stores["n1"].leave(true, false)
		one.tell(mainKey, say("m1", "hello"))
		time.Sleep(one.cfg.SettleTimeout + time.Second)
		c.store.FailCommit(nil)
		stores["n1"].leave(false, false)
		time.Sleep(10 * time.Second) // no scan for due work would find it
		synctest.Wait()
		one.assertComplete(mainKey)
		if n := one.count(mainKey, conversation.KindMessageAccepted); n != 1 {
			t.Errorf("%d messages are stored", n)
		}
		if err := one.e.HandOver(t.Context()); err != nil {
			t.Fatal(err)
		}
		two.ok(two.tell(mainKey, say("m2", "hello again")))
	})
}
