package admission

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/metrics"
)

// Slots counts the node's slots and queues who waits for one. Its methods may be
// called from any goroutine.
type Slots struct {
	metrics *metrics.Actors

	mu      sync.Mutex
	limit   int
	used    int
	waiting atomic.Int32                     // written under mu; read without by who only asks whether anybody waits
	queues  map[conversation.TenantID]*queue // of those with a request that waits
	turns   list.List                        // of *queue, next first
}

// queue is the requests of one tenant that wait. Whoever leaves it from the middle, as all do
// at the end of a node, costs no more than the first.
type queue struct {
	tenant  conversation.TenantID
	waiting list.List     // of *Request
	turn    *list.Element // in Slots.turns
}

// Places bounds the tasks of agents that share something scarcer than the node's slots,
// as the processes of one program. All are counted, but only what would be refused needs a
// free place: a task that was accepted once waits for the node alone. Its state is
// guarded by Slots.mu. nil is no bound.
type Places struct{ limit, used int }

// NewPlaces makes so many places.
func NewPlaces(limit int) *Places { return &Places{limit: limit} }

// PlacesOf are the places of the agents that have a limit of their own, by
// agent; agents of one program share them.
func PlacesOf(agents map[conversation.AgentName]policy.Profile) map[conversation.AgentName]*Places {
	all, programs := map[conversation.AgentName]*Places{}, map[string]*Places{}
	for name, agent := range agents {
		if agent.MaxRunning <= 0 {
			continue
		}
		if programs[agent.Program] == nil {
			programs[agent.Program] = NewPlaces(agent.MaxRunning)
		}
		all[name] = programs[agent.Program]
	}
	return all
}

func (p *Places) full() bool { return p != nil && p.used >= p.limit }

func (p *Places) count(n int) {
	if p != nil {
		p.used += n
	}
}

// Request is a place in the queue for a slot. Its state is guarded by Slots.mu.
type Request struct {
	tenant conversation.TenantID
	pool   *Places
	grant  func(*Request)
	since  time.Time
	state  requestState
	place  *list.Element // in its queue
}

type requestState uint8

const (
	requestWaiting requestState = iota
	requestGranted              // a slot is counted for it, and a grant is on its way
	requestDone                 // accepted or withdrawn
)

// New makes the slots of a node: limit of them, which must be more than 0.
func New(limit int, m *metrics.Actors) *Slots {
	return &Slots{limit: limit, metrics: m, queues: map[conversation.TenantID]*queue{}}
}

// Used returns the number of counted slots and of waiting requests.
func (s *Slots) Used() (used, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, int(s.waiting.Load())
}

// TryAcquire takes a slot if one is free and no request waits for it; with bounded only if
// one is free in the pool, too.
func (s *Slots) TryAcquire(pool *Places, bounded bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.limit || !s.QueueEmpty() || bounded && pool.full() {
		return false
	}
	s.used++
	pool.count(1)
	s.metrics.Slots.Set(float64(s.used))
	return true
}

// ForceAcquire takes a slot whether one is free or not: for a task that is RUNNING already.
func (s *Slots) ForceAcquire(pool *Places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++
	pool.count(1)
	s.metrics.Slots.Set(float64(s.used))
}

// QueueEmpty is true when no request waits. Every command of a session with a slot asks
// for it, so it takes no lock.
func (s *Slots) QueueEmpty() bool { return s.waiting.Load() == 0 }

// Release gives a slot back.
func (s *Slots) Release(pool *Places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	pool.count(-1)
	s.serve()
}

// enqueue queues for a slot. grant is called once a slot is counted for the
// request, which may be before enqueue returns; it runs while a lock is held and
// must not block.
func (s *Slots) enqueue(tenant conversation.TenantID, pool *Places, grant func(*Request)) *Request {
	r := &Request{tenant: tenant, pool: pool, grant: grant, since: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[r.tenant]
	if q == nil {
		q = &queue{tenant: r.tenant}
		q.turn = s.turns.PushBack(q)
		s.queues[r.tenant] = q
	}
	r.place = q.waiting.PushBack(r)
	s.waiting.Add(1)
	s.serve()
	return r
}

// accept accepts a grant; false when the request was withdrawn before.
func (s *Slots) accept(r *Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.state != requestGranted {
		return false
	}
	r.state = requestDone
	return true
}

// withdraw takes a request back, and its slot if one was granted and not accepted.
func (s *Slots) withdraw(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.state {
	case requestWaiting:
		s.leave(s.queues[r.tenant], r)
	case requestGranted:
		s.used--
		r.pool.count(-1)
	}
	r.state = requestDone
	s.serve()
}

// leave takes a request out of its queue. The caller holds mu.
func (s *Slots) leave(q *queue, r *Request) {
	q.waiting.Remove(r.place)
	s.waiting.Add(-1)
	if q.waiting.Len() == 0 {
		s.turns.Remove(q.turn)
		delete(s.queues, q.tenant)
	}
}

// serve hands free slots to the requests that wait. The caller holds mu.
func (s *Slots) serve() {
	for s.used < s.limit && !s.QueueEmpty() {
		q := s.turns.Front().Value.(*queue)     //nolint:forcetypeassert // nothing else is in it
		r := q.waiting.Front().Value.(*Request) //nolint:forcetypeassert // the same
		s.turns.MoveToBack(q.turn)
		s.leave(q, r)
		s.used++
		r.pool.count(1)
		r.state = requestGranted
		s.metrics.AdmissionWait.Observe(time.Since(r.since).Seconds())
		r.grant(r)
	}
	s.metrics.Slots.Set(float64(s.used))
	s.metrics.SlotWaiters.Set(float64(s.waiting.Load()))
}
