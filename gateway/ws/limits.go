package ws

import (
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// bucket is a connection's allowance of commands or control frames: rate a second,
// burst at once.
// It belongs to the reader.
type bucket struct {
	rate   float64 // 0 = no limit
	burst  float64
	tokens float64
	at     time.Time
	flood  int // frames refused since the last accepted one
}

// floodFactor times the burst is the number of refusals in a row that ends a connection.
const floodFactor = 5

func newBucket(rate float64, burst int, now time.Time) bucket {
	return bucket{rate: rate, burst: float64(burst), tokens: float64(burst), at: now}
}

// allow takes one token. Without one it says how long to wait, and whether the
// client has ignored that for too long.
func (b *bucket) allow(now time.Time) (wait time.Duration, flooded bool) {
	if b.rate == 0 {
		return 0, false
	}
	b.tokens = min(b.burst, b.tokens+now.Sub(b.at).Seconds()*b.rate)
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
		b.flood = 0
		return 0, false
	}
	b.flood++
	return time.Duration((1 - b.tokens) / b.rate * float64(time.Second)), float64(b.flood) > floodFactor*b.burst
}

// connLimits limits how many connections there are that have said hello, by whom.
type connLimits struct {
	limits protocol.Limits

	mu     sync.Mutex
	user   map[userKey]int
	tenant map[conversation.TenantID]int
}

type userKey struct {
	tenant conversation.TenantID
	user   conversation.UserID
}

func newConnLimits(l protocol.Limits) *connLimits {
	return &connLimits{
		limits: l,
		user:   make(map[userKey]int), tenant: make(map[conversation.TenantID]int),
	}
}

// add counts a connection of a principal.
func (c *connLimits) add(p *service.Principal) (refusedBy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := userKey{p.Tenant, p.User}
	if service.OverLimit(c.user[k], c.limits.ConnectionsPerUser) {
		return "connections_per_user"
	}
	if service.OverLimit(c.tenant[p.Tenant], c.limits.ConnectionsPerTenant) {
		return "connections_per_tenant"
	}
	c.user[k]++
	c.tenant[p.Tenant]++
	return ""
}

func (c *connLimits) remove(p *service.Principal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := userKey{p.Tenant, p.User}
	if c.user[k]--; c.user[k] == 0 {
		delete(c.user, k)
	}
	if c.tenant[p.Tenant]--; c.tenant[p.Tenant] == 0 {
		delete(c.tenant, p.Tenant)
	}
}
