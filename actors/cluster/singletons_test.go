package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"parley/actors/cluster"
	"parley/conversation"
	"parley/conversation/member"
	"parley/persistence/persistencetest"
)

// onlyOne is a singleton of several nodes that looks after itself.
type onlyOne struct {
	testing.TB
	mu     sync.Mutex
	on     map[conversation.Member]bool // where it runs now
	out    map[conversation.Member]bool // nodes whose process has ended, as it would have
	moved  chan struct{}
	causes []error
}

func newOnlyOne(t testing.TB) *onlyOne {
	return &onlyOne{TB: t, on: map[conversation.Member]bool{}, out: map[conversation.Member]bool{}, moved: make(chan struct{}, 1)}
}

// of is it on one node.
func (o *onlyOne) of(n *clustered) cluster.Singleton {
	return cluster.Singleton{Name: "poll", Run: func(ctx context.Context) error {
		o.note(func() {
			for other := range o.on {
				if !o.out[other] {
					o.Errorf("it runs on %s and begins on %s", other, n.Member())
				}
			}
			o.on[n.Member()] = true
		})
		<-ctx.Done()
		o.note(func() { delete(o.on, n.Member()); o.causes = append(o.causes, context.Cause(ctx)) })
		return nil
	}}
}

func (o *onlyOne) note(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
	select {
	case o.moved <- struct{}{}:
	default:
	}
}

// where waits until it runs on one of the nodes.
func (o *onlyOne) where(among ...*clustered) *clustered {
	o.Helper()
	for timeout := time.After(time.Minute); ; {
		o.mu.Lock()
		for _, n := range among {
			if o.on[n.Member()] {
				o.mu.Unlock()
				return n
			}
		}
		o.mu.Unlock()
		select {
		case <-o.moved:
		case <-timeout:
			o.Fatal("it runs nowhere")
		}
	}
}

func other(n *clustered, all ...*clustered) (rest []*clustered) {
	for _, m := range all {
		if m != n {
			rest = append(rest, m)
		}
	}
	return rest
}

func (n *clustered) has(t testing.TB, s cluster.Singleton) {
	t.Helper()
	if err := n.Singleton(s); err != nil {
		t.Fatal(err)
	}
}

// A singleton runs on one of the nodes that run sessions, and moves when that one drains, is
// removed from the list, or starts again.
func TestSingletonMoves(t *testing.T) {
	store := persistencetest.NewMemory()
	nodes := []*clustered{start(t, store, "a", nil), start(t, store, "b", nil), start(t, store, "c", nil)}
	gate := start(t, store, "gate", func(o *cluster.Options) { o.GatewayOnly = true })
	one := newOnlyOne(t)
	for _, n := range append(nodes, gate) {
		n.has(t, one.of(n))
	}
	first := one.where(nodes...)
	if err := first.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	left := other(first, nodes...)
	second := one.where(left...)
	first.stop(t)
	one.note(func() { one.out[second.Member()] = true }) // a removed node notices a moment later
	store.Depose(second.Member().Node)
	third := one.where(other(second, left...)...)
	if err := <-second.ended; !errors.Is(err, member.ErrDeposed) {
		t.Error(err)
	}
	again := start(t, store, string(third.Member().Node), nil) // the same name begins anew
	one.note(func() { one.out[third.Member()] = true })
	again.has(t, one.of(again))
	one.where(again)
	if err := again.Singleton(one.of(again)); err == nil {
		t.Error("a name was given twice")
	}
}

// Whatever the order in which nodes come and go, never two run it.
func TestSingletonAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	store := persistencetest.NewMemory()
	one := newOnlyOne(t)
	var nodes []*clustered
	begin := func(i int) {
		n := start(t, store, fmt.Sprint("n", i), nil)
		n.has(t, one.of(n))
		nodes = append(nodes, n)
	}
	begin(0)
	for i := 1; i < 12; i++ {
		if len(nodes) == 1 || len(nodes) < 4 && r.IntN(2) == 0 {
			begin(i)
		} else {
			k := r.IntN(len(nodes))
			n := nodes[k]
			nodes = append(nodes[:k], nodes[k+1:]...)
			if r.IntN(2) == 0 { // else it ends without a word before
				if err := n.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			}
			n.stop(t)
		}
		if r.IntN(2) == 0 {
			one.where(nodes...)
		}
	}
	one.where(nodes...)
}

// A node that cannot leave because its singleton does not end stays in the list.
func TestSingletonThatDoesNotEnd(t *testing.T) {
	store := persistencetest.NewMemory()
	a, b := start(t, store, "a", nil), start(t, store, "b", nil)
	began, end := make(chan *clustered, 2), make(chan struct{})
	for _, n := range []*clustered{a, b} {
		n.has(t, cluster.Singleton{Name: "poll", Run: func(context.Context) error { began <- n; <-end; return nil }})
	}
	has := <-began
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := has.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: %v", err)
	}
	if err := has.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	rest := other(has, a, b)[0]
	if owner, err := store.Take(t.Context(), "poll", rest.Member()); err != nil || owner != has.Member() {
		t.Errorf("it is %s's, %v; %s runs it still", owner, err, has.Member())
	}
	close(end)
	if got := <-began; got != rest {
		t.Errorf("it began on %s", got.Member())
	}
}

// A process without a cluster runs it all the same.
func TestSolo(t *testing.T) {
	s := cluster.NewSolo(nil)
	began, ended := make(chan struct{}), make(chan struct{})
	if err := s.Singleton(cluster.Singleton{Name: "poll", Run: func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	<-began
	cancel()
	<-done
	select {
	case <-ended:
	default:
		t.Error("Run has returned before it")
	}
}

// Every node, a gateway too, asks the one that runs a singleton; when that drains what was
// asked before gets its answer, and what comes after is answered by the next one. When its
// process is gone, what was under way ends as not answered.
func TestAskSingleton(t *testing.T) {
	store := persistencetest.NewMemory()
	nodes := []*clustered{start(t, store, "a", nil), start(t, store, "b", nil), start(t, store, "c", nil)}
	gate := start(t, store, "gate", func(o *cluster.Options) { o.GatewayOnly = true })
	asked := make(chan conversation.Member, 8)
	for _, n := range append(nodes, gate) {
		free := make(chan struct{}, 1)
		n.has(t, cluster.Singleton{
			Name: "poll",
			Run: func(ctx context.Context) error {
				select {
				case <-free: // of a run before
				default:
				}
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), member.ErrLeaseOver) {
					free <- struct{}{}
				}
				return nil
			},
			Answer: func(ctx context.Context, body []byte, back cluster.Back) ([]byte, bool) {
				out, err := back.Ask(ctx, body)
				if err != nil {
					return nil, true
				}
				if string(out) == "wait" {
					asked <- n.Member()
					select {
					case <-ctx.Done():
						return nil, true
					case <-free: // it is to move
					}
				}
				return append(out, n.Member().Node...), true
			},
		})
	}
	hear := func(_ context.Context, body []byte) ([]byte, error) { return body, nil }
	for _, n := range append(nodes, gate) {
		if got, err := n.Ask(t.Context(), "poll", make([]byte, 1<<20), time.Minute, hear); err != nil || len(got) != 1<<20+1 {
			t.Errorf("%s: %d bytes, %v", n.Member(), len(got), err)
		}
	}
	type result struct {
		body []byte
		err  error
	}
	under := make(chan result, 1)
	wait := func() *clustered {
		go func() {
			got, err := gate.Ask(t.Context(), "poll", []byte("wait"), time.Minute, hear)
			under <- result{got, err}
		}()
		on := <-asked
		for _, n := range nodes {
			if n.Member() == on {
				return n
			}
		}
		t.Fatal(on)
		return nil
	}
	first := wait()
	if err := first.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if r := <-under; r.err == nil && string(r.body) != "wait"+string(first.Member().Node) || r.err != nil && !errors.Is(r.err, member.ErrUnanswered) {
		t.Errorf("what was under way: %q, %v", r.body, r.err)
	}
	if got, err := gate.Ask(t.Context(), "poll", []byte("x"), time.Minute, hear); err != nil || string(got) == "x"+string(first.Member().Node) {
		t.Errorf("after it has moved: %q, %v", got, err)
	}
	second := wait()
	store.Depose(second.Member().Node)
	if r := <-under; !errors.Is(r.err, member.ErrUnanswered) {
		t.Errorf("its node is gone: %q, %v", r.body, r.err)
	}
	if _, err := gate.Ask(t.Context(), "nobody's", nil, time.Millisecond, hear); !errors.Is(err, member.ErrNotRunning) {
		t.Errorf("one that nobody runs: %v", err)
	}
}
