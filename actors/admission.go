package actors

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
	"parley/metrics"
)

// admission hands out the node's slots: a slot belongs to a root task that is
// RUNNING. Who waits is served first come, first served within a tenant, and
// tenants take turns, so that one tenant's burst does not keep the others out.
type admission struct {
	grant   func(*slotRequest) // delivers a grant; must not block
	metrics *metrics.Actors

	mu      sync.Mutex
	limit   int
	used    int
	waiting int
	queues  map[conversation.TenantID][]*slotRequest
	turns   []conversation.TenantID // tenants with someone waiting, next first
}

// slotRequest is one session's wish for a slot. Its state is guarded by admission.mu.
type slotRequest struct {
	deadLetterOK
	pid    *actor.PID
	tenant conversation.TenantID
	since  time.Time
	state  requestState
}

type requestState uint8

const (
	requestWaiting requestState = iota
	requestGranted              // a slot is counted for it, and a grant is on its way
	requestDone                 // taken or dropped
)

func newAdmission(limit int, m *metrics.Actors, grant func(*slotRequest)) *admission {
	return &admission{limit: limit, metrics: m, grant: grant, queues: map[conversation.TenantID][]*slotRequest{}}
}

// tryAcquire takes a slot if one is free and nobody waits for it.
func (a *admission) tryAcquire() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used >= a.limit || a.waiting > 0 {
		return false
	}
	a.used++
	a.metrics.Slots.Set(float64(a.used))
	return true
}

// forceAcquire takes a slot whether one is free or not: for a task that is RUNNING already.
func (a *admission) forceAcquire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used++
	a.metrics.Slots.Set(float64(a.used))
}

// nobodyWaits is true when nobody waits.
func (a *admission) nobodyWaits() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting == 0
}

// free is true when try would succeed.
func (a *admission) free() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used < a.limit && a.waiting == 0
}

// release gives a slot back.
func (a *admission) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used--
	a.serve()
}

// enqueue queues for a slot; the grant may be delivered before it returns.
func (a *admission) enqueue(w *slotRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queues[w.tenant]) == 0 {
		a.turns = append(a.turns, w.tenant)
	}
	a.queues[w.tenant] = append(a.queues[w.tenant], w)
	a.waiting++
	a.serve()
}

// accept accepts a grant; false when the wish was dropped before.
func (a *admission) accept(w *slotRequest) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.state != requestGranted {
		return false
	}
	w.state = requestDone
	return true
}

// withdraw takes a wish back, and its slot if one was granted and not taken.
func (a *admission) withdraw(w *slotRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch w.state {
	case requestWaiting:
		queue := a.queues[w.tenant]
		for i, other := range queue {
			if other == w {
				a.queues[w.tenant] = append(queue[:i:i], queue[i+1:]...)
				a.waiting--
				break
			}
		}
		if len(a.queues[w.tenant]) == 0 {
			delete(a.queues, w.tenant)
			for i, t := range a.turns {
				if t == w.tenant {
					a.turns = append(a.turns[:i:i], a.turns[i+1:]...)
					break
				}
			}
		}
	case requestGranted:
		a.used--
	}
	w.state = requestDone
	a.serve()
}

// serve hands free slots to those who wait. The caller holds mu.
func (a *admission) serve() {
	for a.used < a.limit && a.waiting > 0 {
		tenant := a.turns[0]
		queue := a.queues[tenant]
		w := queue[0]
		queue[0] = nil
		a.turns = a.turns[1:]
		if queue = queue[1:]; len(queue) > 0 {
			a.queues[tenant] = queue
			a.turns = append(a.turns, tenant)
		} else {
			delete(a.queues, tenant)
		}
		a.waiting--
		a.used++
		w.state = requestGranted
		a.metrics.AdmissionWait.Observe(time.Since(w.since).Seconds())
		a.grant(w)
	}
	a.metrics.Slots.Set(float64(a.used))
	a.metrics.SlotWaiters.Set(float64(a.waiting))
}
