package postgres

import (
	"context"
	"sync"
	"time"

	"parley/conversation"
)

// How often what tenants have stored is summed up. A sum that takes long is taken less
// often, so that it is never more than a small part of the database's work.
const (
	sumEvery = 3 * time.Second
	sumPart  = 50
)

// firstSum is how long a new session waits for the first sum of its tenant. After that it is
// made, and the sums of later hold the limit.
const firstSum = time.Second

// usage is what tenants have stored, as of some seconds ago, in the whole cluster. Only
// tenants that this process has asked about are summed up. The nil one limits nothing.
type usage struct {
	sessions, bytes int64 // the limits; 0 = none
	end             chan struct{}
	asked           chan struct{} // somebody has asked about a tenant that has no sum
	once            sync.Once
	mu              sync.Mutex
	of              map[conversation.TenantID]*used
}

type used struct {
	sessions, bytes int64
	taken           int64         // of the bytes that may be stored, by what is being stored
	since           int64         // of bytes: what was stored since a sum began
	known           chan struct{} // closed with the first sum
}

func newUsage(sessions, bytes int64) *usage {
	return &usage{
		sessions: sessions, bytes: bytes, end: make(chan struct{}), asked: make(chan struct{}, 1),
		of: map[conversation.TenantID]*used{},
	}
}

func (u *usage) stop() { u.once.Do(func() { close(u.end) }) }

// tenant has a tenant summed up from now on, the first time at once. u.mu is held.
func (u *usage) tenant(id conversation.TenantID) *used {
	if u.of[id] == nil {
		u.of[id] = &used{known: make(chan struct{})}
		select {
		case u.asked <- struct{}{}:
		default: // a sum is wanted already
		}
	}
	return u.of[id]
}

// take is true if a tenant may store so much more, as of the last sum, what this node has
// stored since and what it is storing. It waits for the first sum, a moment only. The room is
// the caller's until he says with done whether it was stored.
func (u *usage) take(ctx context.Context, id conversation.TenantID, size int64) (fits bool, done func(stored bool)) {
	if u == nil || u.bytes == 0 {
		return true, func(bool) {}
	}
	t := u.summed(ctx, id)
	u.mu.Lock()
	defer u.mu.Unlock()
	if t.bytes+t.taken+size > u.bytes {
		return false, func(bool) {}
	}
	t.taken += size
	return true, func(stored bool) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if t.taken -= size; stored { // a sum that is being made may have it or not
			t.bytes += size
			t.since += size
		}
	}
}

// tooMany is true if a tenant has as many sessions as it may have, as of the last sum: what
// was made since then is not counted. It waits for the first one, a moment only.
func (u *usage) tooMany(ctx context.Context, id conversation.TenantID) bool {
	if u == nil || u.sessions == 0 {
		return false
	}
	t := u.summed(ctx, id)
	u.mu.Lock()
	defer u.mu.Unlock()
	return t.sessions >= u.sessions
}

// summed is what a tenant has stored, after its first sum or a moment. It is read with u.mu.
func (u *usage) summed(ctx context.Context, id conversation.TenantID) *used {
	u.mu.Lock()
	t := u.tenant(id)
	u.mu.Unlock()
	late := time.NewTimer(firstSum)
	defer late.Stop()
	select {
	case <-t.known:
	case <-late.C:
	case <-ctx.Done():
	case <-u.end:
	}
	return t
}

// tooMuch is true if a tenant has stored as much as it may. Those who ask must not wait: it
// is not before the first sum, which their question begins.
func (u *usage) tooMuch(id conversation.TenantID) bool {
	if u == nil || u.bytes == 0 {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tenant(id).bytes >= u.bytes
}

// run sums up until the store is closed.
func (u *usage) run(ctx context.Context, s *Store) {
	next := time.NewTimer(sumEvery)
	defer next.Stop()
	for {
		select {
		case <-u.end:
			return
		case <-u.asked:
			u.sum(ctx, s, true)
			continue
		case <-next.C:
		}
		begun := time.Now()
		u.sum(ctx, s, false)
		next.Reset(max(sumEvery, sumPart*time.Since(begun)))
	}
}

const sumOfTenant = `select count(*) filter (where root), (coalesce(sum(stored), 0) + (select coalesce(sum(size), 0) from blobs where tenant = $1))::bigint
from sessions where tenant = $1 and erased is null`

// sum sums up all tenants, or those alone that have no sum yet.
func (u *usage) sum(ctx context.Context, s *Store, unknown bool) {
	u.mu.Lock()
	tenants := make([]conversation.TenantID, 0, len(u.of))
	for id, t := range u.of {
		if !unknown || !t.isKnown() {
			tenants = append(tenants, id)
		}
	}
	u.mu.Unlock()
	for _, id := range tenants {
		u.mu.Lock()
		u.of[id].since = 0
		u.mu.Unlock()
		within, cancel := s.within(ctx)
		var now used
		err := s.reading.QueryRow(within, sumOfTenant, string(id)).Scan(&now.sessions, &now.bytes)
		cancel()
		if err != nil {
			return // the sums of before count on
		}
		u.mu.Lock()
		t := u.tenant(id)
		t.sessions, t.bytes = now.sessions, now.bytes+t.since // rather twice for some seconds than not at all
		if !t.isKnown() {
			close(t.known)
		}
		u.mu.Unlock()
	}
}

func (t *used) isKnown() bool {
	select {
	case <-t.known:
		return true
	default:
		return false
	}
}

// Quota is ErrQuota while a tenant has stored as much as it may.
func (s *Store) Quota(tenant conversation.TenantID) error {
	if !s.usage.tooMuch(tenant) {
		return nil
	}
	s.metrics.QuotaRefused.WithLabelValues("stored_bytes_per_tenant").Inc()
	return conversation.ErrQuota
}
