package relay

import (
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/wire"
)

// What this node's engine publishes goes to its hub and to the nodes that follow the session.

var _ conversation.Publisher = (*Relay)(nil)

// served is a session that other nodes follow here.
type served struct {
	epoch conversation.Epoch // of the newest writer that was seen
	head  conversation.Seq
	peers []peer
}

// peer is a node that follows a session.
type peer struct {
	at   conversation.Member
	seen time.Time // its last renewal
}

// Publish implements conversation.Publisher.
func (r *Relay) Publish(key conversation.SessionKey, epoch conversation.Epoch, events []conversation.Event) {
	if len(events) == 0 {
		return
	}
	r.replaced(key, epoch)
	r.front.publish(r.o.Self, key, epoch, events)
	head := events[len(events)-1].Seq
	to := r.advance(key, epoch, head)
	if len(to) > 0 {
		body := (&message{kind: kindEvents, key: key, epoch: epoch, seq: head, body: wire.AppendRecord(nil, conversation.Record{Events: events})}).append(nil)
		r.sendAll(to, body)
	}
	r.tellOwner(key, epoch, head, to)
}

// Show implements conversation.Publisher. A node whose lease is over may have been replaced
// without knowing it.
func (r *Relay) Show(key conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq, e conversation.Ephemeral) {
	if !r.o.Holds() {
		r.o.Meter.Dropped(droppedLease)
		return
	}
	r.replaced(key, epoch)
	r.o.Hub.Show(key, epoch, after, e)
	if to := r.peers(key); len(to) > 0 {
		r.sendAll(to, (&message{kind: kindEphemeral, key: key, epoch: epoch, seq: after, body: wire.AppendEphemeral(nil, e)}).append(nil))
	}
}

// Stored implements conversation.Publisher.
func (r *Relay) Stored(key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq) {
	r.replaced(key, epoch)
	r.front.stored(r.o.Self, key, epoch, head)
	to := r.advance(key, epoch, head)
	if len(to) > 0 {
		r.sendAll(to, (&message{kind: kindStored, key: key, epoch: epoch, seq: head}).append(nil))
	}
	r.tellOwner(key, epoch, head, to)
}

// Audience implements conversation.Publisher.
func (r *Relay) Audience(root conversation.SessionKey, epoch conversation.Epoch, now conversation.Summary) {
	r.o.Hub.Audience(root, epoch, now)
	if to := r.tree(root, false); len(to) > 0 {
		r.sendAll(to, (&message{kind: kindAudience, key: root, epoch: epoch, body: wire.AppendSummary(nil, now)}).append(nil))
	}
}

// Gone implements conversation.Publisher.
func (r *Relay) Gone(key conversation.SessionKey, reason string) {
	to := r.tree(key, true)
	r.o.Hub.Gone(key, reason)
	if len(to) > 0 {
		r.sendAll(to, (&message{kind: kindGone, key: key, text: reason}).append(nil))
	}
}

func (r *Relay) sendAll(to []conversation.Member, body []byte) {
	for _, m := range to {
		r.o.post(m, body) // who does not get it is told at its next renewal
	}
}

// advance notes what was published, and lists who else is shown it.
func (r *Relay) advance(key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq) []conversation.Member {
	if r.remote.Load() == 0 {
		return nil
	}
	r.servedMu.Lock()
	defer r.servedMu.Unlock()
	s := r.served[rootOf(key)][key]
	if s == nil {
		return nil
	}
	s.epoch, s.head = max(s.epoch, epoch), max(s.head, head)
	return s.members()
}

// peers lists who else is shown a session.
func (r *Relay) peers(key conversation.SessionKey) []conversation.Member {
	if r.remote.Load() == 0 {
		return nil
	}
	r.servedMu.RLock()
	defer r.servedMu.RUnlock()
	if s := r.served[rootOf(key)][key]; s != nil {
		return s.members()
	}
	return nil
}

func (s *served) members() []conversation.Member {
	all := make([]conversation.Member, len(s.peers))
	for i, p := range s.peers {
		all[i] = p.at
	}
	return all
}

// tree lists who else follows a session or one below it, and forgets these sessions with end.
func (r *Relay) tree(key conversation.SessionKey, end bool) (all []conversation.Member) {
	if r.remote.Load() == 0 {
		return nil
	}
	r.servedMu.Lock()
	defer r.servedMu.Unlock()
	root := rootOf(key)
	for k, s := range r.served[root] {
		if k != key && !strings.HasPrefix(string(k.Session), string(key.Session)+"/") {
			continue
		}
		for _, m := range s.members() {
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
		if end {
			r.forget(k)
		}
	}
	return all
}

// forget takes out a session that is served. The caller holds servedMu.
func (r *Relay) forget(key conversation.SessionKey) {
	root := rootOf(key)
	delete(r.served[root], key)
	r.remote.Add(-1)
	if len(r.served[root]) == 0 {
		delete(r.served, root)
	}
}

// tellOwner says how far a session has got to the node whose it is, if it is another one's:
// its followers may be noted there.
func (r *Relay) tellOwner(key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq, told []conversation.Member) {
	if owner, other := r.elsewhere(key); other && !slices.Contains(told, owner) {
		r.send(owner, &message{kind: kindStored, key: key, epoch: epoch, seq: head})
	}
}

// renewal notes what another node follows here, and says what it does not know.
func (r *Relay) renewal(from conversation.Member, m *message) {
	answer := message{kind: kindRenewed, id: m.id}
	for i := range m.entries {
		if e, say := r.noted(from, &m.entries[i]); say {
			answer.entries = append(answer.entries, e)
		}
	}
	r.send(from, &answer)
}

// noted notes one session that another node follows here. say is false when it knows all of it.
func (r *Relay) noted(from conversation.Member, e *entry) (_ entry, say bool) {
	owner, known := r.o.Owner(rootOf(e.key))
	r.servedMu.Lock()
	defer r.servedMu.Unlock()
	root, now := rootOf(e.key), time.Now()
	s := r.served[root][e.key]
	if (!known || owner != r.o.Self) && !r.holds(e.key) {
		r.leaves(e.key, from)
		return entry{key: e.key, state: stateElsewhere, at: owner}, true
	}
	if s == nil {
		if r.served[root] == nil {
			r.served[root] = map[conversation.SessionKey]*served{}
		}
		s = &served{}
		r.served[root][e.key] = s
		r.remote.Add(1)
	}
	out := entry{key: e.key, epoch: s.epoch, head: s.head}
	i := slices.IndexFunc(s.peers, func(p peer) bool { return p.at == from })
	if i < 0 {
		s.peers = append(s.peers, peer{from, now})
		out.state = stateNew
		return out, true
	}
	s.peers[i].seen = now
	out.state = stateBehind
	return out, s.head > e.head || s.epoch > e.epoch
}

// leaves takes a node out of those that are shown a session. The caller holds servedMu.
func (r *Relay) leaves(key conversation.SessionKey, from conversation.Member) {
	s := r.served[rootOf(key)][key]
	if s == nil {
		return
	}
	if s.peers = slices.DeleteFunc(s.peers, func(p peer) bool { return p.at == from }); len(s.peers) == 0 {
		r.forget(key)
	}
}

// dropped takes another node out: nobody follows these sessions there any more.
func (r *Relay) dropped(from conversation.Member, m *message) {
	r.servedMu.Lock()
	defer r.servedMu.Unlock()
	for i := range m.entries {
		r.leaves(m.entries[i].key, from)
	}
}

// sweep takes out the nodes that do not renew any more.
func (r *Relay) sweep() {
	now := time.Now()
	r.servedMu.Lock()
	defer r.servedMu.Unlock()
	for _, tree := range r.served {
		for key, s := range tree {
			s.peers = slices.DeleteFunc(s.peers, func(p peer) bool { return now.Sub(p.seen) > forget || !r.o.Alive(p.at) })
			if len(s.peers) == 0 {
				r.forget(key)
			}
		}
	}
}

// viewFor shows a session to another node that follows it.
func (r *Relay) viewFor(from conversation.Member, m *message) {
	answer := message{kind: kindViewed, id: m.id}
	source := r.source.Load()
	if source == nil {
		r.send(from, &answer) // neither a view nor an error: it looks for itself
		return
	}
	(*source).View(m.key, m.user, func(v conversation.View, err error) {
		if err != nil {
			answer.refused = wire.AppendError(nil, conversation.AsError(err))
		} else {
			answer.body = wire.AppendView(nil, r.shown(v))
		}
		r.send(from, &answer)
	})
}

// types shows that a user types on another node, and passes it on to the others if the
// session is this node's.
func (r *Relay) types(from conversation.Member, m *message) {
	r.o.Hub.Typing(m.key, m.seq, m.user, m.on)
	if !m.passed && r.mine(m.key) {
		r.typing(m, from)
	}
}

// typing tells all nodes but one that a user types.
func (r *Relay) typing(m *message, but conversation.Member) {
	to := r.peers(m.key)
	if len(to) == 0 {
		return
	}
	m.passed = true
	r.sendAll(slices.DeleteFunc(to, func(at conversation.Member) bool { return at == but }), m.append(nil))
}

// storedAt learns how far a session has got that is written on another node. Those who follow
// it here are told; whoever knows it already says nothing, so it goes round once.
func (r *Relay) storedAt(from conversation.Member, m *message) {
	r.replaced(m.key, m.epoch)
	r.know(m.key, m.epoch, m.seq)
	r.front.stored(from, m.key, m.epoch, m.seq)
	if to := r.further(from, m); len(to) > 0 {
		r.sendAll(to, m.append(nil))
	}
}

// further lists who else has to know how far a session has got, if that is news here.
func (r *Relay) further(from conversation.Member, m *message) []conversation.Member {
	if r.remote.Load() == 0 {
		return nil
	}
	r.servedMu.Lock()
	defer r.servedMu.Unlock()
	s := r.served[rootOf(m.key)][m.key]
	if s == nil || m.seq <= s.head || m.epoch < s.epoch {
		return nil
	}
	s.head, s.epoch = m.seq, m.epoch
	return slices.DeleteFunc(s.members(), func(at conversation.Member) bool { return at == from })
}
