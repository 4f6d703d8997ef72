package delivery

import (
	"slices"
	"time"

	"parley/actors/internal/mail"
	"parley/conversation"
)

// Options holds the settings of a Queue.
type Options struct {
	// Tell hands a command to the receiver and calls done exactly once, from any
	// goroutine.
	Tell func(c conversation.Command, done func(error))
	// Post puts a message into the mailbox of the queue's owner.
	Post func(m any)
	// Pause is the first pause after a refusal, MaxPause the longest.
	Pause, MaxPause time.Duration
}

// Queue delivers commands to one receiver. Only the actor that owns it uses it.
type Queue struct {
	o          Options
	queue      []*Delivery // the low-priority ones at the end, but for one on its way
	sending    bool        // the first one is on its way
	backingOff bool        // it was refused, and is sent again after the pause
	pause      time.Duration
}

// Delivery is one command and what is done when it was taken, or refused for
// good. It may itself be sent to the actor that owns the queue.
type Delivery struct {
	mail.DeadLetterOK
	ID          string // one with the same id is not queued twice; "" = always
	Command     conversation.Command
	LowPriority bool                          // others pass it while it waits
	Done        func(err *conversation.Error) // may be nil; runs in the owner; nil error: taken
}

// The messages to the owner.
type (
	result struct {
		mail.DeadLetterOK
		d   *Delivery
		err error
	}
	retry struct{ mail.DeadLetterOK }
)

// New makes an empty queue.
func New(o Options) *Queue { return &Queue{o: o} }

// Empty is true when nothing waits and nothing is on its way.
func (q *Queue) Empty() bool { return len(q.queue) == 0 }

// Enqueue adds a delivery, behind those of its priority.
func (q *Queue) Enqueue(d *Delivery) {
	for _, other := range q.queue {
		if d.ID != "" && other.ID == d.ID {
			return
		}
	}
	at := len(q.queue)
	if !d.LowPriority {
		at = q.firstLowPriority()
	}
	q.queue = slices.Insert(q.queue, at, d)
	if at == 0 {
		q.backingOff = false
	}
	q.next()
}

// Handle takes a message that the queue has posted to its owner; others it
// ignores.
func (q *Queue) Handle(m any) {
	switch m := m.(type) {
	case *result:
		q.acknowledged(m)
	case *retry:
		q.backingOff = false
		q.next()
	}
}

// firstLowPriority is the place before the low-priority ones that are not on
// their way.
func (q *Queue) firstLowPriority() int {
	for i, d := range q.queue {
		if d.LowPriority && (i > 0 || !q.sending) {
			return i
		}
	}
	return len(q.queue)
}

// next sends the first delivery, unless one is on its way or it is too early.
func (q *Queue) next() {
	if q.sending || q.backingOff || len(q.queue) == 0 {
		return
	}
	q.sending = true
	d, post := q.queue[0], q.o.Post
	q.o.Tell(d.Command, func(err error) { post(&result{d: d, err: err}) })
}

// acknowledged ends the first delivery, or has it repeated.
func (q *Queue) acknowledged(m *result) {
	if !q.sending || q.queue[0] != m.d {
		return
	}
	behind := q.firstLowPriority()
	q.sending = false
	switch {
	case !retryable(m.err):
	case m.d.LowPriority && behind > 1:
		q.queue = slices.Insert(slices.Delete(q.queue, 0, 1), behind-1, m.d)
		q.next()
		return
	default:
		q.pause = min(max(2*q.pause, q.o.Pause), q.o.MaxPause)
		q.backingOff = true
		post := q.o.Post
		time.AfterFunc(q.pause, func() { post(&retry{}) })
		return
	}
	q.pause = 0
	q.queue = q.queue[1:]
	if m.d.Done != nil {
		m.d.Done(conversation.AsError(m.err))
	}
	q.next()
}

// retryable is true for refusals that may pass.
func retryable(err error) bool {
	refusal := conversation.AsError(err)
	return refusal != nil && refusal.Retryable()
}
