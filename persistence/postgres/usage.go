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

// usage is what tenants have stored, as of some seconds ago, in the whole cluster. Only
// tenants that this process has asked about are summed up. The nil one limits nothing.
type usage struct {
	sessions, bytes int64 // the limits; 0 = none
	end             chan struct{}
	once            sync.Once
	mu              sync.Mutex
	of              map[conversation.TenantID]*used
}

type used struct{ sessions, bytes int64 }

func newUsage(sessions, bytes int64) *usage {
	return &usage{sessions: sessions, bytes: bytes, end: make(chan struct{}), of: map[conversation.TenantID]*used{}}
}

func (u *usage) stop() { u.once.Do(func() { close(u.end) }) }

func (u *usage) tenant(id conversation.TenantID) *used {
	if u.of[id] == nil {
		u.of[id] = &used{}
	}
	return u.of[id]
}

// tooMany is true if a tenant has as many sessions as it may have, as of the last sum: what
// was made since then is not counted.
func (u *usage) tooMany(id conversation.TenantID) bool {
	if u == nil || u.sessions == 0 {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tenant(id).sessions >= u.sessions
}

// tooMuch is true if a tenant has stored as much as it may.
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
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-u.end:
			return
		case <-next.C:
		}
		begun := time.Now()
		u.sum(ctx, s)
		next.Reset(max(sumEvery, sumPart*time.Since(begun)))
	}
}

func (u *usage) sum(ctx context.Context, s *Store) {
	u.mu.Lock()
	tenants := make([]conversation.TenantID, 0, len(u.of))
	for id := range u.of {
		tenants = append(tenants, id)
	}
	u.mu.Unlock()
	for _, id := range tenants {
		within, cancel := s.within(ctx)
		var now used
		err := s.reading.QueryRow(within, "select count(*) filter (where root), coalesce(sum(stored), 0)::bigint from sessions where tenant = $1 and erased is null",
			string(id)).Scan(&now.sessions, &now.bytes)
		cancel()
		if err != nil {
			return // the sums of before count on
		}
		u.mu.Lock()
		*u.tenant(id) = now
		u.mu.Unlock()
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
