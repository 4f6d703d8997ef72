package slack

import "sync"

// recent keeps the newest values by their keys: n of them at least, 2n at most.
type recent[V any] struct {
	n          int
	mu         sync.Mutex // guards young and old
	young, old map[string]V
}

func newRecent[V any](n int) *recent[V] { return &recent[V]{n: n, young: map[string]V{}} }

func (r *recent[V]) get(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.young[key]; ok {
		return v, true
	}
	v, ok := r.old[key]
	if ok {
		r.keep(key, v) // it is in use
	}
	return v, ok
}

func (r *recent[V]) put(key string, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(key, v)
}

// keep puts a value among the young ones. The caller holds mu.
func (r *recent[V]) keep(key string, v V) {
	if _, ok := r.young[key]; !ok && len(r.young) >= r.n {
		r.young, r.old = map[string]V{}, r.young
	}
	r.young[key] = v
}
