package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/service"
)

// ticketLife is how long a ticket waits to be used.
const ticketLife = 30 * time.Second

const ticketPrefix = "ticket_"

// tickets are the tickets that nobody has used yet: a browser cannot give a socket or an
// EventSource a header, and an address is written down in many places, so what stands in
// it is of use once and for half a minute. Only hashes are kept.
type tickets struct {
	most int // of a user; 0 = no limit
	now  func() time.Time

	mu     sync.Mutex
	byHash map[[sha256.Size]byte]ticket
	users  map[userKey]int
	swept  time.Time
}

type ticket struct {
	who     *service.Principal
	expires time.Time
}

type userKey struct {
	tenant conversation.TenantID
	user   conversation.UserID
}

func newTickets(most int, now func() time.Time) *tickets {
	return &tickets{most: most, now: now, byHash: map[[sha256.Size]byte]ticket{}, users: map[userKey]int{}}
}

// make makes a ticket for p, with p's scopes and p's end; ok is false when the user has
// too many.
func (t *tickets) make(p *service.Principal) (text string, expires time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	user := userKey{p.Tenant, p.User}
	if now.Sub(t.swept) >= time.Second || service.OverLimit(t.users[user], t.most) {
		t.sweep(now)
	}
	if service.OverLimit(t.users[user], t.most) {
		return "", time.Time{}, false
	}
	text = ticketPrefix + strings.ToLower(rand.Text())
	expires = now.Add(ticketLife)
	if !p.Expires.IsZero() && p.Expires.Before(expires) {
		expires = p.Expires
	}
	t.byHash[sha256.Sum256([]byte(text))] = ticket{p, expires}
	t.users[user]++
	return text, expires, true
}

// take uses a ticket up; nil = there is none, or not any more.
func (t *tickets) take(text string) *service.Principal {
	hash := sha256.Sum256([]byte(text))
	t.mu.Lock()
	defer t.mu.Unlock()
	found, there := t.byHash[hash]
	if !there {
		return nil
	}
	t.drop(hash, found)
	if !t.now().Before(found.expires) {
		return nil
	}
	return found.who
}

// sweep drops those that nobody has used in time. The caller holds mu.
func (t *tickets) sweep(now time.Time) {
	t.swept = now
	for hash, old := range t.byHash {
		if !now.Before(old.expires) {
			t.drop(hash, old)
		}
	}
}

func (t *tickets) drop(hash [sha256.Size]byte, old ticket) {
	delete(t.byHash, hash)
	user := userKey{old.who.Tenant, old.who.User}
	if t.users[user]--; t.users[user] == 0 {
		delete(t.users, user)
	}
}
