package fanout

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

var _ conversation.Publisher = (*Hub)(nil)

// hubShards keeps sessions that have nothing to do with each other from meeting
// at one lock.
const hubShards = 64

// Hub is the follow table of a node: who is shown what a session publishes. It
// never blocks a session: everything that it does is to append to queues.
type Hub struct {
	metrics  *metrics.Gateway
	renderer Renderer // nil: nothing is rendered
	upstream Upstream // nil: all sessions live on this node
	seed     maphash.Seed
	shards   [hubShards]hubShard
}

type hubShard struct {
	mu     sync.RWMutex
	topics map[conversation.SessionKey]topic                     // those that are followed
	below  map[conversation.SessionKey][]conversation.SessionKey // of roots: the sub-sessions that are followed; never an empty list
	share  pageShare
}

// topic is a session that is followed. Guarded by the shard's lock.
type topic struct {
	followers []*Subscription    // never empty
	epoch     conversation.Epoch // the newest writer's that was seen; 0 = none
}

// NewHub makes an empty follow table. m may be nil.
func NewHub(m *metrics.Gateway) *Hub {
	if m == nil {
		m = metrics.NewGateway(prometheus.NewRegistry())
	}
	h := &Hub{metrics: m, seed: maphash.MakeSeed()}
	for i := range h.shards {
		h.shards[i].topics = make(map[conversation.SessionKey]topic)
		h.shards[i].below = make(map[conversation.SessionKey][]conversation.SessionKey)
	}
	return h
}

// shard is chosen by the root session, so that a whole tree lives in one.
func (h *Hub) shard(key conversation.SessionKey) *hubShard {
	return &h.shards[maphash.String(h.seed, string(key.Session.Root()))%hubShards]
}

func (h *Hub) add(s *Subscription) {
	shard := h.shard(s.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	t := shard.topics[s.key]
	if len(t.followers) == 0 {
		if s.key.Session.Depth() > 0 {
			root := rootOf(s.key)
			shard.below[root] = append(shard.below[root], s.key)
		}
		if h.upstream != nil {
			h.upstream.Followed(s.key)
		}
	}
	t.followers = append(t.followers, s)
	shard.topics[s.key] = t
	h.metrics.Follows.Inc()
}

func rootOf(key conversation.SessionKey) conversation.SessionKey {
	return conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()}
}

// tree lists the followed sessions of which one is key and the others are below it.
func (shard *hubShard) tree(key conversation.SessionKey) (keys []conversation.SessionKey) {
	if _, followed := shard.topics[key]; followed {
		keys = append(keys, key)
	}
	for _, k := range shard.below[rootOf(key)] {
		if strings.HasPrefix(string(k.Session), string(key.Session)+"/") {
			keys = append(keys, k)
		}
	}
	return keys
}

// keep sets the followers of a session that was followed. The caller holds the shard's lock.
func (h *Hub) keep(shard *hubShard, key conversation.SessionKey, list []*Subscription) {
	if len(list) > 0 {
		t := shard.topics[key]
		t.followers = list
		shard.topics[key] = t
		return
	}
	delete(shard.topics, key)
	if h.upstream != nil {
		h.upstream.Unfollowed(key)
	}
	if key.Session.Depth() == 0 {
		return
	}
	root := rootOf(key)
	rest := slices.DeleteFunc(shard.below[root], func(k conversation.SessionKey) bool { return k == key })
	if shard.below[root] = rest; len(rest) == 0 {
		delete(shard.below, root)
	}
}

// remove takes a subscription out; one that is not there is no matter.
func (h *Hub) remove(s *Subscription) {
	shard := h.shard(s.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	list := shard.topics[s.key].followers
	i := slices.Index(list, s)
	if i < 0 {
		return
	}
	h.metrics.Follows.Dec()
	h.keep(shard, s.key, slices.Delete(list, i, i+1))
}

// shownTo lists those who are shown what a writer of this epoch publishes: nobody, once a
// newer one was seen. The caller holds the shard's lock for reading. For the first of a newer
// writer it is given back for a moment, so that nothing of an older one is still on its way
// when what is new is shown.
func (shard *hubShard) shownTo(key conversation.SessionKey, epoch conversation.Epoch) []*Subscription {
	t, followed := shard.topics[key]
	if followed && epoch > t.epoch {
		shard.mu.RUnlock()
		shard.raise(key, epoch)
		shard.mu.RLock()
		t = shard.topics[key]
	}
	if epoch < t.epoch && epoch != 0 { // 0 = the writer is not known
		return nil
	}
	return t.followers
}

// raise notes that a newer writer was seen.
func (shard *hubShard) raise(key conversation.SessionKey, epoch conversation.Epoch) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if t, followed := shard.topics[key]; followed && epoch > t.epoch {
		t.epoch = epoch
		shard.topics[key] = t
	}
}

// Publish implements conversation.Publisher. Events are encoded once for all
// followers, and not at all when there are none.
func (h *Hub) Publish(key conversation.SessionKey, epoch conversation.Epoch, events []conversation.Event) {
	if len(events) == 0 {
		return
	}
	shard := h.shard(key)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	if list := shard.shownTo(key, epoch); len(list) > 0 {
		h.metrics.PublishedEvents.Add(float64(len(events)))
		h.publish(list, key, events)
	}
}

// publish gives every follower the same bytes: one of at most two encodings.
func (h *Hub) publish(list []*Subscription, key conversation.SessionKey, events []conversation.Event) {
	var whole, redacted []byte
	var html []rendering
	rendered := false // for the first that wants it
	for _, s := range list {
		data := &whole
		if s.redact.Load() && slices.ContainsFunc(events, func(e conversation.Event) bool { return protocol.Sensitive(e.Body) }) {
			data = &redacted
		}
		if *data == nil {
			*data = encodeBatch(key.Session, events, data == &redacted)
		}
		switch {
		case !s.html:
			s.publish(events, *data, nil)
			continue
		case !rendered:
			html, rendered = h.render(key, events), true
		}
		s.publish(events, *data, html)
	}
}

// encodeBatch builds the frames of events in one piece of memory.
func encodeBatch(session conversation.SessionID, events []conversation.Event, redact bool) []byte {
	scratch := protocol.GetBuffer()
	buf := (*scratch)[:0]
	for i := range events {
		buf = protocol.AppendEventFrame(buf, session, &events[i], redact)
	}
	out := append([]byte(nil), buf...)
	*scratch = buf
	protocol.PutBuffer(scratch)
	return out
}

// Show implements conversation.Publisher.
func (h *Hub) Show(key conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq, e conversation.Ephemeral) {
	shard := h.shard(key)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	list := shard.shownTo(key, epoch)
	if !slices.ContainsFunc(list, func(s *Subscription) bool { return s.wants(e) }) {
		return
	}
	h.metrics.Ephemeral.WithLabelValues(kindOf(e)).Inc()
	var whole, redacted []byte
	sensitive := protocol.SensitiveEphemeral(e)
	for _, s := range list {
		frame, redact := &whole, sensitive && s.redact.Load()
		if redact {
			frame = &redacted
		}
		if *frame == nil {
			*frame = protocol.TextFrame(func(b []byte) []byte { return protocol.AppendEphemeral(b, key.Session, after, e, redact) })
		}
		s.show(after, e, nil, *frame)
	}
}

// kindOf is the type of e's frame.
func kindOf(e conversation.Ephemeral) string {
	switch e.(type) {
	case conversation.Delta:
		return "delta"
	case conversation.DraftDropped:
		return "draft_dropped"
	case conversation.Progress:
		return "progress"
	case conversation.Thinking:
		return "thinking"
	default:
		return "other"
	}
}

// Typing shows that a user types, or has stopped, as another node says.
func (h *Hub) Typing(key conversation.SessionKey, after conversation.Seq, user conversation.UserID, on bool) {
	h.typing(key, nil, after, user, on)
}

// typing shows to all followers but the client of from that a user types.
func (h *Hub) typing(key conversation.SessionKey, from *Queue, after conversation.Seq, user conversation.UserID, on bool) {
	shard := h.shard(key)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	list := shard.topics[key].followers
	if !slices.ContainsFunc(list, func(s *Subscription) bool { return s.queue != from }) {
		return
	}
	h.metrics.Ephemeral.WithLabelValues("typing").Inc()
	frame := protocol.TextFrame(func(b []byte) []byte { return protocol.AppendTyping(b, key.Session, after, user, on) })
	typing := &Typing{User: user, On: on}
	for _, s := range list {
		if s.queue != from {
			s.show(after, nil, typing, frame)
		}
	}
}

// Stored implements conversation.Publisher: a subscription that was not given all
// of it reads the rest from the log.
func (h *Hub) Stored(key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq) {
	shard := h.shard(key)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	for _, s := range shard.shownTo(key, epoch) {
		s.stored(head)
	}
}

// Gone implements conversation.Publisher: the session and everything below it
// were erased; their subscriptions end.
func (h *Hub) Gone(key conversation.SessionKey, reason string) {
	shard := h.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.share.pages = [sharedPages]sharedPage{} // they may be of it
	if h.renderer != nil {
		h.renderer.Forget(key)
	}
	for _, k := range shard.tree(key) {
		for _, s := range shard.topics[k].followers {
			s.gone(reason)
			h.metrics.Follows.Dec()
		}
		h.keep(shard, k, nil)
	}
}

// Audience implements conversation.Publisher: subscriptions of users who may not read the
// session any more end. One that is still asking for its beginning is told when it has it.
func (h *Hub) Audience(root conversation.SessionKey, epoch conversation.Epoch, now conversation.Summary) {
	shard := h.shard(root)
	if !shard.followed(root) {
		return
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if t, followed := shard.topics[root]; followed && epoch != 0 {
		if epoch < t.epoch {
			return // the writer that replaced this one has said it anew
		}
		t.epoch = epoch
		shard.topics[root] = t
	}
	for _, k := range shard.tree(root) {
		h.keep(shard, k, slices.DeleteFunc(shard.topics[k].followers, func(s *Subscription) bool {
			ended := s.as != "" && s.admit(now.Reads(s.as)) // "" is a runtime, which may always
			if ended {
				h.metrics.Follows.Dec()
			}
			return ended
		}))
	}
}

// followed is true when anybody follows a root session or one below it.
func (shard *hubShard) followed(root conversation.SessionKey) bool {
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	_, itself := shard.topics[root]
	return itself || len(shard.below[root]) > 0
}
