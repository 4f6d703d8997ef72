package singleton

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/cluster/internal/membership"
	"parley/actors/placement"
	"parley/conversation"
	"parley/conversation/member"
	"parley/persistence/persistencetest"
)

const (
	lease = 5 * time.Second
	bound = 10 * time.Second
)

var errDown = errors.New("the database cannot be reached")

// world is nodes in a bubble that share a table, and what runs on them.
type world struct {
	*testing.T
	table *persistencetest.Memory

	mu    sync.Mutex
	runs  map[string][]string // who runs it now, by singleton
	begun map[string]int      // how often it began
	nodes []*node
}

func newWorld(t *testing.T) *world {
	return &world{T: t, table: persistencetest.NewMemory(), runs: map[string][]string{}, begun: map[string]int{}}
}

// node is one process: its lease, its ring and its singletons.
type node struct {
	*world
	*Keeper
	name  string
	loop  *membership.Loop
	self  conversation.Member
	ended chan struct{}
	stop  context.CancelFunc

	mu       sync.Mutex
	ring     *placement.Ring
	draining bool
	cut      bool                 // the table cannot be reached
	slow     func() time.Duration // how long a singleton takes to end
	fails    error                // a singleton returns it at once
	died     context.Context      // ends with the process
	die      context.CancelFunc
}

// reach is the table as a node reaches it.
type reach struct{ *node }

func (r reach) wire() error {
	r.node.mu.Lock()
	defer r.node.mu.Unlock()
	if r.cut || r.died.Err() != nil {
		return errDown
	}
	return nil
}

func (r reach) Join(ctx context.Context, who member.Info, lease time.Duration) (conversation.Member, error) {
	return r.table.Join(ctx, who, lease)
}

func (r reach) Renew(ctx context.Context, who member.Info) (member.List, error) {
	if err := r.wire(); err != nil {
		return member.List{}, err
	}
	list, err := r.table.Renew(ctx, who)
	if after := r.wire(); after != nil {
		return member.List{}, after
	}
	return list, err
}

func (r reach) Leave(ctx context.Context, who conversation.Member) error {
	return errors.Join(r.wire(), r.table.Leave(ctx, who))
}

// Take may lose its answer, and be slow.
func (r reach) Take(ctx context.Context, name string, who conversation.Member) (conversation.Member, error) {
	if err := r.wire(); err != nil {
		return conversation.Member{}, err
	}
	owner, err := r.table.Take(ctx, name, who)
	time.Sleep(rand.N(3 * lease / 2))
	return owner, errors.Join(err, r.wire())
}

func (r reach) Give(ctx context.Context, name string, who conversation.Member) error {
	if err := r.wire(); err != nil {
		return err
	}
	return errors.Join(r.table.Give(ctx, name, who), r.wire())
}

func (w *world) start(name string, singletons ...string) *node {
	w.Helper()
	n := &node{world: w, name: name, ended: make(chan struct{}), slow: func() time.Duration { return 0 }}
	n.died, n.die = context.WithCancel(context.Background())
	began := time.Now()
	var err error
	if n.self, err = w.table.Join(w.Context(), n.info(), lease); err != nil {
		w.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	n.Keeper = New(Options{
		Table: reach{n}, Self: n.self, Belongs: n.belongs, Holds: func() bool { return n.loop.Holds() }, Pause: lease / 5, Bound: bound, Log: log,
		Began: func(string) {}, Ended: func(string) {}, Given: func(string) {},
	})
	n.loop = membership.New(membership.Options{
		Table: reach{n}, Lease: lease, Info: n.info, Changed: n.listed, Lost: n.Lost, Held: n.Changed, Renewed: func(bool) {}, Log: log, Clock: membership.SystemClock,
	}, began)
	for _, s := range singletons {
		if err := n.Add(s, func(ctx context.Context) error { return n.run(ctx, s) }); err != nil {
			w.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.Begin(ctx)
	go func() {
		defer close(n.ended)
		if err := n.loop.Run(ctx); err != nil {
			n.die() // the process ends at once
			stop()
		}
		n.End()
	}()
	w.nodes = append(w.nodes, n)
	return n
}

func (n *node) info() member.Info {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := member.Info{Member: n.self, Sessions: true, Draining: n.draining}
	i.Node = conversation.NodeID(n.name)
	return i
}

func (n *node) listed(list member.List) {
	var all []conversation.Member
	for _, m := range list.Members {
		if !m.Dead && !m.Draining {
			all = append(all, m.Member)
		}
	}
	n.mu.Lock()
	n.ring = placement.NewRing(all)
	n.mu.Unlock()
	n.Changed()
}

func (n *node) belongs(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ring == nil || n.draining {
		return false
	}
	owner, ok := n.ring.Owner(conversation.SessionKey{Tenant: "singleton", Session: conversation.SessionID(name)})
	return ok && owner == n.self
}

// run is a singleton: it must be the only one of its name.
func (n *node) run(ctx context.Context, name string) error {
	n.world.mu.Lock()
	if with := n.runs[name]; len(with) > 0 {
		n.Errorf("%v: %s runs on %s, and begins on %s", time.Now().Format("15:04:05.000"), name, strings.Join(with, ", "), n.self)
	}
	n.runs[name] = append(n.runs[name], n.self.String())
	n.begun[name]++
	n.world.mu.Unlock()
	ended := func() {
		n.world.mu.Lock()
		defer n.world.mu.Unlock()
		n.runs[name] = n.runs[name][1:]
	}
	defer ended()
	n.mu.Lock()
	fails := n.fails
	n.mu.Unlock()
	if fails != nil {
		return fails
	}
	select {
	case <-ctx.Done():
	case <-n.died.Done():
		return nil
	}
	if !errors.Is(context.Cause(ctx), member.ErrLeaseOver) { // else others may begin now
		n.mu.Lock()
		slow := n.slow()
		n.mu.Unlock()
		select {
		case <-time.After(slow):
		case <-n.died.Done():
		}
	}
	return nil
}

// kill ends the process as SIGKILL does.
func (n *node) kill() {
	n.die()
	n.stop()
	<-n.ended
}

// end ends it as SIGTERM does.
func (n *node) end() {
	n.mu.Lock()
	n.draining = true
	n.mu.Unlock()
	n.Changed()
	n.loop.Nudge()
	ctx, cancel := context.WithTimeout(context.Background(), 2*bound)
	defer cancel()
	_ = n.Drain(ctx)
	n.stop()
	<-n.ended
	if !n.Busy() {
		_ = reach{n}.Leave(context.Background(), n.self)
	}
}

func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// where says on which nodes a singleton runs.
func (w *world) where(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.runs[name], ",")
}

// times is how often a singleton has begun.
func (w *world) times(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun[name]
}

// wait wants a singleton to run on a node before the time is over.
func (w *world) wait(name string, on *node, within time.Duration) {
	w.Helper()
	for end := time.Now().Add(within); w.where(name) != on.self.String(); time.Sleep(lease / 50) {
		if time.Now().After(end) {
			w.Fatalf("%s runs on %q, not on %s after %v", name, w.where(name), on.self, within)
		}
	}
}

func (w *world) end() {
	for _, n := range w.nodes {
		n.kill()
	}
}

// pair starts two nodes, and returns them with the one first that runs the singleton.
func pair(t *testing.T, change func(*node)) (w *world, has, other *node) {
	w = newWorld(t)
	a, b := w.start("a", "poll"), w.start("b", "poll")
	for _, n := range []*node{a, b} {
		if change != nil {
			n.set(func() { change(n) })
		}
	}
	time.Sleep(4 * lease)
	switch w.where("poll") {
	case a.self.String():
		return w, a, b
	case b.self.String():
		return w, b, a
	}
	t.Fatalf("it runs on %q", w.where("poll"))
	return nil, nil, nil
}

// What a node has is followed by the other: after the end of the lease, or at once.
func TestFollowed(t *testing.T) {
	const soon = 3 * lease // a look at the table may be that slow here
	for name, c := range map[string]struct {
		do     func(*node)
		within time.Duration
	}{
		"it is killed":   {(*node).kill, lease + soon},
		"it drains":      {(*node).end, soon},
		"it is deposed":  {func(n *node) { n.die(); n.table.Depose(n.self.Node) }, soon},
		"it is cut off":  {func(n *node) { n.set(func() { n.cut = true }) }, lease + soon},
		"it is replaced": {func(n *node) { n.kill(); n.world.start(n.name, "poll").kill() }, lease + soon},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, has, other := pair(t, nil)
				defer w.end()
				c.do(has)
				w.wait("poll", other, c.within)
			})
		})
	}
}

// One that started again has its singleton again at once, and not after its lease.
func TestRestartedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		a := w.start("a", "poll")
		w.wait("poll", a, 3*lease)
		a.kill()
		w.wait("poll", w.start("a", "poll"), 2*lease)
	})
}

// A living owner keeps what it has not ended, although the ring names another node and it
// is to drain; no other node begins before.
func TestOneThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, has, other := pair(t, func(n *node) { n.slow = func() time.Duration { return 10 * bound } })
		defer w.end()
		has.set(func() { has.draining = true })
		has.Changed()
		ctx, cancel := context.WithTimeout(t.Context(), 3*bound)
		defer cancel()
		if err := has.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "poll") {
			t.Errorf("drain: %v", err)
		}
		if got := w.where("poll"); got != has.self.String() || !has.Busy() {
			t.Errorf("it runs on %q", got)
		}
		has.kill()
		w.wait("poll", other, 4*lease)
	})
}

// A new node gets those that are its by the ring, when the one that has them has ended them.
func TestMovesToANewNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprint("poll-", i))
		}
		w := newWorld(t)
		defer w.end()
		a := w.start("a", names...)
		time.Sleep(4 * lease)
		b := w.start("b", names...)
		time.Sleep(6 * lease)
		there := 0
		for _, name := range names {
			want := a
			if b.belongs(name) {
				want, there = b, there+1
			}
			w.wait(name, want, lease)
			if began, most := w.times(name), 2; began > most || want == a && began != 1 {
				t.Errorf("%s has begun %d times", name, began)
			}
		}
		if there == 0 || there == len(names) {
			t.Errorf("the new node has %d of %d", there, len(names))
		}
	})
}

// One that returns by itself is started again, ever more seldom.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		a := w.start("a", "poll")
		a.set(func() { a.fails = errors.New("no network") })
		time.Sleep(10 * time.Minute)
		if n := w.times("poll"); n < 15 || n > 30 { // 100 ms, doubled up to 30 s
			t.Errorf("in ten minutes it began %d times", n)
		}
		a.set(func() { a.fails = nil })
		w.wait("poll", a, maxPause+2*lease)
	})
}

// asked is a table that a test answers.
type asked struct{ takes, answers chan conversation.Member }

func (a asked) Take(_ context.Context, _ string, who conversation.Member) (conversation.Member, error) {
	a.takes <- who
	return <-a.answers, nil
}

func (asked) Give(context.Context, string, conversation.Member) error { return nil }

// That it was this node's counts only while the lease goes on under which that was asked:
// between two leases another node may have had it.
func TestAnswerFromAnotherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := asked{make(chan conversation.Member), make(chan conversation.Member)}
		self := conversation.Member{Node: "a", Incarnation: 1}
		var runs atomic.Int32
		var holds atomic.Bool
		holds.Store(true)
		k := New(Options{
			Table: table, Self: self, Holds: holds.Load, Belongs: func(string) bool { return true }, Pause: time.Second, Bound: bound,
			Log: slog.New(slog.DiscardHandler), Began: func(string) { runs.Add(1) }, Ended: func(string) { runs.Add(-1) }, Given: func(string) {},
		})
		if err := k.Add("poll", func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		k.Begin(ctx)
		<-table.takes
		k.Lost()
		k.Changed() // and it holds again
		table.answers <- self
		<-table.takes
		if runs.Load() != 0 {
			t.Error("it runs, by an answer from before")
		}
		holds.Store(false) // without a word yet
		table.answers <- self
		synctest.Wait()
		if runs.Load() != 0 {
			t.Error("it runs without a lease")
		}
		holds.Store(true)
		k.Changed()
		<-table.takes
		table.answers <- conversation.Member{Node: "b", Incarnation: 1}
		<-table.takes
		if runs.Load() != 0 {
			t.Error("it runs, and is another node's")
		}
		table.answers <- self
		synctest.Wait()
		if runs.Load() != 1 {
			t.Errorf("%d run", runs.Load())
		}
		stop()
		k.End()
	})
}

// A panic is a failure like others.
func TestPanic(t *testing.T) {
	if err := guarded(t.Context(), func(context.Context) error { panic("boom") }); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Error(err)
	}
}

// Without a table it runs, and names are given once.
func TestNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		k := New(Options{
			Holds: func() bool { return true }, Belongs: func(string) bool { return true }, Pause: time.Second, Bound: bound, Log: slog.New(slog.DiscardHandler),
			Began: func(string) { runs.Add(1) }, Ended: func(string) { runs.Add(-1) }, Given: func(string) {},
		})
		run := func(ctx context.Context) error { <-ctx.Done(); return nil }
		ctx, stop := context.WithCancel(t.Context())
		for i, name := range []string{"one", "two"} {
			if err := k.Add(name, run); err != nil {
				t.Fatal(err)
			}
			if i == 0 { // the other one comes while it runs
				k.Begin(ctx)
			}
		}
		if k.Add("one", run) == nil {
			t.Error("a name was given twice")
		}
		synctest.Wait()
		if runs.Load() != 2 {
			t.Errorf("%d run", runs.Load())
		}
		stop()
		k.End()
		if runs.Load() != 0 || k.Busy() {
			t.Errorf("%d run", runs.Load())
		}
	})
}

// TestRandom lets nodes come, drain, die, be deposed, lose the table and be slow, and wants
// never two at a time, and one in the end.
func TestRandom(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for range rounds {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { random(t, seed) }) }) {
			t.Fatalf("seed %d", seed)
		}
	}
}

func random(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	defer w.end()
	var living []*node
	names := []string{"poll", "mail", "watch"}
	begin := func(name string) {
		n := w.start(name, names...)
		n.set(func() { n.slow = func() time.Duration { return rand.N(2 * time.Second) } })
		living = append(living, n)
	}
	begin("first")
	for step := range 60 {
		time.Sleep(time.Duration(r.Int64N(int64(2 * lease))))
		i := r.IntN(len(living))
		n := living[i]
		goes := func() { living = append(living[:i], living[i+1:]...) }
		switch what := r.IntN(8); {
		case n.died.Err() != nil || n.loopEnded():
			goes()
		case what < 2 && len(living) < 4:
			begin(fmt.Sprint("n", step))
		case what == 2 && len(living) > 1:
			goes()
			n.kill()
		case what == 3 && len(living) > 1:
			goes()
			go n.end()
		case what == 4 && len(living) > 1:
			goes()
			n.die() // the process ends when it is told so; here it is told at once
			n.table.Depose(n.self.Node)
		case what == 5:
			n.set(func() { n.cut = !n.cut })
		case what == 6: // all at once
			for _, n := range living {
				n.set(func() { n.cut = true })
			}
			time.Sleep(time.Duration(r.Int64N(int64(2 * lease))))
			for _, n := range living {
				n.set(func() { n.cut = false })
			}
		case what == 7 && n.name != "": // the same name starts again
			goes()
			n.kill()
			begin(n.name)
		}
		if len(living) == 0 {
			begin(fmt.Sprint("m", step))
		}
	}
	for _, n := range living {
		n.set(func() { n.cut = false })
	}
	time.Sleep(20 * lease)
	for _, name := range names {
		if got := w.where(name); got == "" || strings.Contains(got, ",") {
			t.Errorf("in the end %s runs on %q", name, got)
		}
	}
}

func (n *node) loopEnded() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}
