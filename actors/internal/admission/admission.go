package admission

import (
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
	waiting atomic.Int32 // written under mu; read without by who only asks whether anybody waits
	queues  map[conversation.TenantID][]*Request
	turns   []conversation.TenantID // tenants with a request in the queue, next first
}

// Places bounds the tasks of agents that share something scarcer than the node's slots,
// as the processes of one program. A free place in it is needed only where a slot is
// tried for: a task that was accepted once waits for the node alone. Its state is
// guarded by Slots.mu. nil is no bound.
type Places struct{ limit, used int }

// NewPlaces makes so many places.
func NewPlaces(limit int) *Places { return &Places{limit: limit} }

// PlacesOf are the places of the agents that have a limit of their own, by
// agent; agents of one program share them. A node that does not refuse has none.
func PlacesOf(agents map[conversation.AgentName]policy.Profile, refuses bool) map[conversation.AgentName]*Places {
	if !refuses {
		return nil
	}
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
}

type requestState uint8

const (
	requestWaiting requestState = iota
	requestGranted              // a slot is counted for it, and a grant is on its way
	requestDone                 // accepted or withdrawn
)

// New makes the slots of a node: limit of them, which must be more than 0.
func New(limit int, m *metrics.Actors) *Slots {
	return &Slots{limit: limit, metrics: m, queues: map[conversation.TenantID][]*Request{}}
}

// Used returns the number of counted slots and of waiting requests.
func (s *Slots) Used() (used, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, int(s.waiting.Load())
}

// TryAcquire takes a slot if one is free, also in the pool, and no request waits for it.
func (s *Slots) TryAcquire(pool *Places) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.limit || !s.QueueEmpty() || pool.full() {
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
	if len(s.queues[r.tenant]) == 0 {
		s.turns = append(s.turns, r.tenant)
	}
	s.queues[r.tenant] = append(s.queues[r.tenant], r)
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
		queue := s.queues[r.tenant]
		for i, other := range queue {
			if other == r {
				s.queues[r.tenant] = append(queue[:i:i], queue[i+1:]...)
				s.waiting.Add(-1)
				break
			}
		}
		if len(s.queues[r.tenant]) == 0 {
			delete(s.queues, r.tenant)
			for i, t := range s.turns {
				if t == r.tenant {
					s.turns = append(s.turns[:i:i], s.turns[i+1:]...)
					break
				}
			}
		}
	case requestGranted:
		s.used--
		r.pool.count(-1)
	}
	r.state = requestDone
	s.serve()
}

// serve hands free slots to the requests that wait. The caller holds mu.
func (s *Slots) serve() {
	for s.used < s.limit && !s.QueueEmpty() {
		tenant := s.turns[0]
		queue := s.queues[tenant]
		r := queue[0]
		queue[0] = nil
		s.turns = s.turns[1:]
		if queue = queue[1:]; len(queue) > 0 {
			s.queues[tenant] = queue
			s.turns = append(s.turns, tenant)
		} else {
			delete(s.queues, tenant)
		}
		s.waiting.Add(-1)
		s.used++
		r.pool.count(1)
		r.state = requestGranted
		s.metrics.AdmissionWait.Observe(time.Since(r.since).Seconds())
		r.grant(r)
	}
	s.metrics.Slots.Set(float64(s.used))
	s.metrics.SlotWaiters.Set(float64(s.waiting.Load()))
}
