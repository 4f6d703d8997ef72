package admission

import "parley/conversation"

// Slot is one session's share in the slots of its node: a slot that is counted
// for its running task, or a request for one. The zero value has neither. It
// belongs to the session's actor and is used by it alone.
type Slot struct {
	held     bool             // one of the node's slots is counted for this session
	reserved bool             // one is counted for the command that is being decided
	freeAt   conversation.Seq // not 0: the slot goes back when this event is durable
	request  *Request         // nil = the session waits for no slot
	pool     *Places          // of the session's agent; nil = none
}

// In says which pool the session's tasks are counted in. While one is counted, or waits to
// be, that pool stays.
func (s *Slot) In(pool *Places) {
	if !s.held && !s.reserved && s.request == nil {
		s.pool = pool
	}
}

// Held is true while a slot is counted for the session.
func (s *Slot) Held() bool { return s.held }

// Waiting is true while the session waits for a slot.
func (s *Slot) Waiting() bool { return s.request != nil }

// Want says what has to be free for a command.
type Want uint8

// The wants.
const (
	WantNothing Want = iota // it starts no task
	WantSlot                // a slot of the node
	WantPlace               // and a place in the pool
)

// Reserve tries to have a slot ready for a command that may start a task; true
// when there is one. A slot that the session holds is kept for its next task only
// when no other session waits. Update must follow when the command is decided; until
// then the answer is the same.
func (s *Slot) Reserve(node *Slots, want Want) bool {
	if s.held {
		return node.QueueEmpty()
	}
	s.reserved = s.reserved || want != WantNothing && node.TryAcquire(s.pool, want == WantPlace)
	return s.reserved
}

// Update makes the count agree with what was decided: running tells whether a
// task needs a slot now, head is the last event that was decided. A slot that is
// needed no more stays counted until head is durable.
func (s *Slot) Update(node *Slots, running bool, head conversation.Seq) {
	reserved := s.reserved
	s.reserved = false
	switch {
	case running && !s.held:
		if !reserved {
			node.ForceAcquire(s.pool) // the task was RUNNING before this process knew of it
		}
		s.held, s.freeAt = true, 0
	case running:
		s.freeAt = 0
	case reserved:
		node.Release(s.pool)
	case s.held && s.freeAt == 0:
		s.freeAt = head
	}
}

// Durable gives the slot back if it is durable that no task needs it: durable is
// the last event that is.
func (s *Slot) Durable(node *Slots, running bool, durable conversation.Seq) {
	if s.held && !running && durable >= s.freeAt {
		s.held, s.freeAt = false, 0
		node.Release(s.pool)
	}
}

// Request queues for a slot, unless the session has one or is in the queue
// already. grant must not block; it is to bring the request back to Granted.
func (s *Slot) Request(node *Slots, tenant conversation.TenantID, grant func(*Request)) {
	if s.request == nil && !s.held {
		s.request = node.enqueue(tenant, s.pool, grant)
	}
}

// Granted accepts a grant; true when the session holds a slot by it. With use
// false the slot goes to the next one at once. head is the last event that was
// decided: if no task starts, the slot goes back after that one.
func (s *Slot) Granted(node *Slots, r *Request, use bool, head conversation.Seq) bool {
	if s.request != r || !node.accept(r) {
		return false
	}
	s.request = nil
	if s.held || !use {
		node.Release(s.pool)
		return false
	}
	s.held, s.freeAt = true, head
	return true
}

// Withdraw takes the session out of the queue.
func (s *Slot) Withdraw(node *Slots) {
	if s.request != nil {
		node.withdraw(s.request)
		s.request = nil
	}
}

// Return gives back everything that the session has: it leaves memory.
func (s *Slot) Return(node *Slots) {
	s.Withdraw(node)
	if s.held || s.reserved {
		node.Release(s.pool)
	}
	*s = Slot{}
}
