package list

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/access"
	"parley/metrics"
)

// Every is how often the row of one session is sent at most.
const Every = time.Second

// Rows are read here.
type Rows interface {
	Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error]
}

// Touched says whose rows of a session have changed.
type Touched struct {
	Key      conversation.SessionKey
	Everyone bool                  // all users of the tenant; Users does not count then
	Users    []conversation.UserID // these
}

// Board knows who watches a list on this node. Its methods may be called from any goroutine.
type Board struct {
	rows    Rows
	log     *slog.Logger
	metrics *metrics.Lists

	mu      sync.RWMutex
	watches map[conversation.TenantID]map[conversation.UserID][]*Changes
}

// New makes the table of watches. rows is where rows are read from; m and log may be nil.
func New(rows Rows, m *metrics.Lists, log *slog.Logger) *Board {
	if m == nil {
		m = metrics.NewLists(nil)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Board{rows: rows, log: log, metrics: m, watches: map[conversation.TenantID]map[conversation.UserID][]*Changes{}}
}

// Watch begins a watch of what a user's list shows.
func (l *Board) Watch(tenant conversation.TenantID, user conversation.UserID) *Changes {
	w := &Changes{
		lists: l, tenant: tenant, user: user,
		waiting: map[conversation.SessionID]struct{}{}, sent: map[conversation.SessionID]time.Time{}, wake: make(chan struct{}, 1),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	users := l.watches[tenant]
	if users == nil {
		users = map[conversation.UserID][]*Changes{}
		l.watches[tenant] = users
	}
	users[user] = append(users[user], w)
	l.metrics.Watches.Inc()
	return w
}

// drop takes a watch out of the table; one that is not there is no matter.
func (l *Board) drop(w *Changes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	users := l.watches[w.tenant]
	for i, o := range users[w.user] {
		if o != w {
			continue
		}
		l.metrics.Watches.Dec()
		rest := append(users[w.user][:i:i], users[w.user][i+1:]...)
		if users[w.user] = rest; len(rest) == 0 {
			delete(users, w.user)
		}
		if len(users) == 0 {
			delete(l.watches, w.tenant)
		}
		return
	}
}

// Watched is true for a tenant in which somebody watches here.
func (l *Board) Watched(tenant conversation.TenantID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.watches[tenant] != nil
}

// Changed marks a session in the watches of those whose rows have changed.
func (l *Board) Changed(t Touched) {
	if t.Key.Session.Depth() > 0 {
		return
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	users := l.watches[t.Key.Tenant]
	if t.Everyone {
		for _, all := range users {
			mark(all, t.Key.Session)
		}
		return
	}
	for _, user := range t.Users {
		mark(users[user], t.Key.Session)
	}
}

func mark(all []*Changes, id conversation.SessionID) {
	for _, w := range all {
		w.mark(id)
	}
}

// Again marks every session of every list that is watched in a tenant: for when changes may
// have been missed. It reads the tenant's list once for all.
func (l *Board) Again(ctx context.Context, tenant conversation.TenantID) error {
	if !l.Watched(tenant) {
		return nil
	}
	l.metrics.Rereads.Inc()
	for row, err := range l.rows.Sessions(ctx, conversation.Page{Tenant: tenant}) {
		if err != nil {
			return err
		}
		l.Changed(Touched{Key: row.Key, Everyone: row.Access == conversation.AccessTenant, Users: audience(row)})
	}
	return nil
}

// AllAgain is Again for every tenant in which somebody watches.
func (l *Board) AllAgain(ctx context.Context) error {
	l.mu.RLock()
	tenants := slices.Collect(maps.Keys(l.watches))
	l.mu.RUnlock()
	for _, tenant := range tenants {
		if err := l.Again(ctx, tenant); err != nil {
			return err
		}
	}
	return nil
}

// row reads what a user's list says of a session; nil = it is not in the list.
func (l *Board) row(ctx context.Context, key conversation.SessionKey, user conversation.UserID) (*conversation.Summary, error) {
	for row, err := range l.rows.Sessions(ctx, conversation.Page{Tenant: key.Tenant, For: user, Only: key.Session}) {
		if err != nil {
			if errors.Is(err, conversation.ErrNotFound) {
				return nil, nil
			}
			return nil, err
		}
		if row.Key != key || row.Role(user) == access.None {
			return nil, nil
		}
		return &row, nil
	}
	return nil, nil
}
