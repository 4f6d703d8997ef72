package usage

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// Session is what a session counts for at least: its head, its places in lists.
const Session = 512

// Limits are the most that one tenant may store; 0 = no limit.
type Limits struct {
	Sessions int64 // root sessions
	Bytes    int64
}

// Tenants is the usage of all tenants. The nil one counts nothing and refuses nothing.
type Tenants struct {
	limits  Limits
	counted atomic.Bool // the sum of what was stored at the start is there
	cancel  context.CancelFunc
	done    chan struct{}

	mu sync.RWMutex
	of map[conversation.TenantID]*used
}

type used struct{ sessions, bytes atomic.Int64 }

// Source is what the count reads.
type Source struct {
	Store *pebble.DB
	Views *sync.RWMutex // held for reading while a snapshot of Store is open
	Log   *slog.Logger
}

// Start begins to count; nil if there is no limit. Nobody may write to the store yet.
func Start(n Source, l Limits) *Tenants {
	if l == (Limits{}) {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &Tenants{limits: l, cancel: cancel, done: make(chan struct{}), of: map[conversation.TenantID]*used{}}
	n.Views.RLock()
	at := n.Store.NewSnapshot()
	go func() { // ends with the count, or with Close
		defer close(t.done)
		defer n.Views.RUnlock()
		defer func() { _ = at.Close() }()
		switch err := t.count(ctx, n.Store, at); {
		case err == nil:
			t.counted.Store(true)
		case ctx.Err() == nil:
			n.Log.Error("what tenants have stored could not be counted: their quotas refuse nothing until the next start", "error", err)
		}
	}()
	return t
}

// Close ends the count.
func (t *Tenants) Close() {
	if t != nil {
		t.cancel()
		<-t.done
	}
}

// Counted waits until the count has ended.
func (t *Tenants) Counted() bool {
	<-t.done
	return t.counted.Load()
}

func (t *Tenants) count(ctx context.Context, p *pebble.DB, at *pebble.Snapshot) error {
	table := []byte{layout.TableSession}
	it, err := at.NewIter(&pebble.IterOptions{LowerBound: table, UpperBound: layout.After(table)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && ctx.Err() == nil; {
		key, rest, fits := layout.CutSession(it.Key()[1:])
		if fits && len(rest) == 1 && rest[0] == layout.KindHead {
			if h, err := layout.DecodeHead(it.Value()); err == nil { // what is damaged counts for nothing
				t.Add(key, Of(p, key, h), true)
			}
		}
		ok = it.SeekGE(layout.After(layout.SessionPrefix(nil, key)))
	}
	if err := it.Close(); err != nil {
		return err
	}
	return errors.Join(t.countBlobs(ctx, at), ctx.Err())
}

// countBlobs adds what is attached to messages.
func (t *Tenants) countBlobs(ctx context.Context, at *pebble.Snapshot) error {
	table := []byte{layout.TableBlobs}
	it, err := at.NewIter(&pebble.IterOptions{LowerBound: table, UpperBound: layout.After(table)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
		if key, _, fits := layout.CutHolder(it.Key()); fits && len(it.Value()) == 8 {
			t.Add(key, int64(binary.BigEndian.Uint64(it.Value())), false)
		}
	}
	return it.Close()
}

// Of is what a session with the head h counts for.
func Of(p *pebble.DB, key conversation.SessionKey, h *layout.Head) int64 {
	if h.Row.Stored > 0 {
		return int64(h.Row.Stored)
	}
	prefix := layout.SessionPrefix(nil, key)
	about, err := p.EstimateDiskUsage(prefix, layout.After(prefix))
	if err != nil {
		return Session
	}
	return Session + int64(about)
}

func (t *Tenants) tenant(id conversation.TenantID) *used {
	t.mu.RLock()
	u := t.of[id]
	t.mu.RUnlock()
	if u == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if u = t.of[id]; u == nil {
			u = &used{}
			t.of[id] = u
		}
	}
	return u
}

// Add notes that a session came (made) with so many bytes, or grew by them.
func (t *Tenants) Add(key conversation.SessionKey, bytes int64, made bool) {
	if t == nil {
		return
	}
	u := t.tenant(key.Tenant)
	u.bytes.Add(bytes)
	if made && key.Session.Depth() == 0 {
		u.sessions.Add(1)
	}
}

// Remove notes that a session of so many bytes is gone.
func (t *Tenants) Remove(key conversation.SessionKey, bytes int64) {
	if t == nil {
		return
	}
	u := t.tenant(key.Tenant)
	u.bytes.Add(-bytes)
	if key.Session.Depth() == 0 {
		u.sessions.Add(-1)
	}
}

// Make counts a new session, or says that there is no room for it.
func (t *Tenants) Make(key conversation.SessionKey) bool {
	if t == nil {
		return true
	}
	u := t.tenant(key.Tenant)
	if key.Session.Depth() == 0 {
		if n := u.sessions.Add(1); t.limits.Sessions > 0 && n > t.limits.Sessions && t.counted.Load() {
			u.sessions.Add(-1)
			return false
		}
	}
	u.bytes.Add(Session)
	return true
}

// Take counts more bytes of a tenant, or says that there is no room for them. Who then does
// not store them gives them back with Add.
func (t *Tenants) Take(id conversation.TenantID, bytes int64) bool {
	if t == nil {
		return true
	}
	u := t.tenant(id)
	if n := u.bytes.Add(bytes); t.limits.Bytes > 0 && n > t.limits.Bytes && t.counted.Load() {
		u.bytes.Add(-bytes)
		return false
	}
	return true
}

// Full is true while a tenant has stored as much as it may.
func (t *Tenants) Full(id conversation.TenantID) bool {
	return t != nil && t.limits.Bytes > 0 && t.counted.Load() && t.tenant(id).bytes.Load() >= t.limits.Bytes
}
