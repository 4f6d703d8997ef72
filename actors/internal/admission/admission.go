package admission

import (
	"sync"
	"time"

	"parley/conversation"
	"parley/metrics"
)

// Slots counts the node's slots and queues who waits for one. Its methods may be
// called from any goroutine.
type Slots struct {
	metrics *metrics.Actors

	mu      sync.Mutex
	limit   int
	used    int
	waiting int
	queues  map[conversation.TenantID][]*Request
	turns   []conversation.TenantID // tenants with a request in the queue, next first
}

// Request is a place in the queue for a slot. Its state is guarded by Slots.mu.
type Request struct {
	tenant conversation.TenantID
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
	return s.used, s.waiting
}

// TryAcquire takes a slot if one is free and no request waits for it.
func (s *Slots) TryAcquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= s.limit || s.waiting > 0 {
		return false
	}
	s.used++
	s.metrics.Slots.Set(float64(s.used))
	return true
}

// ForceAcquire takes a slot whether one is free or not: for a task that is RUNNING already.
func (s *Slots) ForceAcquire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++
	s.metrics.Slots.Set(float64(s.used))
}

// QueueEmpty is true when no request waits.
func (s *Slots) QueueEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting == 0
}

// Free is true when TryAcquire would succeed.
func (s *Slots) Free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used < s.limit && s.waiting == 0
}

// Release gives a slot back.
func (s *Slots) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.serve()
}

// enqueue queues for a slot. grant is called once a slot is counted for the
// request, which may be before enqueue returns; it runs while a lock is held and
// must not block.
func (s *Slots) enqueue(tenant conversation.TenantID, grant func(*Request)) *Request {
	r := &Request{tenant: tenant, grant: grant, since: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queues[r.tenant]) == 0 {
		s.turns = append(s.turns, r.tenant)
	}
	s.queues[r.tenant] = append(s.queues[r.tenant], r)
	s.waiting++
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
				s.waiting--
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
	}
	r.state = requestDone
	s.serve()
}

// serve hands free slots to the requests that wait. The caller holds mu.
func (s *Slots) serve() {
	for s.used < s.limit && s.waiting > 0 {
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
		s.waiting--
		s.used++
		r.state = requestGranted
		s.metrics.AdmissionWait.Observe(time.Since(r.since).Seconds())
		r.grant(r)
	}
	s.metrics.Slots.Set(float64(s.used))
	s.metrics.SlotWaiters.Set(float64(s.waiting))
}
