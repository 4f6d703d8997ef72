package fanout

import (
	"context"
	"iter"
	"sync"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/metrics"
)

// What one write may carry. More in one write is no gain, and a smaller piece
// lets an answer overtake sooner.
const (
	writeFrames = 64
	WriteBytes  = 64 << 10
)

// FrameBatch is one entry of an outbox: one frame, or several that were built together.
type FrameBatch struct {
	Data   []byte
	Frames int
	Pooled *[]byte // scratch memory that goes back when data was copied
	delta  *waitingDelta
	last   bool // a close frame: nothing is written after it
}

// waitingDelta is what a queued delta says, so that a later one can be merged
// into it when the client is slow.
type waitingDelta struct {
	feed  *Subscription
	after conversation.Seq
	delta conversation.Delta
}

// Source is the engine as those who follow need it.
type Source interface {
	// View shows a session as of its durable head.
	View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error))
	// Records reads the log of a session.
	Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error]
}

// Queue is what is still to be written to one client: a bounded queue, and the
// feeds that fill it. Anybody may put something in; exactly one writer takes it
// out. Putting never blocks.
//
// The bound is kept by detaching feeds, not by refusing: a live event that finds
// no room detaches its feed, and the writer goes on from the log when it has
// caught up. Answers are always taken; the reader stops reading commands while
// the queue is full.
type Queue struct {
	m          *metrics.Gateway
	source     Source
	replayPage int
	maxFrames  int
	maxBytes   int

	mu       sync.Mutex
	ring     []FrameBatch // grows on demand: most connections are idle most of the time
	head, n  int
	frames   int
	bytes    int
	sleeping bool            // the writer waits for wake
	Wake     chan struct{}   // capacity 1
	crowded  bool            // the reader waits for room
	Room     chan struct{}   // capacity 1
	closed   bool            // nothing is taken in any more
	behind   []*Subscription // feeds that go on from the log, in turn
}

func NewQueue(from Source, l protocol.Limits, m *metrics.Gateway) *Queue {
	return &Queue{
		m: m, source: from, replayPage: l.ReplayPage,
		maxFrames: l.QueueFrames, maxBytes: l.QueueBytes,
		Wake: make(chan struct{}, 1), Room: make(chan struct{}, 1),
	}
}

// push appends an item. The caller holds mu.
func (o *Queue) push(it FrameBatch) {
	if o.closed {
		return
	}
	if o.n == len(o.ring) {
		grown := make([]FrameBatch, max(4, 2*len(o.ring)))
		for i := range o.n {
			grown[i] = o.ring[(o.head+i)%len(o.ring)]
		}
		o.ring, o.head = grown, 0
	}
	o.ring[(o.head+o.n)%len(o.ring)] = it
	o.n++
	o.frames += it.Frames
	o.bytes += len(it.Data)
	if it.last {
		o.closed = true
	}
	o.rouse()
}

// rouse wakes the writer if it sleeps. The caller holds mu.
func (o *Queue) rouse() {
	if o.sleeping {
		o.sleeping = false
		select {
		case o.Wake <- struct{}{}:
		default:
		}
	}
}

// Nudge wakes the writer for something that is not in the queue.
func (o *Queue) Nudge() {
	o.mu.Lock()
	o.rouse()
	o.mu.Unlock()
}

// at is the i-th waiting item. The caller holds mu.
func (o *Queue) at(i int) *FrameBatch { return &o.ring[(o.head+i)%len(o.ring)] }

// pop takes the first item. The caller holds mu.
func (o *Queue) pop() FrameBatch {
	it := o.ring[o.head]
	o.ring[o.head] = FrameBatch{}
	o.head = (o.head + 1) % len(o.ring)
	o.n--
	o.frames -= it.Frames
	o.bytes -= len(it.Data)
	if o.n == 0 && len(o.ring) > 64 {
		o.ring, o.head = nil, 0
	}
	return it
}

// roomFor is true when the queue can take so much more. The caller holds mu.
func (o *Queue) roomFor(frames, bytes int) bool {
	return o.n == 0 || (o.frames+frames <= o.maxFrames && o.bytes+bytes <= o.maxBytes)
}

// overHalf is when ephemeral frames begin to give way. The caller holds mu.
func (o *Queue) overHalf() bool {
	return 2*o.frames > o.maxFrames || 2*o.bytes > o.maxBytes
}

// Answer queues one text frame whose payload is appended by payload.
func (o *Queue) Answer(payload func(dst []byte) []byte) {
	scratch := protocol.GetBuffer()
	*scratch = protocol.AppendFrame((*scratch)[:0], protocol.OpText, payload)
	o.Give(FrameBatch{Data: *scratch, Frames: 1, Pooled: scratch})
}

// Give queues an item.
func (o *Queue) Give(it FrameBatch) {
	o.mu.Lock()
	o.push(it)
	o.mu.Unlock()
}

// Control queues a control frame.
func (o *Queue) Control(op byte, payload []byte) {
	o.Give(FrameBatch{Data: protocol.AppendFrame(nil, op, func(b []byte) []byte { return append(b, payload...) }), Frames: 1})
}

// Finish queues the last item; nothing is taken in after it.
func (o *Queue) Finish(data []byte) {
	o.Give(FrameBatch{Data: data, Frames: 1, last: true})
}

// Abandon throws away what waits and ends the writer.
func (o *Queue) Abandon() {
	o.mu.Lock()
	o.closed = true
	o.ring, o.head, o.n, o.frames, o.bytes = nil, 0, 0, 0, 0
	o.behind = nil
	o.rouse()
	o.letIn()
	o.mu.Unlock()
}

// letIn wakes the reader if it waits for room. The caller holds mu.
func (o *Queue) letIn() {
	if o.crowded {
		o.crowded = false
		select {
		case o.Room <- struct{}{}:
		default:
		}
	}
}

// Full tells the reader to wait for a value on room before it reads on.
func (o *Queue) Full() bool {
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
	Data   []byte // to be written; valid until the next call
	Frames int
	Last   bool          // nothing comes after it
	Ended  bool          // the outbox was abandoned or is finished
	Behind *Subscription // a feed that goes on from the log
}

// Take moves waiting items into scratch, at most one write's worth. An item that
// is larger alone is given as it is. With nothing to write it names a feed that
// is behind; with neither, the writer must wait for wake.
func (o *Queue) Take(scratch []byte) taken {
	o.mu.Lock()
	defer o.mu.Unlock()
	var t taken
	if o.n > 0 {
		o.m.QueueFrames.Observe(float64(o.frames))
		o.m.QueueBytes.Observe(float64(o.bytes))
	}
	t.Data = scratch[:0]
	for o.n > 0 && !t.Last {
		next := o.at(0)
		if t.Frames > 0 && (t.Frames+next.Frames > writeFrames || len(t.Data)+len(next.Data) > WriteBytes) {
			break
		}
		it := o.pop()
		t.Frames += it.Frames
		t.Last = it.last
		if len(t.Data) == 0 && len(it.Data) > WriteBytes && it.Pooled == nil {
			t.Data = it.Data
			break
		}
		t.Data = append(t.Data, it.Data...)
		if it.Pooled != nil {
			protocol.PutBuffer(it.Pooled)
		}
	}
	if o.roomFor(1, 0) {
		o.letIn()
	}
	if len(o.behind) > 0 && !o.closed && !o.overHalf() {
		t.Behind = o.behind[0]
	}
	if t.Frames == 0 && t.Behind == nil {
		t.Ended = o.closed
		o.sleeping = !o.closed
	}
	return t
}
