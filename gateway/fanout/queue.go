package fanout

import (
	"context"
	"errors"
	"iter"
	"sync"

	"parley/conversation"
	"parley/gateway/protocol"
)

// These bound one write. A larger write gains nothing, and a smaller one lets an
// answer overtake sooner.
const (
	writeFrames = 64
	WriteBytes  = 64 << 10 // what Take gives at once, unless one batch is larger
)

// Source is the engine as followers need it. service.Sessions has it.
type Source interface {
	// View shows a session as of its durable head.
	View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error))
	// Records reads the log of a session.
	Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error]
}

// frameBatch is one entry of a queue: one frame, or several that were built together.
type frameBatch struct {
	data   []byte
	frames int
	pooled *[]byte // scratch memory that goes back when data was copied
	value  *value  // of a waiting delta, and of all entries of a subscription with values
	last   bool    // a close frame: nothing is written after it
	later  *later  // a frame that is not there yet, if not nil; what is behind it waits
}

// Queue holds the frames that still have to be written to one client, bounded in
// number and bytes, and the subscriptions that fill it. Any goroutine may put something
// in; exactly one takes it out. Putting never blocks.
//
// The bound is kept by detaching subscriptions, not by refusing: a live event
// that finds no room detaches its subscription, which goes on from the log when
// the taker has caught up. Answers are always taken in; the reader of commands
// stops reading while the queue is full.
type Queue struct {
	hub    *Hub
	source Source
	limits protocol.Limits

	mu          sync.Mutex
	ring        []frameBatch // grows on demand: most connections are idle most of the time
	head, n     int
	frames      int
	bytes       int
	takerWaits  bool
	wake        chan struct{} // capacity 1; nil with ready
	ready       func()        // is called in the place of wake; see Notify
	readerWaits bool
	room        chan struct{}   // capacity 1; made by the first wait
	offers      chan struct{}   // closed when those that Offer holds back may try again; nil = none is
	closed      bool            // nothing is taken in any more
	replays     []*Subscription // those that go on from the log, in turn
	pong        []byte          // the newest pong that found the queue half full

	next *Subscription // the taker's: it reads the log for this one before it takes again
}

// NewQueue makes the queue of one client, whose subscriptions read from source.
// Its bounds are l.QueueFrames and l.QueueBytes, a page of the log l.ReplayPage.
func (h *Hub) NewQueue(source Source, l protocol.Limits) *Queue {
	return &Queue{hub: h, source: source, limits: l, wake: make(chan struct{}, 1)}
}

// NewNotifyingQueue makes a queue without Wake, for takers that are not a goroutine of
// their own: ready is called once as soon as there is something to take, and again
// after each Take that gave nothing. It is called under the queue's lock, so it must
// not block and not use the queue.
func (h *Hub) NewNotifyingQueue(source Source, l protocol.Limits, ready func()) *Queue {
	return &Queue{hub: h, source: source, limits: l, ready: ready, takerWaits: true}
}

// push appends a batch. The caller holds mu.
func (q *Queue) push(b frameBatch) {
	if q.closed {
		return
	}
	if q.n == len(q.ring) {
		grown := make([]frameBatch, max(4, 2*len(q.ring)))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = b
	q.n++
	q.frames += b.frames
	q.bytes += len(b.data)
	if b.last {
		q.closed = true
		q.wakeOffers()
	}
	q.wakeTaker()
}

// wakeTaker wakes the taker if it waits. The caller holds mu.
func (q *Queue) wakeTaker() {
	if q.takerWaits {
		q.takerWaits = false
		if q.ready != nil {
			q.ready()
			return
		}
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// Wake gives a value when there is something to take; the taker waits for it after
// a Take that gave nothing.
func (q *Queue) Wake() <-chan struct{} { return q.wake }

// size is the room that b takes. The caller holds mu.
func (b *frameBatch) size() int {
	if b.value != nil && b.value.merged != nil {
		return len(b.data) + b.value.merged.added
	}
	return len(b.data)
}

// at is the i-th waiting batch. The caller holds mu.
func (q *Queue) at(i int) *frameBatch { return &q.ring[(q.head+i)%len(q.ring)] }

// pop takes the first batch. The caller holds mu.
func (q *Queue) pop() frameBatch {
	b := q.ring[q.head]
	q.ring[q.head] = frameBatch{}
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	q.frames -= b.frames
	q.bytes -= b.size()
	if b.value != nil && b.value.of != nil {
		b.value.takeMerged(&b)
	}
	if q.n == 0 && len(q.ring) > 64 {
		q.ring, q.head = nil, 0
	}
	return b
}

// roomFor is true when the queue can take so much more. The caller holds mu.
func (q *Queue) roomFor(frames, bytes int) bool {
	return q.n == 0 || (q.frames+frames <= q.limits.QueueFrames && q.bytes+bytes <= q.limits.QueueBytes)
}

// halfFull is true when ephemeral frames begin to give way. The caller holds mu.
func (q *Queue) halfFull() bool {
	return 2*q.frames > q.limits.QueueFrames || 2*q.bytes > q.limits.QueueBytes
}

// Answer queues one text frame whose payload is appended by payload.
func (q *Queue) Answer(payload func(dst []byte) []byte) {
	buf := protocol.GetBuffer()
	*buf = protocol.AppendFrame((*buf)[:0], protocol.OpText, payload)
	q.AnswerBuffer(buf)
}

// AnswerBuffer queues one frame that was built in a buffer of protocol.GetBuffer,
// which belongs to the queue from then on.
func (q *Queue) AnswerBuffer(frame *[]byte) {
	q.give(frameBatch{data: *frame, frames: 1, pooled: frame})
}

func (q *Queue) give(b frameBatch) {
	q.mu.Lock()
	q.push(b)
	q.mu.Unlock()
}

// ErrQueueEnded says that a queue takes nothing in any more.
var ErrQueueEnded = errors.New("the queue has ended")

// Offer queues one text frame whose payload is appended by payload, as soon as the queue is
// less than half full: it gives way to answers and to sessions. It fails with the context's
// error, after which nothing was queued, and with ErrQueueEnded. The taker must not call it.
func (q *Queue) Offer(ctx context.Context, payload func(dst []byte) []byte) error {
	buf := protocol.GetBuffer()
	*buf = protocol.AppendFrame((*buf)[:0], protocol.OpText, payload)
	for {
		q.mu.Lock()
		err := ctx.Err()
		if err == nil && q.closed {
			err = ErrQueueEnded
		}
		if err == nil && (q.n == 0 || !q.halfFull()) {
			q.push(frameBatch{data: *buf, frames: 1, pooled: buf})
			q.mu.Unlock()
			return nil
		}
		if err != nil {
			q.mu.Unlock()
			protocol.PutBuffer(buf)
			return err
		}
		if q.offers == nil {
			q.offers = make(chan struct{})
		}
		again := q.offers
		q.mu.Unlock()
		select {
		case <-again:
		case <-ctx.Done():
		}
	}
}

// wakeOffers lets those that Offer holds back try again. The caller holds mu.
func (q *Queue) wakeOffers() {
	if q.offers != nil {
		close(q.offers)
		q.offers = nil
	}
}

// Ping queues a ping.
func (q *Queue) Ping() {
	q.give(frameBatch{data: protocol.AppendFrame(nil, protocol.OpPing, func(b []byte) []byte { return b }), frames: 1})
}

// Pong queues the answer to a ping. While the queue is half full only the newest one
// is kept (RFC 6455, section 5.5.3, lets the others go): a client that pings and does not
// read would fill the memory with them.
func (q *Queue) Pong(payload []byte) {
	frame := protocol.AppendFrame(nil, protocol.OpPong, func(b []byte) []byte { return append(b, payload...) })
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.pong = frame
	q.pushPong()
}

// pushPong queues the pong that waits, if there is room by now. The caller holds mu.
func (q *Queue) pushPong() {
	if q.pong != nil && !q.halfFull() {
		frame := q.pong
		q.pong = nil
		q.push(frameBatch{data: frame, frames: 1})
	}
}

// Finish queues the last frame; nothing is taken in after it.
func (q *Queue) Finish(frame []byte) {
	q.give(frameBatch{data: frame, frames: 1, last: true})
}

// Abandon throws away the waiting frames; the taker learns that the queue has ended.
func (q *Queue) Abandon() {
	q.mu.Lock()
	q.closed = true
	q.ring, q.head, q.n, q.frames, q.bytes = nil, 0, 0, 0, 0
	q.replays, q.pong = nil, nil
	q.wakeOffers()
	q.wakeTaker()
	q.wakeReader()
	q.mu.Unlock()
}

// wakeReader wakes the reader of commands if it waits for room. The caller holds mu.
func (q *Queue) wakeReader() {
	if q.readerWaits {
		q.readerWaits = false
		select {
		case q.room <- struct{}{}: // Full has made it
		default:
		}
	}
}

// Full tells the reader of commands to wait for a value on Room before it reads on.
func (q *Queue) Full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.roomFor(1, 0) {
		return false
	}
	q.readerWaits = true
	if q.room == nil {
		q.room = make(chan struct{}, 1)
	}
	return true
}

// Room gives a value when a full queue has room again, or has ended. It is for the
// goroutine that calls Full.
func (q *Queue) Room() <-chan struct{} { return q.room }

// Taken is the result of one call of Take. After an empty one the taker waits for Wake.
type Taken struct {
	Data   []byte // whole frames, shared with other takers: not to be changed, and valid until the next call
	Frames int
	Last   bool // nothing comes after Data
	Ended  bool // the queue was abandoned or is finished
	Behind bool // from TakeQueued: the log has to be read for a subscription, which Take does

	Err     error                  // the log could not be read; the subscription has ended
	Session conversation.SessionID // that Err is about
}

// Take moves waiting frames into scratch, at most one write's worth. A batch that
// waits alone, or is larger, is given as it is. In between it reads the log for one
// subscription after the other, within ctx.
func (q *Queue) Take(ctx context.Context, scratch []byte) Taken {
	for {
		if s, err := q.replayNext(ctx, false); err != nil {
			return Taken{Err: err, Session: s.key.Session}
		}
		if t := q.take(scratch); !t.Behind {
			return t
		}
	}
}

// TakeQueued is Take without the log: it never waits. When the log has to be read, it
// says so in its result, and Take must be called next.
func (q *Queue) TakeQueued(scratch []byte) Taken {
	if q.next != nil {
		return Taken{Behind: true}
	}
	return q.take(scratch)
}

// replayNext reads the log for the subscription that was chosen, if any. One whose
// log cannot be read is closed, and returned with the error; one whose log is out of
// reach for now waits, and is read for again. With again, one for which ctx had no time
// stays chosen: the taker comes again. For the taker only.
func (q *Queue) replayNext(ctx context.Context, again bool) (*Subscription, error) {
	s := q.next
	if s == nil {
		return nil, nil
	}
	q.next = nil
	err := s.replay(ctx)
	if away := conversation.AsError(err); away != nil && away.Code == conversation.Unavailable {
		s.replayLater(away.RetryAfter)
		return nil, nil
	}
	switch {
	case err == nil:
	case again && ctx.Err() != nil:
		q.next = s
	default:
		s.Close()
	}
	return s, err
}

func (q *Queue) take(scratch []byte) Taken {
	q.mu.Lock()
	defer q.mu.Unlock()
	var t Taken
	q.observe()
	t.Data = scratch[:0]
	for q.n > 0 && !t.Last {
		first := q.at(0)
		if first.later != nil && !q.arrived(first) {
			break
		}
		if t.Frames > 0 && (t.Frames+first.frames > writeFrames || len(t.Data)+first.size() > WriteBytes) {
			break
		}
		b := q.pop()
		t.Frames += b.frames
		t.Last = b.last
		if len(t.Data) == 0 && b.pooled == nil && (q.n == 0 || len(b.data) > WriteBytes) {
			t.Data = b.data // alone: it need not be copied
			break
		}
		t.Data = append(t.Data, b.data...)
		if b.pooled != nil {
			protocol.PutBuffer(b.pooled)
		}
	}
	q.pushPong()
	t.Ended = q.taken(t.Frames > 0)
	t.Behind = t.Frames == 0 && q.next != nil // under the lock: without anything the next taker may come at once
	return t
}

// observe counts what waits. The caller holds mu.
func (q *Queue) observe() {
	if q.n > 0 {
		q.hub.metrics.QueueFrames.Observe(float64(q.frames))
		q.hub.metrics.QueueBytes.Observe(float64(q.bytes))
	}
}

// taken ends a take: it lets the reader of commands go on, chooses the
// subscription to be read for next, and notes that the taker will wait. ended is
// true when there is nothing and never will be. The caller holds mu.
func (q *Queue) taken(some bool) (ended bool) {
	if q.roomFor(1, 0) {
		q.wakeReader()
	}
	if q.n == 0 || !q.halfFull() {
		q.wakeOffers()
	}
	if len(q.replays) > 0 && !q.closed && !q.halfFull() {
		q.next = q.replays[0]
	}
	if !some && q.next == nil {
		ended = q.closed && q.n == 0 // else what is first is not there yet
		q.takerWaits = !ended
	}
	return ended
}
