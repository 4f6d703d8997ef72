package metrics

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// table holds what is made for a name when it comes first. Looking a known name up takes
// no lock and no memory, which a Vec's look-up or a sync.Map's would.
type table[T any] struct {
	known atomic.Pointer[map[string]T]
	mu    sync.Mutex // held to add a name
}

func (t *table[T]) get(name string) (T, bool) {
	if known := t.known.Load(); known != nil {
		got, ok := (*known)[name]
		return got, ok
	}
	var none T
	return none, false
}

// add adds a name. The caller holds mu.
func (t *table[T]) add(name string, value T) {
	more := map[string]T{name: value}
	if known := t.known.Load(); known != nil {
		more = maps.Clone(*known)
		more[name] = value
	}
	t.known.Store(&more)
}

// Other is the label's value of all names that a bounded label has no place for.
const Other = "other"

// Bounded holds the collectors of names that others choose: tenants, tools, agents, models. The
// first names have collectors of their own, those that come later share those of "other".
type Bounded[T any] struct {
	most   int
	make   func(name string) *T
	folded prometheus.Counter // nil = nobody counts

	known table[*T]
	n     int // of known; guarded by its lock, as other
	other *T
}

func bounded[T any](most int, folded prometheus.Counter, make func(name string) *T) *Bounded[T] {
	return &Bounded[T]{most: most, folded: folded, make: make}
}

// Of returns the collectors of a name.
func (b *Bounded[T]) Of(name string) *T {
	if got, ok := b.known.get(name); ok {
		return got
	}
	b.known.mu.Lock()
	defer b.known.mu.Unlock()
	if got, ok := b.known.get(name); ok {
		return got
	}
	if b.n < b.most && name != Other {
		b.n++
		made := b.make(name)
		b.known.add(name, made)
		return made
	}
	if b.other == nil {
		b.other = b.make(Other)
	}
	if b.folded != nil {
		b.folded.Inc()
	}
	return b.other
}

// lazily makes the collectors of the values of a label that come from a closed set.
func lazily[T any](make func(value string) T) func(value string) T {
	t := &table[T]{}
	return func(value string) T {
		if got, ok := t.get(value); ok {
			return got
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		got, ok := t.get(value)
		if !ok {
			got = make(value)
			t.add(value, got)
		}
		return got
	}
}
