package gateway

import (
	"sync"

	"parley/conversation"
	"parley/metrics"
)

// What one write may carry. More in one write is no gain, and a smaller piece
// lets an answer overtake sooner.
const (
	writeFrames = 64
	writeBytes  = 64 << 10
)

// item is one entry of an outbox: one frame, or several that were built together.
type item struct {
	data   []byte
	frames int
	pooled *[]byte // scratch memory that goes back when data was copied
	delta  *waitingDelta
	last   bool // a close frame: nothing is written after it
}

// waitingDelta is what a queued delta says, so that a later one can be merged
// into it when the client is slow.
type waitingDelta struct {
	feed  *feed
	after conversation.Seq
	delta conversation.Delta
}

// outbox is what is still to be written to one client: a bounded queue, and the
// feeds that fill it. Anybody may put something in; exactly one writer takes it
// out. Putting never blocks.
//
// The bound is kept by detaching feeds, not by refusing: a live event that finds
// no room detaches its feed, and the writer goes on from the log when it has
// caught up. Answers are always taken; the reader stops reading commands while
// the queue is full.
type outbox struct {
	m         *metrics.Gateway
	maxFrames int
	maxBytes  int

	mu       sync.Mutex
	ring     []item // grows on demand: most connections are idle most of the time
	head, n  int
	frames   int
	bytes    int
	sleeping bool          // the writer waits for wake
	wake     chan struct{} // capacity 1
	crowded  bool          // the reader waits for room
	room     chan struct{} // capacity 1
	closed   bool          // nothing is taken in any more
	behind   []*feed       // feeds that go on from the log, in turn
}

func newOutbox(l Limits, m *metrics.Gateway) *outbox {
	return &outbox{
		m: m, maxFrames: l.QueueFrames, maxBytes: l.QueueBytes,
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
}

// push appends an item. The caller holds mu.
func (o *outbox) push(it item) {
	if o.closed {
		return
	}
	if o.n == len(o.ring) {
		grown := make([]item, max(4, 2*len(o.ring)))
		for i := range o.n {
			grown[i] = o.ring[(o.head+i)%len(o.ring)]
		}
		o.ring, o.head = grown, 0
	}
	o.ring[(o.head+o.n)%len(o.ring)] = it
	o.n++
	o.frames += it.frames
	o.bytes += len(it.data)
	if it.last {
		o.closed = true
	}
	o.rouse()
}

// rouse wakes the writer if it sleeps. The caller holds mu.
func (o *outbox) rouse() {
	if o.sleeping {
		o.sleeping = false
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
}

// nudge wakes the writer for something that is not in the queue.
func (o *outbox) nudge() {
	o.mu.Lock()
	o.rouse()
	o.mu.Unlock()
}

// at is the i-th waiting item. The caller holds mu.
func (o *outbox) at(i int) *item { return &o.ring[(o.head+i)%len(o.ring)] }

// pop takes the first item. The caller holds mu.
func (o *outbox) pop() item {
	it := o.ring[o.head]
	o.ring[o.head] = item{}
	o.head = (o.head + 1) % len(o.ring)
	o.n--
	o.frames -= it.frames
	o.bytes -= len(it.data)
	if o.n == 0 && len(o.ring) > 64 {
		o.ring, o.head = nil, 0
	}
	return it
}

// roomFor is true when the queue can take so much more. The caller holds mu.
func (o *outbox) roomFor(frames, bytes int) bool {
	return o.n == 0 || (o.frames+frames <= o.maxFrames && o.bytes+bytes <= o.maxBytes)
}

// overHalf is when ephemeral frames begin to give way. The caller holds mu.
func (o *outbox) overHalf() bool {
	return 2*o.frames > o.maxFrames || 2*o.bytes > o.maxBytes
}

// answer queues one text frame whose payload is appended by payload.
func (o *outbox) answer(payload func(dst []byte) []byte) {
	scratch := getBuffer()
	*scratch = appendFrame((*scratch)[:0], opText, payload)
	o.give(item{data: *scratch, frames: 1, pooled: scratch})
}

// give queues an item.
func (o *outbox) give(it item) {
	o.mu.Lock()
	o.push(it)
	o.mu.Unlock()
}

// control queues a control frame.
func (o *outbox) control(op byte, payload []byte) {
	o.give(item{data: appendFrame(nil, op, func(b []byte) []byte { return append(b, payload...) }), frames: 1})
}

// finish queues the last item; nothing is taken in after it.
func (o *outbox) finish(data []byte) {
	o.give(item{data: data, frames: 1, last: true})
}

// abandon throws away what waits and ends the writer.
func (o *outbox) abandon() {
	o.mu.Lock()
	o.closed = true
	o.ring, o.head, o.n, o.frames, o.bytes = nil, 0, 0, 0, 0
	o.behind = nil
	o.rouse()
	o.letIn()
	o.mu.Unlock()
}

// letIn wakes the reader if it waits for room. The caller holds mu.
func (o *outbox) letIn() {
	if o.crowded {
		o.crowded = false
		select {
		case o.room <- struct{}{}:
		default:
		}
	}
}

// full tells the reader to wait for a value on room before it reads on.
func (o *outbox) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.roomFor(1, 0) {
		return false
	}
	o.crowded = true
	return true
}

// taken is what one call of take gives the writer to do.
type taken struct {
	data   []byte // to be written; valid until the next call
	frames int
	last   bool  // nothing comes after it
	ended  bool  // the outbox was abandoned or is finished
	behind *feed // a feed that goes on from the log
}

// take moves waiting items into scratch, at most one write's worth. An item that
// is larger alone is given as it is. With nothing to write it names a feed that
// is behind; with neither, the writer must wait for wake.
func (o *outbox) take(scratch []byte) taken {
	o.mu.Lock()
	defer o.mu.Unlock()
	var t taken
	if o.n > 0 {
		o.m.QueueFrames.Observe(float64(o.frames))
		o.m.QueueBytes.Observe(float64(o.bytes))
	}
	t.data = scratch[:0]
	for o.n > 0 && !t.last {
		next := o.at(0)
		if t.frames > 0 && (t.frames+next.frames > writeFrames || len(t.data)+len(next.data) > writeBytes) {
			break
		}
		it := o.pop()
		t.frames += it.frames
		t.last = it.last
		if len(t.data) == 0 && len(it.data) > writeBytes && it.pooled == nil {
			t.data = it.data
			break
		}
		t.data = append(t.data, it.data...)
		if it.pooled != nil {
			putBuffer(it.pooled)
		}
	}
	if o.roomFor(1, 0) {
		o.letIn()
	}
	if len(o.behind) > 0 && !o.closed && !o.overHalf() {
		t.behind = o.behind[0]
	}
	if t.frames == 0 && t.behind == nil {
		t.ended = o.closed
		o.sleeping = !o.closed
	}
	return t
}
