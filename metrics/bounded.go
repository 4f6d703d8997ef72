package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Other is the label's value of all names that a bounded label has no place for.
const Other = "other"

// Bounded holds the collectors of names that others choose: tenants, tools, agents. The
// first names have collectors of their own, those that come later share those of "other".
// Looking a known name up takes no lock and no memory.
type Bounded[T any] struct {
	most   int
	make   func(name string) *T
	folded prometheus.Counter

	known sync.Map // string → *T
	mu    sync.Mutex
	n     int
	other *T
}

func bounded[T any](most int, folded prometheus.Counter, make func(name string) *T) *Bounded[T] {
	return &Bounded[T]{most: most, folded: folded, make: make}
}

// Of returns the collectors of a name.
func (b *Bounded[T]) Of(name string) *T {
	if got, ok := b.known.Load(name); ok {
		return got.(*T)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if got, ok := b.known.Load(name); ok {
		return got.(*T)
	}
	if b.n < b.most && name != Other {
		b.n++
		made := b.make(name)
		b.known.Store(name, made)
		return made
	}
	if b.other == nil {
		b.other = b.make(Other)
	}
	b.folded.Inc()
	return b.other
}

// closed holds the collectors of one label whose values are known when the program is
// written: looking one up takes no lock and no memory. A value that is not among them is
// made when it comes.
type closed[T any] struct {
	known map[string]T
	make  func(value string) T
}

func closedOver[T any](values []string, make func(value string) T) closed[T] {
	c := closed[T]{known: map[string]T{}, make: make}
	for _, v := range values {
		c.known[v] = make(v)
	}
	return c
}

func (c closed[T]) of(value string) T {
	if got, ok := c.known[value]; ok {
		return got
	}
	return c.make(value)
}
