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
//
// Lock order: a shard's lock, then an outbox's. Nobody calls the hub while
// holding an outbox's lock.
type Hub struct {
	m      *metrics.Gateway
	seed   maphash.Seed
	shards [hubShards]hubShard
}

type hubShard struct {
	mu     sync.RWMutex
	topics map[conversation.SessionKey]*topic
}

// topic is one followed session.
type topic struct {
	feeds    []*Subscription
	watchers []*watcher
}

// watcher waits for something to happen in a session: an HTTP request with ?wait=.
type watcher struct {
	key conversation.SessionKey
	Hit chan struct{} // capacity 1: look again
}

// NewHub makes an empty follow table. m may be nil.
func NewHub(m *metrics.Gateway) *Hub {
	if m == nil {
		m = metrics.NewGateway(prometheus.NewRegistry())
	}
	h := &Hub{m: m, seed: maphash.MakeSeed()}
	for i := range h.shards {
		h.shards[i].topics = make(map[conversation.SessionKey]*topic)
	}
	return h
}

// shard is chosen by the root session, so that a whole tree lives in one.
func (h *Hub) shard(key conversation.SessionKey) *hubShard {
	return &h.shards[maphash.String(h.seed, string(key.Session.Root()))%hubShards]
}

func (h *Hub) Add(f *Subscription) {
	s := h.shard(f.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topic(f.Key)
	t.feeds = append(t.feeds, f)
	h.m.Follows.Inc()
}

func (s *hubShard) topic(key conversation.SessionKey) *topic {
	t := s.topics[key]
	if t == nil {
		t = &topic{}
		s.topics[key] = t
	}
	return t
}

// Remove ends a feed; a feed that is not there is no matter.
func (h *Hub) Remove(f *Subscription) {
	s := h.shard(f.Key)
	s.mu.Lock()
	if t := s.topics[f.Key]; t != nil {
		if i := slices.Index(t.feeds, f); i >= 0 {
			t.feeds = slices.Delete(t.feeds, i, i+1)
			h.m.Follows.Dec()
		}
		s.drop(f.Key, t)
	}
	s.mu.Unlock()
	f.Stop()
}

func (s *hubShard) drop(key conversation.SessionKey, t *topic) {
	if len(t.feeds) == 0 && len(t.watchers) == 0 {
		delete(s.topics, key)
	}
}

func (h *Hub) Watch(key conversation.SessionKey) *watcher {
	w := &watcher{key: key, Hit: make(chan struct{}, 1)}
	s := h.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topic(key)
	t.watchers = append(t.watchers, w)
	return w
}

func (h *Hub) Unwatch(w *watcher) {
	s := h.shard(w.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[w.key]; t != nil {
		if i := slices.Index(t.watchers, w); i >= 0 {
			t.watchers = slices.Delete(t.watchers, i, i+1)
		}
		s.drop(w.key, t)
	}
}

// Publish implements conversation.Publisher. Events are encoded once for all
// followers, and not at all when there are none.
func (h *Hub) Publish(key conversation.SessionKey, events []conversation.Event) {
	if len(events) == 0 {
		return
	}
	s := h.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.topics[key]
	if t == nil {
		return
	}
	if len(t.feeds) > 0 {
		h.m.PublishedEvents.Add(float64(len(events)))
		h.fan(t, key, events)
	}
	for _, w := range t.watchers {
		w.tell()
	}
}

// fan gives every feed the same bytes: one of at most two encodings.
func (h *Hub) fan(t *topic, key conversation.SessionKey, events []conversation.Event) {
	first, last := events[0].Seq, events[len(events)-1].Seq
	var whole, redacted []byte
	for _, f := range t.feeds {
		data := &whole
		if f.Redact && slices.ContainsFunc(events, func(e conversation.Event) bool { return protocol.Sensitive(e.Body) }) {
			data = &redacted
		}
		if *data == nil {
			*data = encodeBatch(key.Session, events, data == &redacted)
		}
		f.publish(first, last, *data)
	}
}

// encodeBatch builds the frames of events in one piece of memory.
func encodeBatch(session conversation.SessionID, events []conversation.Event, redact bool) []byte {
	scratch := protocol.GetBuffer()
	buf := (*scratch)[:0]
	for i := range events {
		start := len(buf)
		buf = append(buf, 0, 0, 0, 0)
		buf = protocol.AppendEvent(buf, session, &events[i], redact)
		buf = protocol.SealFrame(buf, start, protocol.OpText)
	}
	out := append([]byte(nil), buf...)
	*scratch = buf
	protocol.PutBuffer(scratch)
	return out
}

// Show implements conversation.Publisher.
func (h *Hub) Show(key conversation.SessionKey, after conversation.Seq, e conversation.Ephemeral) {
	s := h.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.topics[key]
	if t == nil || !slices.ContainsFunc(t.feeds, func(f *Subscription) bool { return f.wants(e) }) {
		return
	}
	data := protocol.TextFrame(func(b []byte) []byte { return protocol.AppendEphemeral(b, key.Session, after, e) })
	for _, f := range t.feeds {
		f.show(after, e, data)
	}
}

// Typing shows to all followers but the one who types that a user does.
func (h *Hub) Typing(from *Subscription, after conversation.Seq, user conversation.UserID, on bool) {
	s := h.shard(from.Key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.topics[from.Key]
	if t == nil || len(t.feeds) < 2 {
		return
	}
	data := protocol.TextFrame(func(b []byte) []byte { return protocol.AppendTyping(b, from.Key.Session, after, user, on) })
	for _, f := range t.feeds {
		if f.Out != from.Out {
			f.show(after, nil, data)
		}
	}
}

// Stored implements conversation.Publisher: a feed that was not given all of it
// reads the rest from the log.
func (h *Hub) Stored(key conversation.SessionKey, head conversation.Seq) {
	s := h.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.topics[key]
	if t == nil {
		return
	}
	for _, f := range t.feeds {
		f.stored(head)
	}
	for _, w := range t.watchers {
		w.tell()
	}
}

// Gone implements conversation.Publisher: the session and everything below it
// were erased; their follows end.
func (h *Hub) Gone(key conversation.SessionKey, reason string) {
	s := h.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	below := string(key.Session) + "/"
	for k, t := range s.topics {
		if k.Tenant != key.Tenant || (k.Session != key.Session && !strings.HasPrefix(string(k.Session), below)) {
			continue
		}
		for _, f := range t.feeds {
			after, _ := f.position()
			f.gone(protocol.TextFrame(func(b []byte) []byte { return protocol.AppendGone(b, k.Session, after, reason) }))
			h.m.Follows.Dec()
		}
		for _, w := range t.watchers {
			w.tell()
		}
		t.feeds = nil
		s.drop(k, t)
	}
}

func (w *watcher) tell() {
	select {
	case w.Hit <- struct{}{}:
	default:
	}
}
