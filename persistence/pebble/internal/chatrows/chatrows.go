package chatrows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/persistence/pebble/internal/erasure"
	"parley/persistence/pebble/internal/layout"
)

// Deps is what Chats works with.
type Deps struct {
	Store *pebble.DB

	Enter func(context.Context) error // begins a call; Leave must follow if it returns nil
	Leave func()
	Ready func() error // why nothing can be written, or nil
	Room  func() error // conversation.ErrFull, or nil

	// View runs read on a snapshot, and returns when all that it saw is durable.
	View func(ctx context.Context, op string, read func(*pebble.Snapshot) error) error

	// Apply makes a batch durable. An error means that the outcome is unknown.
	Apply func(conversation.SessionKey, *pebble.Batch) error

	// Hold keeps sessions from being erased until release is called.
	Hold func([]conversation.SessionKey) (release func())

	// Unread makes the answer of a write of an error of what had to be read before it.
	Unread func(error) error
}

// Chats is a chats.Store.
type Chats struct {
	Deps
	mu      sync.Mutex
	tenants map[conversation.TenantID]*tenant // that somebody works for
}

var _ chats.Store = (*Chats)(nil)

// tenant is a tenant that somebody works for.
type tenant struct {
	busy    sync.Mutex // held by who writes, until it is durable
	waiting []*save    // guarded by Chats.mu
	users   int        // the same
}

// save is a Save that waits.
type save struct {
	rows    []chats.Row
	entries []chats.Entry
	size    int
	end     chan error // takes one
}

// New makes the store of what channels remember.
func New(n Deps) *Chats {
	return &Chats{Deps: n, tenants: map[conversation.TenantID]*tenant{}}
}

func (c *Chats) use(id conversation.TenantID, waits *save) *tenant {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[id]
	if t == nil {
		t = &tenant{}
		c.tenants[id] = t
	}
	t.users++
	if waits != nil {
		t.waiting = append(t.waiting, waits)
	}
	return t
}

func (c *Chats) release(id conversation.TenantID, t *tenant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(c.tenants, id)
	}
}

// Lock keeps everybody from writing for a tenant until unlock is called.
func (c *Chats) Lock(id conversation.TenantID) (unlock func()) {
	t := c.use(id, nil)
	t.busy.Lock()
	return func() {
		t.busy.Unlock()
		c.release(id, t)
	}
}

// Save implements chats.Store.
func (c *Chats) Save(ctx context.Context, id conversation.TenantID, rows []chats.Row, entries []chats.Entry) error {
	if err := c.Enter(ctx); err != nil {
		return err
	}
	defer c.Leave()
	if err := cmp.Or(chats.Check(id, rows, entries), c.Ready(), c.Room()); err != nil {
		return err
	}
	sessions := named(id, rows, entries)
	defer c.Hold(sessions)()
	for _, key := range sessions {
		gone, err := erasure.Has(c.Store, key)
		if err != nil {
			return fmt.Errorf("save chats: %w", c.Unread(err))
		}
		if gone {
			return chats.ErrErased
		}
	}
	s := &save{rows: rows, entries: entries, end: make(chan error, 1)}
	for _, r := range rows {
		s.size += len(r.Value)
	}
	for _, e := range entries {
		s.size += len(e.Value)
	}
	return c.write(id, s)
}

// named are the sessions that rows and entries name, in their order.
func named(id conversation.TenantID, rows []chats.Row, entries []chats.Entry) (keys []conversation.SessionKey) {
	var names []conversation.SessionID
	for _, r := range rows {
		names = append(names, r.Session)
	}
	for _, e := range entries {
		names = append(names, e.Session)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "" {
			keys = append(keys, conversation.SessionKey{Tenant: id, Session: name})
		}
	}
	return keys
}

// write waits until a save has been written, by this goroutine or by one before it.
func (c *Chats) write(id conversation.TenantID, s *save) error {
	t := c.use(id, s)
	defer c.release(id, t)
	t.busy.Lock()
	defer t.busy.Unlock()
	for {
		select {
		case err := <-s.end:
			return err
		default:
			c.lead(id, c.take(t))
		}
	}
}

// maxBytes bounds what is written at once; a single save may be more.
const maxBytes = 1 << 20

// take takes the saves that have waited longest.
func (c *Chats) take(t *tenant) []*save {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	for n < len(t.waiting) && (n == 0 || size+t.waiting[n].size <= maxBytes) {
		size += t.waiting[n].size
		n++
	}
	taken := slices.Clone(t.waiting[:n])
	t.waiting = slices.Delete(t.waiting, 0, n)
	return taken
}

// lead writes saves of one tenant, which is busy, and tells each what became of it.
func (c *Chats) lead(id conversation.TenantID, all []*save) {
	f := filling{from: c.Store, batch: c.Store.NewBatch(), tenant: id, rows: map[chats.Key]place{}}
	written := all[:0:0]
	for _, s := range all {
		err := f.fill(s)
		if err != nil {
			s.end <- c.unread(err)
			continue
		}
		written = append(written, s)
	}
	var err error
	if f.batch.Empty() {
		err = f.batch.Close()
	} else {
		err = c.apply(id, f.batch)
	}
	for _, s := range written {
		s.end <- err
	}
}

// unread is what a save answers that wrote nothing.
func (c *Chats) unread(err error) error {
	if errors.Is(err, chats.ErrStale) {
		return err
	}
	return fmt.Errorf("save chats: %w", c.Unread(err))
}

func (c *Chats) apply(id conversation.TenantID, b *pebble.Batch) error {
	if err := c.Apply(conversation.SessionKey{Tenant: id}, b); err != nil {
		return fmt.Errorf("write chats: %w", err)
	}
	return nil
}

// place is where the row of a chat is.
type place struct {
	rev     chats.Revision // 0 = there is none
	session conversation.SessionID
}

// filling is a batch of saves, and what is stored as of them.
type filling struct {
	from   *pebble.DB
	batch  *pebble.Batch
	tenant conversation.TenantID
	rows   map[chats.Key]place // that were looked up or written
	last   chats.Number
	looked bool // last is known
}

// fill writes a save into the batch, or nothing of it if it fails.
func (f *filling) fill(s *save) error {
	for _, r := range s.rows {
		is, known := f.rows[r.Key]
		if !known {
			var err error
			if is, err = placeOf(f.from, r.Key); err != nil {
				return err
			}
			f.rows[r.Key] = is
		}
		if is.rev != r.Revision {
			return chats.ErrStale
		}
	}
	if len(s.entries) > 0 && !f.looked {
		var err error
		if f.last, err = lastOf(f.from, f.tenant); err != nil {
			return err
		}
		f.looked = true
	}
	for _, r := range s.rows {
		f.row(r)
	}
	for _, e := range s.entries {
		f.last++
		Put(f.batch, f.tenant, f.last, e)
	}
	if len(s.entries) > 0 {
		_ = f.batch.Set(layout.KeyFeedEnd(nil, f.tenant), layout.AppendU64(nil, uint64(f.last)), nil)
	}
	return nil
}

func (f *filling) row(r chats.Row) {
	was := f.rows[r.Key]
	if was.rev > 0 && (r.Value == nil || was.session != r.Session) {
		_ = f.batch.Delete(layout.KeyChatRow(nil, r.Key, was.session), nil)
	}
	if r.Value == nil {
		_ = f.batch.Delete(layout.KeyChat(nil, r.Key), nil)
		f.rows[r.Key] = place{}
		return
	}
	r.Revision++
	PutRow(f.batch, r)
	f.rows[r.Key] = place{r.Revision, r.Session}
}

// PutRow writes a row with its revision.
func PutRow(b *pebble.Batch, r chats.Row) {
	_ = b.Set(layout.KeyChat(nil, r.Key), layout.AppendChat(nil, r.Revision, r.Session), nil)
	_ = b.Set(layout.KeyChatRow(nil, r.Key, r.Session), r.Value, nil)
}

// Put writes an entry with its number.
func Put(b *pebble.Batch, tenant conversation.TenantID, n chats.Number, e chats.Entry) {
	_ = b.Set(layout.KeyFeed(nil, tenant, n), []byte(e.Session), nil)
	_ = b.Set(layout.KeyChatEntry(nil, tenant, e.Session, n), layout.AppendChatEntry(nil, e), nil)
}

// mostTrimmed bounds how many entries are dropped by one batch.
const mostTrimmed = 2048

// Trim implements chats.Store. The oldest entries go first, so what is left has no holes.
func (c *Chats) Trim(ctx context.Context, id conversation.TenantID, through chats.Number) error {
	if err := c.Enter(ctx); err != nil {
		return err
	}
	defer c.Leave()
	if err := c.Ready(); err != nil {
		return err
	}
	for from := chats.Number(0); ; {
		next, err := c.trim(id, from, through)
		if err != nil || next == 0 {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		from = next
	}
}

// trim drops some entries; next is where to go on, 0 = there are no more.
func (c *Chats) trim(id conversation.TenantID, from, through chats.Number) (next chats.Number, err error) {
	defer c.Lock(id)()
	b := c.Store.NewBatch()
	prefix := layout.TenantPrefix(nil, layout.TableFeed, id)
	n := 0
	err = scan(c.Store, layout.KeyFeed(nil, id, from), layout.After(prefix), func(k, v []byte) (bool, error) {
		_, number, ok := layout.CutFeed(k)
		if !ok {
			return false, fmt.Errorf("%w: key %x of a feed cannot be read", conversation.ErrDamaged, k)
		}
		if number > through {
			return false, nil
		}
		if n == mostTrimmed {
			next = number
			return false, nil
		}
		n++
		_ = b.Delete(k, nil)
		_ = b.Delete(layout.KeyChatEntry(nil, id, conversation.SessionID(v), number), nil)
		return true, nil
	})
	if err != nil || n == 0 {
		return 0, errors.Join(err, b.Close())
	}
	return next, c.apply(id, b)
}
