package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/member"
	"parley/gateway/service"
)

// ticketLife is how long a ticket waits to be used.
const ticketLife = 30 * time.Second

const ticketPrefix = "ticket_"

// ticketBytes is how long a ticket is.
const ticketBytes = len(ticketPrefix) + 26

// hashTicket is what is kept of a ticket; false = it can be none.
func hashTicket(text string) (hash [sha256.Size]byte, ok bool) {
	if len(text) != ticketBytes || !strings.HasPrefix(text, ticketPrefix) {
		return hash, false
	}
	return sha256.Sum256([]byte(text)), true
}

// bearer is what is kept of a principal with a ticket. Nodes of two releases read it.
type bearer struct {
	Tenant     conversation.TenantID `json:"tenant"`
	User       conversation.UserID   `json:"user"`
	Name       string                `json:"name,omitempty"`
	Scopes     []string              `json:"scopes"`
	Expires    time.Time             `json:"expires,omitzero"`
	Credential string                `json:"credential,omitempty"`
}

// putTicket makes a ticket for p, with p's scopes and p's end; ok is false when the user
// has too many.
func putTicket(ctx context.Context, kept member.Tickets, p *service.Principal, most int) (text string, expires time.Time, ok bool, err error) {
	now := time.Now()
	text = ticketPrefix + strings.ToLower(rand.Text())
	expires = now.Add(ticketLife)
	if !p.Expires.IsZero() && p.Expires.Before(expires) {
		expires = p.Expires
	}
	who, err := json.Marshal(bearer(*p))
	if err != nil {
		return "", time.Time{}, false, fmt.Errorf("make a ticket: %w", err)
	}
	hash, _ := hashTicket(text)
	ok, err = kept.PutTicket(ctx, member.Ticket{Hash: hash, Tenant: p.Tenant, User: p.User, Who: who, Life: expires.Sub(now)}, most)
	return text, expires, ok, err
}

// takeTicket uses a ticket up; nil = there is none, or not any more.
func takeTicket(ctx context.Context, kept member.Tickets, text string) (*service.Principal, error) {
	hash, ok := hashTicket(text)
	if !ok {
		return nil, nil
	}
	who, err := kept.TakeTicket(ctx, hash)
	if err != nil || who == nil {
		return nil, err
	}
	var b bearer
	if err := json.Unmarshal(who, &b); err != nil {
		return nil, fmt.Errorf("a ticket cannot be read: %w", err)
	}
	p := service.Principal(b)
	return &p, nil
}

// tickets are those of one node, that nobody has used yet: a browser cannot give a socket or
// an EventSource a header, and an address is written down in many places, so what stands
// in it is of use once and for half a minute. Only hashes are kept.
type tickets struct {
	mu     sync.Mutex
	byHash map[[sha256.Size]byte]ticket
	users  map[service.UserID]int
	swept  time.Time
}

var _ member.Tickets = (*tickets)(nil)

type ticket struct {
	member.Ticket
	expires time.Time
}

func newTickets() *tickets {
	return &tickets{byHash: map[[sha256.Size]byte]ticket{}, users: map[service.UserID]int{}}
}

// PutTicket implements member.Tickets.
func (t *tickets) PutTicket(_ context.Context, put member.Ticket, most int) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	user := service.UserID{Tenant: put.Tenant, User: put.User}
	if now.Sub(t.swept) >= time.Second || service.OverLimit(t.users[user], most) {
		t.sweep(now)
	}
	if service.OverLimit(t.users[user], most) {
		return false, nil
	}
	t.byHash[put.Hash] = ticket{put, now.Add(put.Life)}
	t.users[user]++
	return true, nil
}

// TakeTicket implements member.Tickets.
func (t *tickets) TakeTicket(_ context.Context, hash [sha256.Size]byte) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, there := t.byHash[hash]
	if !there {
		return nil, nil
	}
	t.drop(found)
	if !time.Now().Before(found.expires) {
		return nil, nil
	}
	return found.Who, nil
}

// sweep drops those that nobody has used in time. The caller holds mu.
func (t *tickets) sweep(now time.Time) {
	t.swept = now
	for _, old := range t.byHash {
		if !now.Before(old.expires) {
			t.drop(old)
		}
	}
}

func (t *tickets) drop(old ticket) {
	delete(t.byHash, old.Hash)
	user := service.UserID{Tenant: old.Tenant, User: old.User}
	if t.users[user]--; t.users[user] == 0 {
		delete(t.users, user)
	}
}
