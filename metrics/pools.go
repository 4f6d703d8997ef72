package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// StorePool is the state of one pool of connections to the shared store's database.
type StorePool struct {
	Name        string // committing, acquiring, reading
	InUse, Most int32
	Waits       int64   // times that no connection was free
	WaitSeconds float64 // of those times
}

// pools shows the pools of an open store.
type pools struct {
	rows[StorePool]
	now atomic.Pointer[func() []StorePool]
}

// newPools makes and registers it. Before a store is watched there are no series.
func newPools(r prometheus.Registerer) *pools {
	const pool = "pool=committing|acquiring|reading"
	p := &pools{}
	p.rows = rows[StorePool]{
		read: func() []StorePool {
			if now := p.now.Load(); now != nil {
				return (*now)()
			}
			return nil
		},
		labels: func(s StorePool) []string { return []string{s.Name} },
		columns: []column[StorePool]{
			gaugeOf("store_pool_connections_in_use", "Connections to the database that are in use, by what they are for; the shared store's alone.", func(s StorePool) float64 { return float64(s.InUse) }, pool),
			gaugeOf("store_pool_connections_most", "Connections that a pool has at most.", func(s StorePool) float64 { return float64(s.Most) }, pool),
			counterOf("store_pool_waits_total", "Times that no connection of a pool was free.", func(s StorePool) int64 { return s.Waits }, pool),
			columnOf(described{"parley_store_pool_wait_seconds_total", "counter", "Time that was waited for a free connection of a pool.", []string{pool}}, prometheus.CounterValue,
				func(s StorePool) float64 { return s.WaitSeconds }),
		},
	}
	watch(r, &p.rows)
	return p
}

// WatchPools shows the pools of an open shared store with every scrape, until stop is called.
// Stores of one process are watched one at a time: the last one counts.
func (p *Persistence) WatchPools(read func() []StorePool) (stop func()) {
	p.pools.now.Store(&read)
	return func() { p.pools.now.CompareAndSwap(&read, nil) }
}
