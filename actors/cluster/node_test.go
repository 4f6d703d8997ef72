package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors"
	"parley/actors/actorstest"
	"parley/actors/cluster"
	"parley/conversation"
	"parley/conversation/living"
	"parley/conversation/member"
	"parley/conversation/policy"
	"parley/gateway/fanout"
	"parley/gateway/list"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

// clustered is a node with its engine, in this process.
type clustered struct {
	*cluster.Node
	engine   *actors.Engine
	sessions cluster.Service
	shown    *actorstest.Publisher
	hub      *fanout.Hub
	lists    *list.Board
	stop     func(t testing.TB)
	ended    chan error
}

// board is who watches lists on a node.
type board struct{ *list.Board }

func (b board) Changed(key conversation.SessionKey, everyone bool, users []conversation.UserID) {
	b.Board.Changed(list.Touched{Key: key, Everyone: everyone, Users: users})
}

func (b board) Again(ctx context.Context) error { return b.AllAgain(ctx) }

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts a node on a store that others may share.
func start(t testing.TB, store *persistencetest.Memory, name string, change func(*cluster.Options)) *clustered {
	t.Helper()
	return startOn(t, store, store, name, change, nil)
}

// startLogged starts a node whose log somebody reads.
func startLogged(t testing.TB, store *persistencetest.Memory, name string, log *slog.Logger, change func(*cluster.Options)) *clustered {
	t.Helper()
	return startWith(t, store, name, parts{log: log}, change)
}

// startOn starts a node whose engine sees a store of its own making.
func startOn(t testing.TB, store *persistencetest.Memory, through conversation.Store, name string, change func(*cluster.Options), tune func(*actors.Config)) *clustered {
	t.Helper()
	return startWith(t, store, name, parts{through: through, tune: tune}, change)
}

// parts are what a node of a test may have instead of the usual.
type parts struct {
	table   member.Table       // its list of members; nil = the store's
	through conversation.Store // what its engine sees; nil = the store
	log     *slog.Logger       // nil = none
	tune    func(*actors.Config)
	equip   func(*actors.Deps)
	shows   func(both) conversation.Publisher // what is shown goes through this; nil = to both at once
}

func startWith(t testing.TB, store *persistencetest.Memory, name string, p parts, change func(*cluster.Options)) *clustered {
	t.Helper()
	if p.table == nil {
		p.table = store
	}
	if p.through == nil {
		p.through = store
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	o := cluster.Options{Name: "test", Node: conversation.NodeID(name), Listen: freePort(t), Lease: 5 * time.Second, Version: "test"}
	if change != nil {
		change(&o)
	}
	registry := prometheus.NewRegistry()
	node, err := cluster.Join(t.Context(), o, cluster.Deps{Table: p.table, Singletons: store, Metrics: metrics.NewCluster(registry), Logger: p.log})
	if err != nil {
		t.Fatal(err)
	}
	n := &clustered{Node: node, shown: &actorstest.Publisher{}, hub: fanout.NewHub(nil), ended: make(chan error, 1)}
	cfg := actors.DefaultConfig()
	cfg.Node, cfg.Member = node.Member().Node, node.Member()
	cfg.Rules = policy.Rules{Policy: policy.DefaultPolicy(), Agents: map[conversation.AgentName]policy.Profile{
		conversation.External: {Name: conversation.External},
	}}
	if p.tune != nil {
		p.tune(&cfg)
	}
	var shows conversation.Publisher = both{n.hub, n.shown}
	if p.shows != nil {
		shows = p.shows(both{n.hub, n.shown})
	}
	n.lists = list.New(store, nil, nil)
	changed := node.Lists(board{n.lists})
	deps := actors.Deps{
		Store:     list.Store(p.through, func(t list.Touched) { changed(t.Key, t.Everyone, t.Users) }),
		Publisher: node.Publisher(shows), Metrics: metrics.NewActors(registry),
		Placement: node.Placement(), HandedOver: node.HandedOver, HandOut: node.HandOut, Offered: node.Offered, Holds: node.Holds,
	}
	if p.equip != nil {
		p.equip(&deps)
	}
	n.engine, err = actors.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	n.hub.SetUpstream(node.Upstream())
	n.sessions = node.Sessions(n.engine)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var work sync.WaitGroup
	work.Go(func() { _ = n.engine.Run(ctx) })
	work.Go(func() { n.ended <- n.Run(ctx) })
	<-n.engine.Started()
	var once sync.Once
	n.stop = func(t testing.TB) {
		once.Do(func() {
			cancel()
			work.Wait()
			if err := n.Leave(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { n.stop(t) })
	return n
}

func key(n int) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%015d", n))}
}

func (n *clustered) create(key conversation.SessionKey) (bool, error) {
	type result struct {
		created bool
		err     error
	}
	got := make(chan result, 1)
	n.sessions.Create(key, conversation.Create{Owner: "ada", Agent: conversation.External}, func(_ conversation.SessionKey, created bool, err error) {
		got <- result{created, err}
	})
	r := <-got
	return r.created, r.err
}

func (n *clustered) say(key conversation.SessionKey, id, text string) (conversation.Receipt, error) {
	type result struct {
		conversation.Receipt
		error
	}
	got := make(chan result, 1)
	n.sessions.Tell(key, "ada", conversation.Say{Author: "ada", ClientMsgID: conversation.ClientMsgID(id), Text: text}, func(r conversation.Receipt, err error) {
		got <- result{r, err}
	})
	r := <-got
	return r.Receipt, r.error
}

func (n *clustered) view(key conversation.SessionKey) (conversation.View, error) {
	type result struct {
		conversation.View
		error
	}
	got := make(chan result, 1)
	n.sessions.View(key, "ada", func(v conversation.View, err error) { got <- result{v, err} })
	r := <-got
	return r.View, r.error
}

// Any node takes what is said to any session: it is done where the session lives, once, and
// what another node has acknowledged is seen from everywhere.
func TestAnyNodeServesAnySession(t *testing.T) {
	store := persistencetest.NewMemory()
	a, b := start(t, store, "a", nil), start(t, store, "b", nil)
	c := start(t, store, "c", func(o *cluster.Options) { o.GatewayOnly = true })
	nodes := []*clustered{a, b, c}
	for i := range 30 {
		k := key(i)
		if created, err := nodes[i%3].create(k); err != nil || !created {
			t.Fatal(created, err)
		}
		if created, err := nodes[(i+1)%3].create(k); err != nil || created {
			t.Fatal("a second time:", created, err)
		}
		for j, n := range nodes {
			r, err := n.say(k, fmt.Sprint("m", j), fmt.Sprint("hello ", j))
			if err != nil || r.Duplicate {
				t.Fatal(r, err)
			}
			again, err := nodes[(j+1)%3].say(k, fmt.Sprint("m", j), fmt.Sprint("hello ", j))
			if err != nil || !again.Duplicate || again.Message != r.Message {
				t.Fatalf("the repetition by another node: %+v, %v; first %+v", again, err, r)
			}
			if v, err := nodes[(j+2)%3].view(k); err != nil || v.Head < r.Seq {
				t.Fatalf("head %d after seq %d: %v", v.Head, r.Seq, err)
			}
		}
	}
	if a.engine.Owned() == 0 || b.engine.Owned() == 0 || c.engine.Owned() != 0 || a.engine.Owned()+b.engine.Owned() != 30 {
		t.Errorf("in memory: %d, %d, %d", a.engine.Owned(), b.engine.Owned(), c.engine.Owned())
	}
	if _, err := c.say(key(99), "m", "x"); conversation.AsError(err).Code != conversation.NotFound {
		t.Errorf("a session that is not there: %v", err)
	}
	for _, n := range nodes {
		if err := n.sessions.Erase(t.Context(), key(0), "ada"); n == a && err != nil || n != a && conversation.AsError(err).Code != conversation.NotFound {
			t.Errorf("erasing: %v", err)
		}
	}
}

// While a node drains, commands by all nodes go on without a refusal: its sessions move.
func TestDrainMovesSessions(t *testing.T) {
	store := persistencetest.NewMemory()
	a, b := start(t, store, "a", nil), start(t, store, "b", nil)
	const sessions, rounds = 12, 20
	for i := range sessions {
		if _, err := a.create(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	var talk sync.WaitGroup
	half := make(chan struct{}, 2*sessions)
	for i := range sessions {
		for who, n := range []*clustered{a, b} {
			talk.Go(func() {
				for j := range rounds {
					if j == rounds/2 {
						half <- struct{}{}
					}
					if r, err := n.say(key(i), fmt.Sprint(who, "-", j), "x"); err != nil || r.Duplicate {
						t.Errorf("session %d, message %d: %+v, %v", i, j, r, err)
					}
				}
			})
		}
	}
	<-half
	if err := b.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if b.engine.Owned() != 0 {
		t.Errorf("%d sessions are left", b.engine.Owned())
	}
	talk.Wait()
	for i := range sessions {
		if _, err := b.say(key(i), "last", "x"); err != nil {
			t.Errorf("by the node that drains: %v", err)
		}
	}
	if a.engine.Owned() != sessions {
		t.Errorf("%d of %d sessions are on the other node", a.engine.Owned(), sessions)
	}
	for i := range sessions {
		if v, err := a.view(key(i)); err != nil || v.Head < 2*rounds {
			t.Errorf("session %d: head %d, %v", i, v.Head, err)
		}
	}
	b.stop(t)
	if m := a.Members(); len(m) == 0 || m[0].Node != "a" {
		t.Errorf("members %+v", m)
	}
}

// A session that a node has in memory although it is another's, because the store said that
// it was this one's, is given to its owner by the ring after a while, without any change
// of the members.
func TestSessionsGoHome(t *testing.T) {
	store := persistencetest.NewMemory()
	a, b := start(t, store, "a", nil), start(t, store, "b", nil)
	for end := time.Now().Add(time.Minute); len(a.Members()) < 2; _, _ = a.view(key(2)) { // until the first has heard of the second
		if time.Now().After(end) {
			t.Fatal("the nodes do not know each other")
		}
	}
	home, away := a, b
	if _, local := b.Placement().Local(key(1)); local {
		home, away = b, a
	}
	if _, err := home.create(key(1)); err != nil {
		t.Fatal(err)
	}
	head, err := store.Head(t.Context(), key(1))
	if err != nil {
		t.Fatal(err)
	}
	store.Release(t.Context(), key(1), head.Epoch, nil)
	if _, err := store.Acquire(t.Context(), key(1), conversation.AcquireHow{Owner: away.Member()}); err != nil {
		t.Fatal(err)
	}
	if _, err := home.say(key(1), "m1", "hello"); err != nil { // it was fenced; the same again is asked of the owner
		t.Log(err)
	}
	if _, err := home.say(key(1), "m1", "hello"); err != nil || !away.engine.Holds(key(1)) {
		t.Fatal(err, away.engine.Holds(key(1)))
	}
	for end := time.Now().Add(time.Minute); away.engine.Holds(key(1)) || !home.engine.Holds(key(1)); {
		if time.Now().After(end) {
			t.Fatalf("in memory where it belongs: %v, elsewhere: %v", home.engine.Holds(key(1)), away.engine.Holds(key(1)))
		}
		if _, err := home.view(key(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := home.say(key(1), "m1", "hello"); err != nil {
			t.Fatal(err)
		}
	}
}

// A node without an address for others serves alone, or not at all: two would each refuse
// what the other one has.
func TestAloneOrReachable(t *testing.T) {
	join := func(store *persistencetest.Memory, name, listen string) (*cluster.Node, error) {
		return cluster.Join(t.Context(), cluster.Options{Name: "test", Node: conversation.NodeID(name), Listen: listen, Lease: 5 * time.Second},
			cluster.Deps{Table: store, Metrics: metrics.NewCluster(prometheus.NewRegistry())})
	}
	store := persistencetest.NewMemory()
	single := start(t, store, "a", func(o *cluster.Options) { o.Listen = "" })
	if _, err := single.create(key(1)); err != nil {
		t.Error(err)
	}
	for _, listen := range []string{"", freePort(t)} {
		if _, err := join(store, "b", listen); err == nil || !strings.Contains(err.Error(), "cluster.listen") {
			t.Errorf("beside a node that is alone: %v", err)
		}
	}
	single.stop(t)
	b := start(t, store, "b", nil)
	if _, err := join(store, "c", ""); err == nil || !strings.Contains(err.Error(), "cluster.listen") {
		t.Errorf("alone beside others: %v", err)
	}
	if _, err := b.say(key(1), "m", "x"); err != nil {
		t.Error(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := join(store, "d", taken.Addr().String()); err == nil || !strings.Contains(err.Error(), "cluster.listen") {
		t.Errorf("a port that is taken: %v", err)
	}
	if m := b.Members(); len(m) != 1 {
		t.Errorf("members %+v", m)
	}
}

// When no node that runs sessions has been there for a lease, the others say so at once and
// are not ready; when one comes, they go on.
func TestOnlyGatewaysAreLeft(t *testing.T) {
	store := persistencetest.NewMemory()
	short := func(o *cluster.Options) { o.Lease = time.Second }
	runs := start(t, store, "runs", short)
	gate := start(t, store, "gate", func(o *cluster.Options) { o.Lease, o.GatewayOnly = time.Second, true })
	if _, err := gate.create(key(1)); err != nil || gate.Ready() != nil {
		t.Fatalf("beside a node that runs sessions: %v, %v", err, gate.Ready())
	}
	runs.stop(t)
	until := func(what string, is func() bool) {
		t.Helper()
		for look := time.Tick(10 * time.Millisecond); !is(); {
			select {
			case <-look:
			case <-t.Context().Done():
				t.Fatal(what)
			}
		}
	}
	until("ready without anybody", func() bool { return gate.Ready() != nil })
	began := time.Now()
	_, err := gate.say(key(1), "m", "x")
	if e := conversation.AsError(err); e.Code != conversation.Unavailable || e.RetryAfter == 0 || time.Since(began) > 10*time.Second {
		t.Errorf("nobody is there: %v after %v", err, time.Since(began))
	}
	start(t, store, "runs", short)
	until("not ready beside somebody", func() bool { return gate.Ready() == nil })
	if _, err := gate.say(key(1), "m", "x"); err != nil {
		t.Errorf("somebody is there again: %v", err)
	}
}

// A node that was removed from the list ends; its sessions are served by the other.
func TestDeposedNodeEnds(t *testing.T) {
	store := persistencetest.NewMemory()
	a, b := start(t, store, "a", nil), start(t, store, "b", nil)
	for i := range 10 {
		if _, err := a.create(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	store.Depose("b")
	if err := <-b.ended; !errors.Is(err, member.ErrDeposed) {
		t.Fatal(err)
	}
	if b.Ready() == nil || b.sessions.Ready() == nil {
		t.Error("it says that it is ready")
	}
	if e := conversation.AsError(b.sessions.Ready()); e.Code != conversation.Unavailable || !strings.Contains(e.Message, "lease") {
		t.Errorf("why it is not ready: %v", e)
	}
	for i := range 10 {
		if _, err := a.say(key(i), "m", "x"); err != nil {
			t.Error(err)
		}
	}
}

// A runtime that waits on one node is handed what is said to the sessions of all, once, and may
// answer by any node.
func TestClaimsOfAllNodes(t *testing.T) {
	store := persistencetest.NewMemory()
	nodes := []*clustered{start(t, store, "a", nil), start(t, store, "b", nil), start(t, store, "c", func(o *cluster.Options) { o.GatewayOnly = true })}
	const sessions = 12
	for i := range sessions {
		if _, err := nodes[0].create(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(n *clustered, wait time.Duration) ([]conversation.HandedOut, error) {
		return n.sessions.Claim(t.Context(), conversation.ClaimRequest{
			Tenant: "acme", Runtime: conversation.RuntimeName("r-" + string(n.Member().Node)), Limit: 4, Wait: wait,
		})
	}
	for _, n := range nodes { // from now on the desks know nothing but what they are told
		if out, err := claim(n, time.Millisecond); err != nil || len(out) != 0 {
			t.Fatal(out, err)
		}
	}
	answer := func(n *clustered, h conversation.HandedOut) error {
		got := make(chan error, 1)
		n.sessions.Tell(h.Key, "", conversation.AddPart{
			Author: "runtime", Source: string(h.Message), Generation: h.Generation, Text: "done", Final: true,
		}, func(_ conversation.Receipt, err error) { got <- err })
		return <-got
	}
	var mu sync.Mutex
	handed := map[conversation.SessionID]int{}
	var work sync.WaitGroup
	for i, n := range nodes {
		if i == 0 { // the sessions of this node, and of the next, have to be offered to the others
			continue
		}
		work.Go(func() {
			for all := false; !all && t.Context().Err() == nil; {
				out, err := claim(n, 50*time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				for _, h := range out {
					if err := answer(nodes[(i+1)%3], h); err != nil || h.Text == "" {
						t.Errorf("%+v: %v", h, err)
					}
				}
				mu.Lock()
				for _, h := range out {
					handed[h.Key.Session]++
				}
				all = len(handed) == sessions
				mu.Unlock()
			}
		})
	}
	for i := range sessions {
		if _, err := nodes[i%3].say(key(i), "m", fmt.Sprint("work ", i)); err != nil {
			t.Fatal(err)
		}
	}
	work.Wait()
	for session, times := range handed {
		if times != 1 {
			t.Errorf("%s was handed out %d times", session, times)
		}
	}
}

// BenchmarkSay is a message to a session on the same node, and to one on another.
func BenchmarkSay(b *testing.B) {
	store := persistencetest.NewMemory()
	nodes := []*clustered{start(b, store, "a", nil), start(b, store, "b", nil)}
	there := nodes[0].Node
	for i := range 64 {
		if _, err := nodes[0].create(key(i)); err != nil {
			b.Fatal(err)
		}
	}
	for _, where := range []string{"here", "there"} {
		b.Run(where, func(b *testing.B) {
			var k conversation.SessionKey
			for i := range 64 {
				if _, here := there.Placement().Local(key(i)); here == (where == "here") {
					k = key(i)
				}
			}
			for i := range b.N {
				if _, err := nodes[0].say(k, fmt.Sprintf("%s-%d-%d", where, b.N, i), "hello"); err != nil && conversation.AsError(err).Code != conversation.InboxFull {
					b.Fatal(err)
				}
			}
		})
	}
}

// A session whose owner has given it up, but whose store did not hear of that, is that node's until
// it takes it again: what any node is asked for it, it is asked for as the owner. Nobody waits.
func TestReleaseThatWasLost(t *testing.T) {
	store := persistencetest.NewMemory()
	a, b := start(t, store, "a", nil), start(t, store, "b", nil)
	n := 0
	next := func(by *clustered) conversation.SessionKey {
		t.Helper()
		for ; ; n++ {
			k := key(n)
			if _, here := a.Placement().Local(k); here {
				continue
			}
			n++
			if _, err := by.create(k); err != nil {
				t.Fatal(err)
			}
			if _, err := by.say(k, "first", "hello"); err != nil {
				t.Fatal(err)
			}
			lose(t, store, b, a, k)
			return k
		}
	}
	began := time.Now()
	for _, by := range []*clustered{a, b} {
		name := string(by.Member().Node)
		if created, err := by.create(next(by)); err != nil || created {
			t.Errorf("created by %s: %v, %v", name, created, err)
		}
		if _, err := by.say(next(by), "second", "hello"); err != nil {
			t.Errorf("told by %s: %v", name, err)
		}
		if err := by.sessions.Erase(t.Context(), next(by), "ada"); err != nil {
			t.Errorf("erased by %s: %v", name, err)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("somebody has waited for a deadline: %v", took)
	}
}

// The same for the next session of a name that was erased: who has it in the store is asked for the
// name, and opens the next one as its owner.
func TestReleaseThatWasLostOfANextSession(t *testing.T) {
	store := persistencetest.NewMemory()
	a, b := start(t, store, "a", nil), start(t, store, "b", nil)
	until(t, "the nodes know each other", func() bool { return len(a.Members()) == 2 && len(b.Members()) == 2 })
	for n, tried := 0, 0; tried < 4; n++ {
		name := key(n)
		next := conversation.SessionKey{Tenant: name.Tenant, Session: living.Next(name.Session)}
		if _, here := a.Placement().Local(next); here {
			continue
		}
		tried++
		for _, what := range []string{"name", "next"} {
			if created, err := a.create(name); err != nil || !created {
				t.Fatalf("the %s: %v, %v", what, created, err)
			}
			if what == "name" {
				if err := a.sessions.Erase(t.Context(), name, "ada"); err != nil {
					t.Fatal(err)
				}
			}
		}
		lose(t, store, b, a, next)
		if created, err := []*clustered{a, b}[tried%2].create(name); err != nil || created {
			t.Errorf("created again: %v, %v", created, err)
		}
	}
}

// lose makes a session one's in the store, as if that had taken it for a moment and its release was
// lost; it is in nobody's memory.
func lose(t *testing.T, store *persistencetest.Memory, from, to *clustered, key conversation.SessionKey) {
	t.Helper()
	head, err := store.Head(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	store.Release(t.Context(), key, head.Epoch, nil)
	if _, err := store.Acquire(t.Context(), key, conversation.AcquireHow{Owner: to.Member()}); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1) // the one that had it in memory learns that it is not its own any more
	from.engine.Tell(key, "ada", conversation.Say{Author: "ada", ClientMsgID: "fenced", Text: "hello"}, func(_ conversation.Receipt, err error) { refused <- err })
	if err := <-refused; err == nil || to.engine.Holds(key) {
		t.Fatalf("told %v, in memory %v", err, to.engine.Holds(key))
	}
}
