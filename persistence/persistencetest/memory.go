package persistencetest

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/conversation/living"
	"parley/conversation/wire"
	"parley/persistence/blobstest"
	"parley/persistence/chatstest"
)

// Memory is a Store in maps. It starts no goroutine and holds nothing but a
// mutex while it works, so that it may be used inside a testing/synctest bubble.
// All values go through the codec: a value that the disk would lose is lost here
// too.
//
// Make it with NewMemory inside of the bubble that uses it.
type Memory struct {
	mu       sync.Mutex
	closed   bool
	log      conversation.LogID
	sessions map[conversation.SessionKey]*session
	erased   map[conversation.SessionKey]conversation.Epoch
	calls    int // of Commit, for the fault hook
	fail     func(n int, key conversation.SessionKey, c conversation.Commit) (err error, applied bool)
	gates    []*Gate
	space    Fullness
	unread   map[conversation.SessionKey]error
	history  []Committed
	members  memberList
	chats    *chatstest.Maps
	blobs    *blobstest.BlobMaps
}

var _ conversation.Store = (*Memory)(nil)

// Committed is one commit that was written.
type Committed struct {
	Key    conversation.SessionKey
	Commit conversation.Commit
}

type session struct {
	head      conversation.Head
	owner     conversation.Member
	records   []record
	keys      map[conversation.Key]conversation.Seq
	legacy    map[conversation.SourceID]conversation.Seq
	tasks     map[conversation.TaskID][]byte
	cursors   map[conversation.UserID]conversation.Cursor
	summary   []byte // nil = never committed
	activity  int64  // milliseconds: where the list has it
	due       int64  // milliseconds; only if hasDue
	hasDue    bool
	claim     []byte // a head row that has it; nil = nothing may be claimed
	hasListed bool
}

type record struct {
	first, last conversation.Seq
	body        []byte
}

// NewMemory is an empty store.
func NewMemory() *Memory {
	m := &Memory{
		log:      "memory",
		sessions: map[conversation.SessionKey]*session{},
		erased:   map[conversation.SessionKey]conversation.Epoch{},
	}
	m.chats = chatstest.NewMaps(chatstest.Host{Mutex: &m.mu, Ready: m.ready, Erased: m.isErased, Room: func() error { return m.room(true) }})
	m.blobs = blobstest.NewBlobMaps(blobstest.BlobHost{
		Mutex: &m.mu, Ready: m.ready, Room: func() error { return m.room(false) },
		Exists: func(key conversation.SessionKey) bool { return m.sessions[key] != nil },
	})
	return m
}

// Blobs is what is attached to messages.
func (m *Memory) Blobs() *blobstest.BlobMaps { return m.blobs }

// Chats is what channels remember. Its FailSave has saves fail.
func (m *Memory) Chats() chats.Store { return m.chats }

// FailCommit installs a fault: f is asked on every Commit that would be written,
// n counts the calls of Commit from 1. With err = nil the commit goes on. Else
// Commit returns err, and applied says whether it was written all the same: an
// unknown outcome. nil removes the fault. f must not call the store.
func (m *Memory) FailCommit(f func(n int, key conversation.SessionKey, c conversation.Commit) (err error, applied bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}

// Fullness says how full the store is.
type Fullness uint8

// The states of the space.
const (
	Roomy Fullness = iota
	Soft           // only what is Inner is written, and nothing is created but below a root
	Hard           // nothing is written
)

// Fill makes the store as full as that.
func (m *Memory) Fill(s Fullness) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.space = s
}

// FailReads has what Acquire, Head, Find, Records and Commit read of a session fail
// with err, as on a sick disk: conversation.ErrUnread, or ErrDamaged. nil
// ends that.
func (m *Memory) FailReads(key conversation.SessionKey, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unread == nil {
		m.unread = map[conversation.SessionKey]error{}
	}
	m.unread[key] = err
}

// Room implements conversation.Store.
func (m *Memory) Room(inner bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.room(inner)
}

func (m *Memory) room(inner bool) error {
	if m.space == Roomy || inner && m.space == Soft {
		return nil
	}
	return conversation.ErrFull
}

// Moment is the point of a commit at which a Gate holds it.
type Moment uint8

// The moments at which a commit can be held.
const (
	BeforeWrite Moment = iota // nothing of it is stored yet
	AfterWrite                // it is stored, its caller does not know yet
)

// Gate holds one commit.
type Gate struct {
	at      Moment
	match   func(key conversation.SessionKey, c conversation.Commit) bool
	held    chan struct{}
	release chan struct{}
	once    sync.Once
}

// Hold makes a gate for the next commit that matches; a nil match takes any.
// Only one commit is held, others pass. A commit whose context ends at the gate
// returns the context's error.
func (m *Memory) Hold(at Moment, match func(key conversation.SessionKey, c conversation.Commit) bool) *Gate {
	g := &Gate{at: at, match: match, held: make(chan struct{}), release: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gates = append(m.gates, g)
	return g
}

// Held is closed when a commit stands at the gate.
func (g *Gate) Held() <-chan struct{} { return g.held }

// Release lets the commit go on, now or when it comes. Idempotent.
func (g *Gate) Release() { g.once.Do(func() { close(g.release) }) }

// Commits is every commit that was written, in order.
func (m *Memory) Commits() []Committed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history)
}

// Reopen makes a closed store usable again, as a restarted process finds it.
func (m *Memory) Reopen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = false
}

// PutLegacyPart stores a part key as it was before parts had an index.
func (m *Memory) PutLegacyPart(key conversation.SessionKey, source conversation.SourceID, seq conversation.Seq) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[key]
	if s == nil {
		return conversation.ErrNotFound
	}
	s.legacy[source] = seq
	return nil
}

// LogID implements conversation.Store.
func (m *Memory) LogID() conversation.LogID { return m.log }

// Acquire implements conversation.Store.
func (m *Memory) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return conversation.Head{}, err
	}
	if err := m.unread[key]; err != nil {
		return conversation.Head{}, err
	}
	s := m.sessions[key]
	if s == nil {
		if !how.Create || how.IfEpoch != 0 || m.isErased(key) || !m.inTurn(key) {
			return conversation.Head{}, conversation.ErrNotFound
		}
		if err := m.room(key.Session.Depth() > 0); err != nil {
			return conversation.Head{}, err
		}
		s = &session{
			keys:    map[conversation.Key]conversation.Seq{},
			legacy:  map[conversation.SourceID]conversation.Seq{},
			tasks:   map[conversation.TaskID][]byte{},
			cursors: map[conversation.UserID]conversation.Cursor{},
		}
		m.sessions[key] = s
	}
	if how.IfEpoch != 0 && how.IfEpoch != s.head.Epoch {
		return conversation.Head{}, conversation.ErrFenced
	}
	prior, err := m.members.prior(s.owner, how.Owner)
	if err == nil {
		err = m.room(true)
	}
	if err != nil {
		return conversation.Head{}, err
	}
	s.head.Epoch++
	s.owner = how.Owner
	head := s.headCopy()
	head.Prior = prior
	return head, nil
}

// inTurn is false for the next session of a name whose session is not erased.
func (m *Memory) inTurn(key conversation.SessionKey) bool {
	before, later := living.Before(key.Session)
	if !later {
		return true
	}
	_, erased := m.erased[conversation.SessionKey{Tenant: key.Tenant, Session: before}]
	return erased
}

// isErased is true for an erased session and for everything below one.
func (m *Memory) isErased(key conversation.SessionKey) bool {
	for {
		if _, ok := m.erased[key]; ok {
			return true
		}
		parent, _, ok := key.Session.Parent()
		if !ok {
			return false
		}
		key.Session = parent
	}
}

func (s *session) headCopy() conversation.Head {
	h := s.head
	h.Snapshot = slices.Clone(h.Snapshot)
	return h
}

// Commit implements conversation.Store.
func (m *Memory) Commit(ctx context.Context, key conversation.SessionKey, c conversation.Commit) error {
	m.mu.Lock()
	m.calls++
	n, fail := m.calls, m.fail
	gate := m.takeGate(key, c)
	m.mu.Unlock()

	if gate != nil && gate.at == BeforeWrite {
		if err := gate.wait(ctx); err != nil {
			return err
		}
	}
	if err := m.commit(ctx, n, fail, key, c); err != nil {
		return err
	}
	if gate != nil && gate.at == AfterWrite {
		return gate.wait(ctx)
	}
	return nil
}

// CommitAsync implements conversation.Store.
func (m *Memory) CommitAsync(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error)) {
	go func() { done(m.Commit(ctx, key, *c)) }()
}

// MayHold implements conversation.Store.
func (m *Memory) MayHold(key conversation.SessionKey, k conversation.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[key]
	return s != nil && s.find(normal(k)) != 0
}

func (m *Memory) takeGate(key conversation.SessionKey, c conversation.Commit) *Gate {
	for i, g := range m.gates {
		if g.match == nil || g.match(key, c) {
			m.gates = slices.Delete(m.gates, i, i+1)
			return g
		}
	}
	return nil
}

func (g *Gate) wait(ctx context.Context) error {
	close(g.held)
	select {
	case <-g.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Memory) commit(ctx context.Context, n int, fail func(int, conversation.SessionKey, conversation.Commit) (error, bool), key conversation.SessionKey, c conversation.Commit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return err
	}
	if err := m.unread[key]; err != nil {
		return err
	}
	s := m.sessions[key]
	if s == nil || s.head.Epoch != c.Epoch {
		return conversation.ErrFenced
	}
	if s.head.Last != c.After {
		return conversation.ErrConflict
	}
	for i, e := range c.Events {
		if e.Seq != c.After+conversation.Seq(i)+1 {
			return conversation.ErrConflict
		}
	}
	fresh := make(map[conversation.Key]conversation.Seq, len(c.Keys))
	for _, k := range c.Keys {
		norm := normal(k.Key)
		seq := s.find(norm)
		if seq == 0 {
			seq = fresh[norm]
		}
		if seq != 0 {
			return &conversation.DuplicateError{Key: k.Key, Seq: seq}
		}
		fresh[norm] = k.Seq
	}
	if err := m.room(c.Inner); err != nil {
		return err
	}
	if fail != nil {
		if err, applied := fail(n, key, c); err != nil {
			if applied {
				if err := m.blobs.Commit(key, c.Events); err != nil {
					return err
				}
				m.apply(s, key, c, fresh)
			}
			return err
		}
	}
	if err := m.blobs.Commit(key, c.Events); err != nil {
		return err
	}
	m.apply(s, key, c, fresh)
	return nil
}

func (m *Memory) apply(s *session, key conversation.SessionKey, c conversation.Commit, fresh map[conversation.Key]conversation.Seq) {
	c.Events, c.Keys, c.Tasks, c.Cursors = slices.Clone(c.Events), slices.Clone(c.Keys), slices.Clone(c.Tasks), slices.Clone(c.Cursors)
	c.Snapshot = slices.Clone(c.Snapshot)
	m.history = append(m.history, Committed{Key: key, Commit: c})

	if n := len(c.Events); n > 0 {
		s.head.Last = c.Events[n-1].Seq
		s.records = append(s.records, record{
			first: c.Events[0].Seq, last: s.head.Last,
			body: wire.AppendRecord(nil, conversation.Record{ID: c.ID, Events: c.Events}),
		})
	}
	s.head.LastCommit = c.ID
	if c.Snapshot != nil {
		s.head.Snapshot, s.head.SnapshotAt = c.Snapshot, s.head.Last
	}
	maps.Copy(s.keys, fresh)
	for _, row := range c.Tasks {
		row.Key = key
		s.tasks[row.Task] = wire.AppendTaskRow(nil, row)
	}
	for _, cur := range c.Cursors {
		s.cursors[cur.User] = s.cursors[cur.User].Then(cur)
	}
	if !c.Summary.CreatedAt.IsZero() {
		sum := c.Summary
		sum.Key, sum.Seen, sum.Marks = key, 0, 0
		s.summary = wire.AppendSummary(nil, sum)
		if at := sum.Activity.UnixMilli(); !s.hasListed || at > s.activity {
			s.activity, s.hasListed = at, true
		}
	}
	s.hasDue = !c.WakeAt.IsZero()
	s.due = c.WakeAt.UnixMilli()
	if s.claim = nil; c.Claim != nil {
		s.claim = wire.AppendHead(nil, wire.HeadRow{Claim: c.Claim})
	}
}

// normal is the key without the fields that do not count.
func normal(k conversation.Key) conversation.Key {
	if k.Source != "" {
		return conversation.Key{Source: k.Source, Part: k.Part}
	}
	return conversation.Key{Author: k.Author, Client: k.Client}
}

func (s *session) find(k conversation.Key) conversation.Seq {
	if seq := s.keys[k]; seq != 0 {
		return seq
	}
	if k.Source != "" && k.Part == 0 {
		return s.legacy[k.Source]
	}
	return 0
}

// Head implements conversation.Store.
func (m *Memory) Head(ctx context.Context, key conversation.SessionKey) (conversation.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.session(ctx, key)
	if err = cmp.Or(err, m.unread[key]); err != nil {
		return conversation.Head{}, err
	}
	return s.headCopy(), nil
}

// Find implements conversation.Store.
func (m *Memory) Find(ctx context.Context, key conversation.SessionKey, keys []conversation.Key) ([]conversation.Seq, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	if err := m.unread[key]; err != nil {
		return nil, err
	}
	found := make([]conversation.Seq, len(keys))
	if s := m.sessions[key]; s != nil {
		for i, k := range keys {
			found[i] = s.find(normal(k))
		}
	}
	return found, nil
}

// Records implements conversation.Store.
func (m *Memory) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		m.mu.Lock()
		err := cmp.Or(m.ready(ctx), m.unread[key])
		var in []record
		if s := m.sessions[key]; err == nil && s != nil {
			for _, rec := range s.records {
				to := rec.last
				if r.Before != 0 {
					to = min(to, r.Before-1)
				}
				if max(rec.first, r.After+1) <= to {
					in = append(in, rec)
				}
			}
		}
		m.mu.Unlock()
		if err != nil {
			yield(conversation.Record{}, err)
			return
		}
		if r.Reverse {
			slices.Reverse(in)
		}
		for i, rec := range in {
			if r.Limit > 0 && i == r.Limit {
				return
			}
			out, err := wire.DecodeRecord(rec.body)
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

// Summary implements conversation.Store.
func (m *Memory) Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.session(ctx, key)
	if err != nil {
		return conversation.Summary{}, err
	}
	if s.summary == nil {
		return conversation.Summary{}, conversation.ErrNotFound
	}
	return s.read(key)
}

func (s *session) read(key conversation.SessionKey) (conversation.Summary, error) {
	sum, err := wire.DecodeSummary(s.summary)
	sum.Key, sum.Last, sum.Seen, sum.Marks = key, s.head.Last, 0, 0
	return sum, err
}

// Sessions implements conversation.Store.
func (m *Memory) Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error] {
	return func(yield func(conversation.Summary, error) bool) {
		all, err := m.list(ctx, p)
		if err != nil {
			yield(conversation.Summary{}, err)
			return
		}
		for i, sum := range all {
			if p.Limit > 0 && i == p.Limit || !yield(sum, nil) {
				return
			}
		}
	}
}

func (m *Memory) list(ctx context.Context, p conversation.Page) ([]conversation.Summary, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	if p.Only != "" {
		p.Cursor, p.Oldest = "", false
	}
	from, fromID, err := parseCursor(p.Cursor)
	if err != nil {
		return nil, err
	}
	var all []conversation.Summary
	for key, s := range m.sessions {
		if s.summary == nil || key.Session.Depth() > 0 || !p.Oldest && key.Tenant != p.Tenant || p.Only != "" && key.Session != p.Only {
			continue
		}
		sum, err := s.read(key)
		if err != nil {
			return nil, err
		}
		sum.Activity = time.UnixMilli(s.activity).UTC()
		if p.For != "" {
			sum.Seen, sum.Marks = s.cursors[p.For].Seq, s.cursors[p.For].Set
		}
		all = append(all, sum)
	}
	// Newest first, then by id; oldest first is the exact reverse.
	order := func(a, b conversation.Summary) int {
		return cmp.Or(b.Activity.Compare(a.Activity), cmp.Compare(a.Key.Session, b.Key.Session), cmp.Compare(a.Key.Tenant, b.Key.Tenant))
	}
	if p.Oldest {
		newest := order
		order = func(a, b conversation.Summary) int { return newest(b, a) }
	}
	slices.SortFunc(all, order)
	if p.Cursor != "" {
		at := conversation.Summary{Activity: time.UnixMilli(from).UTC()}
		at.Key.Session = conversation.SessionID(fromID)
		all = slices.DeleteFunc(all, func(s conversation.Summary) bool {
			at.Key.Tenant = s.Key.Tenant
			return order(s, at) <= 0
		})
	}
	return all, nil
}

// Task implements conversation.Store.
func (m *Memory) Task(ctx context.Context, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.session(ctx, key)
	if err != nil {
		return conversation.TaskRow{}, err
	}
	body, ok := s.tasks[task]
	if !ok {
		return conversation.TaskRow{}, conversation.ErrNotFound
	}
	return wire.DecodeTaskRow(body)
}

// Tasks implements conversation.Store.
func (m *Memory) Tasks(ctx context.Context, f conversation.TaskFilter) iter.Seq2[conversation.TaskRow, error] {
	return func(yield func(conversation.TaskRow, error) bool) {
		all, err := m.listTasks(ctx, f)
		if err != nil {
			yield(conversation.TaskRow{}, err)
			return
		}
		for i, row := range all {
			if f.Limit > 0 && i == f.Limit || !yield(row, nil) {
				return
			}
		}
	}
}

func (m *Memory) listTasks(ctx context.Context, f conversation.TaskFilter) ([]conversation.TaskRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	from, fromID, err := parseCursor(f.Cursor)
	if err != nil {
		return nil, err
	}
	var all []conversation.TaskRow
	for key, s := range m.sessions {
		if key.Tenant != f.Tenant || f.Session == "" && key.Session.Depth() > 0 || f.Session != "" && key.Session != f.Session {
			continue
		}
		for _, body := range s.tasks {
			row, err := wire.DecodeTaskRow(body)
			if err != nil {
				return nil, err
			}
			if f.Status == 0 || row.Status == f.Status {
				all = append(all, row)
			}
		}
	}
	order := func(a, b conversation.TaskRow) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(ordinal(b.Task), ordinal(a.Task)), cmp.Compare(a.Task, b.Task))
	}
	slices.SortFunc(all, order)
	if f.Cursor != "" {
		at := conversation.TaskRow{CreatedAt: time.UnixMilli(from).UTC(), Task: conversation.TaskID(fromID)}
		all = slices.DeleteFunc(all, func(r conversation.TaskRow) bool { return order(r, at) <= 0 })
	}
	return all, nil
}

// ordinal is the number of "t12-<session>"; 0 if there is none.
func ordinal(task conversation.TaskID) uint64 {
	digits, _, _ := strings.Cut(string(task), "-")
	n, err := strconv.ParseUint(strings.TrimPrefix(digits, "t"), 10, 32)
	if err != nil || !strings.HasPrefix(digits, "t") {
		return 0
	}
	return n
}

// Claimable implements conversation.Store.
func (m *Memory) Claimable(ctx context.Context, tenant conversation.TenantID) iter.Seq2[conversation.ClaimableAt, error] {
	return func(yield func(conversation.ClaimableAt, error) bool) {
		m.mu.Lock()
		err := m.ready(ctx)
		var all []conversation.ClaimableAt
		for key, s := range m.sessions {
			if key.Tenant != tenant || s.claim == nil {
				continue
			}
			row, bad := wire.DecodeHead(s.claim)
			err = cmp.Or(err, bad)
			if row.Claim != nil {
				all = append(all, conversation.ClaimableAt{Key: key, Claimable: *row.Claim})
			}
		}
		m.mu.Unlock()
		if err != nil {
			yield(conversation.ClaimableAt{}, err)
			return
		}
		slices.SortFunc(all, func(a, b conversation.ClaimableAt) int {
			return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key.Session, b.Key.Session))
		})
		for _, c := range all {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// Due implements conversation.Store.
func (m *Memory) Due(ctx context.Context, until time.Time, of conversation.Member) iter.Seq2[conversation.SessionKey, error] {
	return func(yield func(conversation.SessionKey, error) bool) {
		m.mu.Lock()
		err := m.ready(ctx)
		var due []conversation.SessionKey
		at := map[conversation.SessionKey]int64{}
		for key, s := range m.sessions {
			if _, owned := m.members.prior(s.owner, of); s.hasDue && s.due <= until.UnixMilli() && (owned == nil || of == (conversation.Member{})) {
				due = append(due, key)
				at[key] = s.due
			}
		}
		m.mu.Unlock()
		if err != nil {
			yield(conversation.SessionKey{}, err)
			return
		}
		slices.SortFunc(due, func(a, b conversation.SessionKey) int {
			return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session))
		})
		for _, key := range due {
			if !yield(key, nil) {
				return
			}
		}
	}
}

// Delete implements conversation.Store.
func (m *Memory) Delete(ctx context.Context, key conversation.SessionKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.session(ctx, key)
	if err != nil {
		return err
	}
	m.erased[key] = s.head.Epoch + 1
	m.chats.Erase(key)
	m.blobs.Erase(key)
	maps.DeleteFunc(m.sessions, func(k conversation.SessionKey, _ *session) bool {
		return k == key || k.Tenant == key.Tenant && strings.HasPrefix(string(k.Session), string(key.Session)+"/")
	})
	return nil
}

// Erased implements conversation.Store.
func (m *Memory) Erased(ctx context.Context, key conversation.SessionKey) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return false, err
	}
	_, erased := m.erased[key]
	return erased, nil
}

// Close implements conversation.Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *Memory) ready(ctx context.Context) error {
	if m.closed {
		return conversation.ErrClosed
	}
	return ctx.Err()
}

func (m *Memory) session(ctx context.Context, key conversation.SessionKey) (*session, error) {
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	s := m.sessions[key]
	if s == nil {
		return nil, conversation.ErrNotFound
	}
	return s, nil
}

// parseCursor reads "<milliseconds>.<id>".
func parseCursor(cursor string) (ms int64, id string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	digits, id, ok := strings.Cut(cursor, ".")
	ms, err = strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil {
		return 0, "", conversation.Errorf(conversation.BadRequest, "the page cursor is not one of this server's")
	}
	return ms, id, nil
}
