package chatstest

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
)

// Maps is a chats.Store in maps. It starts no goroutine and holds nothing but a mutex while
// it works.
type Maps struct {
	of    Host
	rows  map[chats.Key]chats.Row
	feeds map[conversation.TenantID]*feed
	saves int
	fail  func(n int, rows []chats.Row, entries []chats.Entry) (err error, applied bool)
}

var _ chats.Store = (*Maps)(nil)

// Host is what Maps has to know of the sessions that rows and entries belong to.
type Host struct {
	Mutex *sync.Mutex // that of the sessions, and of the maps

	// These are called with the mutex held.
	Ready  func(context.Context) error        // conversation.ErrClosed, or that the context has ended
	Erased func(conversation.SessionKey) bool // the session has been erased
	Room   func() error                       // conversation.ErrFull
}

type feed struct {
	last    chats.Number
	entries []chats.Entry
}

// NewMaps is an empty one.
func NewMaps(of Host) *Maps {
	return &Maps{of: of, rows: map[chats.Key]chats.Row{}, feeds: map[conversation.TenantID]*feed{}}
}

// FailSave installs a fault: f is asked on every Save that would be written, n counts the
// calls of Save from 1. With err = nil the save goes on. Else Save returns err, and applied
// says whether it was written all the same: an unknown outcome. nil removes the fault. f
// must not call the store.
func (m *Maps) FailSave(f func(n int, rows []chats.Row, entries []chats.Entry) (err error, applied bool)) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	m.fail = f
}

// Erase takes along what belongs to a session that is erased. The mutex is held.
func (m *Maps) Erase(key conversation.SessionKey) {
	for k, r := range m.rows {
		if k.Tenant == key.Tenant && r.Session == key.Session {
			delete(m.rows, k)
		}
	}
	if f := m.feeds[key.Tenant]; f != nil {
		f.entries = slices.DeleteFunc(f.entries, func(e chats.Entry) bool { return e.Session == key.Session })
	}
}

// Load implements chats.Store.
func (m *Maps) Load(ctx context.Context, k chats.Key) (chats.Row, error) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	if err := m.of.Ready(ctx); err != nil {
		return chats.Row{}, err
	}
	r := m.rows[k]
	r.Key, r.Value = k, bytes.Clone(r.Value)
	return r, nil
}

// Save implements chats.Store.
func (m *Maps) Save(ctx context.Context, tenant conversation.TenantID, rows []chats.Row, entries []chats.Entry) error {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	m.saves++
	if err := cmp.Or(m.of.Ready(ctx), chats.Check(tenant, rows, entries), m.fits(tenant, rows, entries), m.of.Room()); err != nil {
		return err
	}
	if m.fail != nil {
		if err, applied := m.fail(m.saves, rows, entries); err != nil {
			if applied {
				m.apply(tenant, rows, entries)
			}
			return err
		}
	}
	m.apply(tenant, rows, entries)
	return nil
}

// fits is ErrErased or ErrStale.
func (m *Maps) fits(tenant conversation.TenantID, rows []chats.Row, entries []chats.Entry) error {
	erased := func(session conversation.SessionID) bool {
		return session != "" && m.of.Erased(conversation.SessionKey{Tenant: tenant, Session: session})
	}
	stale := false
	for _, r := range rows {
		if erased(r.Session) {
			return chats.ErrErased
		}
		stale = stale || r.Revision != m.rows[r.Key].Revision
	}
	for _, e := range entries {
		if erased(e.Session) {
			return chats.ErrErased
		}
	}
	if stale {
		return chats.ErrStale
	}
	return nil
}

func (m *Maps) apply(tenant conversation.TenantID, rows []chats.Row, entries []chats.Entry) {
	for _, r := range rows {
		if r.Value == nil {
			delete(m.rows, r.Key)
			continue
		}
		r.Revision++
		r.Value = bytes.Clone(r.Value)
		m.rows[r.Key] = r
	}
	f := m.feeds[tenant]
	if f == nil {
		f = &feed{}
		m.feeds[tenant] = f
	}
	for _, e := range entries {
		f.last++
		e.Number, e.At, e.Value = f.last, time.UnixMilli(e.At.UnixMilli()).UTC(), append([]byte{}, e.Value...)
		f.entries = append(f.entries, e)
	}
}

// Rows implements chats.Store.
func (m *Maps) Rows(ctx context.Context, tenant conversation.TenantID, channel chats.Channel) iter.Seq2[chats.Row, error] {
	return func(yield func(chats.Row, error) bool) {
		m.of.Mutex.Lock()
		err := m.of.Ready(ctx)
		var all []chats.Row
		for k, r := range m.rows {
			if k.Tenant == tenant && k.Channel == channel {
				r.Value = bytes.Clone(r.Value)
				all = append(all, r)
			}
		}
		m.of.Mutex.Unlock()
		if err != nil {
			yield(chats.Row{}, err)
			return
		}
		slices.SortFunc(all, func(a, b chats.Row) int { return cmp.Compare(a.Chat, b.Chat) })
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Feed implements chats.Store.
func (m *Maps) Feed(ctx context.Context, tenant conversation.TenantID) (chats.Feed, error) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	if err := m.of.Ready(ctx); err != nil {
		return chats.Feed{}, err
	}
	f := m.feeds[tenant]
	if f == nil {
		return chats.Feed{First: 1}, nil
	}
	first := f.last + 1
	if len(f.entries) > 0 {
		first = f.entries[0].Number
	}
	return chats.Feed{First: first, Last: f.last}, nil
}

// Entries implements chats.Store.
func (m *Maps) Entries(ctx context.Context, tenant conversation.TenantID, after chats.Number, limit int) (all []chats.Entry, err error) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	if err := m.of.Ready(ctx); err != nil {
		return nil, err
	}
	f := m.feeds[tenant]
	if f == nil {
		return nil, nil
	}
	for _, e := range f.entries {
		if e.Number > after && len(all) < limit {
			e.Value = bytes.Clone(e.Value)
			all = append(all, e)
		}
	}
	return all, nil
}

// Trim implements chats.Store.
func (m *Maps) Trim(ctx context.Context, tenant conversation.TenantID, through chats.Number) error {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	if err := m.of.Ready(ctx); err != nil {
		return err
	}
	if f := m.feeds[tenant]; f != nil {
		f.entries = slices.DeleteFunc(f.entries, func(e chats.Entry) bool { return e.Number <= through })
	}
	return nil
}
