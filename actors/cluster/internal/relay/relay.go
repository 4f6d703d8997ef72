package relay

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation"
)

// The times of a Relay.
const (
	Interval  = 2 * time.Second  // between two renewals
	forget    = 30 * time.Second // a node that has not renewed for so long follows no more
	askAgain  = 200 * time.Millisecond
	viewWait  = 2 * time.Second // then the state is read from the store
	checkers  = 8               // look-ups in the store at a time
	perRenew  = 2000            // sessions in one message
	maxRenew  = 10_000          // sessions in one message of another node: more are not believed
	siteLimit = 3               // nodes that show one session
)

// Hub shows to the clients of this node what happens in sessions.
type Hub interface {
	conversation.Publisher
	// Typing shows that a user types.
	Typing(key conversation.SessionKey, after conversation.Seq, user conversation.UserID, on bool)
	// Missed says that ephemeral things of a session were lost.
	Missed(key conversation.SessionKey)
}

// Source is this node's engine, and the store.
type Source interface {
	View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error))
	Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error)
	// Holds is true for a session in memory, which is served wherever it belongs. It must not block.
	Holds(key conversation.SessionKey) bool
}

// Options are what a Relay works with. None of its functions may block or call the relay.
type Options struct {
	Self  conversation.Member
	Lease time.Duration
	Hub   Hub
	Log   *slog.Logger

	// Owner is whose a root session is, as far as this node knows; false = nobody is there.
	Owner func(root conversation.SessionKey) (conversation.Member, bool)
	// Alive is true for a member whose lease holds, as far as this node knows.
	Alive func(conversation.Member) bool
	// Holds is true while this node's own lease does, by its own clock.
	Holds func() bool
	// Send brings a message to another node, behind those that were sent there before. It may
	// be lost on the way; false = it was not even sent.
	Send func(to conversation.Member, body []byte) bool
	// Behind has then called when this node has the answers to all that it has asked of a session
	// on another way than that from a member; false = it has them, and then is not called. then
	// may call the relay. nil = nothing is asked.
	Behind func(key conversation.SessionKey, from conversation.Member, then func()) bool

	Meter Meter // nil = nobody counts
}

// post sends a message, and counts it.
func (o *Options) post(to conversation.Member, body []byte) bool {
	if !o.Send(to, body) {
		o.Meter.Dropped(droppedNotSent)
		return false
	}
	o.Meter.Message("out", len(body))
	return true
}

// Relay connects the hub and the engine of one node with those of others. Its methods may
// be called from any goroutine.
type Relay struct {
	o      Options
	front  front // of the hub
	source atomic.Pointer[Source]
	kick   chan struct{} // there is something in checks

	streams atomic.Int32 // sessions with drafts that stream in from other nodes

	mu       sync.Mutex // of what follows: sessions that clients of this node follow
	follows  map[conversation.SessionKey]*follow
	unsure   doubts                            // those of them that are
	answered map[conversation.Member]time.Time // when the newest renewal was sent that a node has answered
	asked    map[uint64]*asked                 // views
	last     uint64                            // id of a renewal or view
	renewals map[uint64]time.Time              // when they were sent
	checks   map[conversation.SessionKey]bool  // the store has to be asked for these
	asking   bool                              // askAgain will be called

	remote atomic.Int32 // sessions that other nodes follow here

	servedMu sync.RWMutex                                                    // of what follows
	served   map[conversation.SessionKey]map[conversation.SessionKey]*served // by root
}

// New makes a relay.
func New(o Options) *Relay {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = nobodyCounts{}
	}
	return &Relay{
		o: o, front: front{o.Hub, o.Behind}, kick: make(chan struct{}, 1),
		follows: map[conversation.SessionKey]*follow{}, unsure: doubts{},
		checks: map[conversation.SessionKey]bool{}, answered: map[conversation.Member]time.Time{}, asked: map[uint64]*asked{},
		renewals: map[uint64]time.Time{},
		served:   map[conversation.SessionKey]map[conversation.SessionKey]*served{},
	}
}

// Serve gives the relay the engine of its node. Before, nothing is shown to other nodes.
func (r *Relay) Serve(s Source) { r.source.Store(&s) }

// Run renews what is followed until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { r.check(ctx) })
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.sweep()
			r.renew()
		}
	}
}

// Receive takes a message of another node. Those of one node come one after the other.
func (r *Relay) Receive(from conversation.Member, body []byte) {
	r.o.Meter.Message("in", len(body))
	var m message
	if err := m.read(body); err != nil {
		r.o.Meter.Dropped(droppedUnreadable)
		r.o.Log.Warn("a message about a followed session cannot be read", "node", from.String(), "error", err)
		return
	}
	switch m.kind {
	case kindRenew:
		r.renewal(from, &m)
	case kindDrop:
		r.dropped(from, &m)
	case kindView:
		r.viewFor(from, &m)
	case kindRenewed:
		r.renewed(from, &m)
	case kindViewed:
		r.viewed(&m)
	case kindTyping:
		r.types(from, &m)
	case kindStored:
		r.storedAt(from, &m)
	case kindEvents, kindEphemeral, kindAudience, kindGone:
		if err := r.show(from, &m); err != nil {
			r.o.Meter.Dropped(droppedUnreadable)
			r.o.Log.Warn("what another node shows cannot be read", "node", from.String(), "session", string(m.key.Session), "error", err)
			r.lookUp(m.key)
		}
	}
}

func (r *Relay) send(to conversation.Member, m *message) bool {
	return r.o.post(to, m.append(nil))
}

func rootOf(key conversation.SessionKey) conversation.SessionKey {
	return conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()}
}

// holds is true for a session in this node's memory.
func (r *Relay) holds(key conversation.SessionKey) bool {
	source := r.source.Load()
	return source != nil && (*source).Holds(key)
}

// elsewhere is whose a session is, if it is another node's.
func (r *Relay) elsewhere(key conversation.SessionKey) (conversation.Member, bool) {
	owner, known := r.o.Owner(rootOf(key))
	return owner, known && owner != r.o.Self
}

// mine is true for a session that belongs here.
func (r *Relay) mine(key conversation.SessionKey) bool {
	owner, known := r.o.Owner(rootOf(key))
	return known && owner == r.o.Self
}
