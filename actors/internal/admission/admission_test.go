package admission

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/metrics"
)

func TestSlots(t *testing.T) {
	var granted []*Request
	a := New(2, metrics.NewActors(prometheus.NewRegistry()))
	for i, want := range []bool{true, true, false} {
		if a.TryAcquire(nil, true) != want {
			t.Fatalf("slot %d of 2", i+1)
		}
	}
	names := map[*Request]string{}
	ask := func(tenant conversation.TenantID, name string) *Request {
		r := a.enqueue(tenant, nil, func(r *Request) { granted = append(granted, r) })
		names[r] = name
		return r
	}
	ask("acme", "a1")
	ask("acme", "a2")
	gone := ask("acme", "a3")
	ask("acme", "a4")
	ask("beta", "b1")
	ask("beta", "b2")
	a.withdraw(gone)
	if a.QueueEmpty() || a.TryAcquire(nil, true) {
		t.Error("a request waits, and a newer one may pass")
	}
	var order []string
	for len(granted) < 5 {
		n := len(granted)
		a.Release(nil)
		if len(granted) != n+1 {
			t.Fatalf("a free slot went to %d", len(granted)-n)
		}
		order = append(order, names[granted[n]])
		if !a.accept(granted[n]) || a.accept(granted[n]) {
			t.Error("a grant is accepted once")
		}
	}
	if want := []string{"a1", "b1", "a2", "b2", "a4"}; !slices.Equal(order, want) {
		t.Errorf("order %v, not %v", order, want)
	}
	a.ForceAcquire(nil)
	if a.used != 3 {
		t.Errorf("%d in use", a.used)
	}
	a.Release(nil)
	a.Release(nil)
	if !a.TryAcquire(nil, true) {
		t.Error("nothing is free")
	}
	a.Release(nil)
	// A grant that is withdrawn goes to the next.
	a.ForceAcquire(nil)
	first, second := ask("acme", "x"), ask("acme", "y")
	a.Release(nil)
	if first.state != requestGranted {
		t.Fatal("not granted")
	}
	a.withdraw(first)
	if second.state != requestGranted || a.accept(first) || !a.accept(second) {
		t.Error("a withdrawn grant is lost")
	}
	a.withdraw(second)
	a.Release(nil)
	a.Release(nil)
	if a.used != 0 || !a.QueueEmpty() || len(a.queues) != 0 || a.turns.Len() != 0 {
		t.Errorf("left over: %d, %d, %v, %v", a.used, a.waiting.Load(), a.queues, a.turns)
	}
}

// A session's slot goes back when it is durable that no task needs it, not before.
func TestSlot(t *testing.T) {
	node := New(1, metrics.NewActors(prometheus.NewRegistry()))
	used := func(when string, want int) {
		t.Helper()
		if got, _ := node.Used(); got != want {
			t.Errorf("%s: %d slots in use, not %d", when, got, want)
		}
	}
	var a, b Slot
	if a.Reserve(node, WantNothing) || !a.Reserve(node, WantPlace) {
		t.Fatal("only a command that may start a task reserves a slot")
	}
	used("reserved", 1)
	a.Update(node, false, 1)
	used("no task has started", 0)

	a.Reserve(node, WantPlace)
	a.Update(node, true, 2)
	a.Durable(node, true, 2)
	used("a task runs", 1)
	var grant *Request
	b.Request(node, "acme", func(r *Request) { grant = r })
	if !b.Waiting() || a.Reserve(node, WantPlace) {
		t.Error("the slot is kept although another session waits")
	}
	a.Update(node, false, 5)
	a.Durable(node, false, 4)
	if grant != nil || !a.Held() {
		t.Error("the slot is back before the end of the task is durable")
	}
	a.Durable(node, false, 5)
	if grant == nil || a.Held() {
		t.Fatal("the slot is not passed on")
	}
	if !b.Granted(node, grant, true, 7) || !b.Held() || b.Granted(node, grant, true, 7) {
		t.Error("the grant is not accepted once")
	}
	a.Update(node, true, 9) // it was RUNNING before this process knew of it
	used("over the limit", 2)
	a.Return(node)
	b.Return(node)
	used("all have gone", 0)

	// A task that begins before the end of the last one is durable takes its slot over: it
	// goes back with the end of this one.
	a.Update(node, true, 10)
	a.Update(node, false, 11)
	a.Update(node, true, 12)
	a.Update(node, false, 13)
	a.Durable(node, false, 12)
	used("the end of the second task is not durable", 1)
	a.Durable(node, false, 13)
	used("it is", 0)

	// A grant that cannot be used any more is no slot that is taken.
	a.Reserve(node, WantPlace)
	a.Update(node, true, 1)
	b.Request(node, "acme", func(r *Request) { grant = r })
	a.Return(node)
	if b.Granted(node, grant, false, 2) || b.Held() {
		t.Error("a grant is used although it must not be")
	}
	used("a grant was refused", 0)
}

// a pool bounds what is tried for, and counts what runs in any case: a granted
// request, a task that was RUNNING before. Places of one pool are not those of another.
func TestPool(t *testing.T) {
	node, pool, other := New(10, metrics.NewActors(prometheus.NewRegistry())), NewPlaces(1), NewPlaces(1)
	in := func(p *Places) *Slot { s := &Slot{}; s.In(p); return s }
	a, b, c, d := in(pool), in(pool), in(other), in(nil)
	for _, problem := range []string{"the first place is not free", "its own place is refused to who has it"} {
		if !a.Reserve(node, WantPlace) {
			t.Fatal(problem)
		}
	}
	a.Update(node, true, 1)
	if b.Reserve(node, WantPlace) || !c.Reserve(node, WantPlace) || !d.Reserve(node, WantPlace) {
		t.Error("the second of two has found a place, or another pool has none")
	}
	c.Update(node, false, 1)
	d.Update(node, false, 1)
	if n, _ := node.Used(); n != 1 || other.used != 0 {
		t.Errorf("%d slots are taken, %d of the other pool", n, other.used)
	}
	var granted *Request
	b.Request(node, "acme", func(r *Request) { granted = r })
	if granted == nil || pool.used != 2 || !b.Granted(node, granted, true, 1) {
		t.Errorf("what was accepted does not run: %d in the pool", pool.used)
	}
	recovered := in(pool)
	recovered.Update(node, true, 1)
	for _, s := range []*Slot{a, b, recovered} {
		s.Return(node)
	}
	if n, _ := node.Used(); n != 0 || pool.used != 0 {
		t.Errorf("at the end %d slots are taken, %d of the pool", n, pool.used)
	}
	if a.In(pool); !a.Reserve(node, WantPlace) || b.Reserve(node, WantNothing) {
		t.Error("no place is free")
	}
}

// A session whose agent is another one is counted in that one's pool from its next task on.
func TestAnotherPool(t *testing.T) {
	node, first, next := New(3, metrics.NewActors(prometheus.NewRegistry())), NewPlaces(1), NewPlaces(1)
	s := &Slot{}
	for _, pools := range [][2]*Places{{first, next}, {next, nil}, {nil, first}} {
		s.In(pools[0])
		if !s.Reserve(node, WantPlace) {
			t.Fatal("no place is free")
		}
		s.In(pools[1])
		s.Update(node, true, 1)
		s.In(pools[1])
		if pools[0] != nil && pools[0].used != 1 || pools[1] != nil && pools[1].used != 0 {
			t.Errorf("a task that runs has changed its pool: %d and %d are used", first.used, next.used)
		}
		s.Update(node, false, 2)
		s.In(pools[1])
		if s.Durable(node, false, 2); first.used+next.used != 0 {
			t.Errorf("at the end of a task %d and %d are used", first.used, next.used)
		}
	}
}

// A full pool keeps nobody back who would not be refused; he is counted all the same.
func TestFullPoolOfWhoWaits(t *testing.T) {
	node, pool := New(2, metrics.NewActors(prometheus.NewRegistry())), NewPlaces(1)
	a, b := &Slot{}, &Slot{}
	a.In(pool)
	b.In(pool)
	if !a.Reserve(node, WantPlace) || b.Reserve(node, WantPlace) || !b.Reserve(node, WantSlot) {
		t.Error("a full pool refuses who waits, or nobody")
	}
	if pool.used != 2 {
		t.Errorf("%d are counted", pool.used)
	}
}
