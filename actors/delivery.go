package actors

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// deliveryQueue delivers commands to one other session of the tree, in order, each one
// until it is acknowledged, which is after the receiver's commit. Only low-priority
// ones let others pass. Its owner is an actor that passes deliveryDone and retryDelivery
// on to it.
type deliveryQueue struct {
	e          *Engine
	to         conversation.SessionKey
	self       *actor.PID
	queue      []*delivery // the low-priority ones at the end, but for one on its way
	sending    bool        // the first one is on its way
	backingOff bool        // it was refused, and is sent again after the pause
	pause      time.Duration
}

// delivery is one command and what is done when it was taken, or refused for good.
type delivery struct {
	deadLetterOK
	id          string // one with the same id is not queued twice; "" = always
	cmd         conversation.Command
	lowPriority bool                          // it adds work, so it may be refused for long: what answers or stops does not wait for it
	done        func(err *conversation.Error) // may be nil; runs in the owner
}

type (
	deliveryDone struct {
		deadLetterOK
		d   *delivery
		err error
	}
	retryDelivery struct{ deadLetterOK }
)

func (q *deliveryQueue) enqueue(d *delivery) {
	for _, other := range q.queue {
		if d.id != "" && other.id == d.id {
			return
		}
	}
	at := len(q.queue)
	if !d.lowPriority {
		at = q.firstLowPriority()
	}
	q.queue = slices.Insert(q.queue, at, d)
	if at == 0 {
		q.backingOff = false
	}
	q.next()
}

// firstLowPriority is the place before the low-priority ones that are not on their way.
func (q *deliveryQueue) firstLowPriority() int {
	for i, d := range q.queue {
		if d.lowPriority && (i > 0 || !q.sending) {
			return i
		}
	}
	return len(q.queue)
}

func (q *deliveryQueue) next() {
	if q.sending || q.backingOff || len(q.queue) == 0 {
		return
	}
	q.sending = true
	d, root, self := q.queue[0], q.e.system.Root, q.self
	q.e.tellInner(q.to, d.cmd, func(_ conversation.Receipt, err error) {
		root.Send(self, &deliveryDone{d: d, err: err})
	})
}

func (q *deliveryQueue) done(m *deliveryDone) {
	if !q.sending || q.queue[0] != m.d {
		return
	}
	behind := q.firstLowPriority()
	q.sending = false
	switch {
	case !retryable(m.err):
	case m.d.lowPriority && behind > 1:
		q.queue = slices.Insert(slices.Delete(q.queue, 0, 1), behind-1, m.d)
		q.next()
		return
	default:
		q.pause = min(max(2*q.pause, q.e.cfg.TellRetry), q.e.cfg.TellEvery)
		q.backingOff = true
		root, self := q.e.system.Root, q.self
		time.AfterFunc(q.pause, func() { root.Send(self, &retryDelivery{}) })
		return
	}
	q.pause = 0
	q.queue = q.queue[1:]
	if m.d.done != nil {
		m.d.done(asError(m.err))
	}
	q.next()
}

func (q *deliveryQueue) retry() {
	q.backingOff = false
	q.next()
}

// retryable is true for refusals that may pass.
func retryable(err error) bool {
	e := asError(err)
	return e != nil && e.Retryable()
}

func asError(err error) *conversation.Error {
	if err == nil {
		return nil
	}
	var e *conversation.Error
	if errors.As(err, &e) {
		return e
	}
	return conversation.AsError(err)
}

// uplink is the child actor by which a sub-session speaks to its parent.
type uplink struct{ queue deliveryQueue }

// Receive is the actor's.
func (u *uplink) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		u.queue.self = ctx.Self()
	case *delivery:
		u.queue.enqueue(m)
	case *deliveryDone:
		u.queue.done(m)
	case *retryDelivery:
		u.queue.retry()
	}
}

// wake brings a session into memory, as soon as the store allows it.
func (e *Engine) wake(key conversation.SessionKey) { e.tellUntil(key, nil) }

// tellUntil hands a command to another session of the tree and repeats it until
// it is taken or refused for good.
func (e *Engine) tellUntil(key conversation.SessionKey, c conversation.Command) {
	e.workers.Go("telling a session", func() {
		for pause := e.cfg.TellRetry; ; pause = min(2*pause, e.cfg.TellEvery) {
			answer := make(chan error, 1)
			e.tellInner(key, c, func(_ conversation.Receipt, err error) { answer <- err })
			select {
			case err := <-answer:
				if !retryable(err) {
					return
				}
			case <-e.workCtx.Done():
				return
			}
			select {
			case <-time.After(pause):
			case <-e.workCtx.Done():
				return
			}
			if e.phase.Load() != phaseRunning {
				return // the sub-session will speak again after the restart
			}
		}
	}, nil)
}
