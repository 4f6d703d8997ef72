package gateway

import (
	"context"
	"fmt"
	"slices"

	"parley/conversation"
)

// feedState is how a feed gets its events.
type feedState uint8

const (
	feedWaiting feedState = iota // follows already, but its answer has not been given
	feedBehind                   // the writer reads from the log
	feedLive                     // what is published goes straight into the queue
	feedDead                     // unfollowed, replaced or erased
)

// feed is one client's view of one session: a cursor that only moves forward,
// one event at a time. It is fed either by the hub (live) or by the writer from
// the log (behind); the change from one to the other happens under the outbox's
// lock, when the cursor has reached everything that was published. So there is
// never a gap and never an overlap.
//
// The log is read only up to what the hub has published. The answer to a command
// is queued before its events are published, so it is always written first.
type feed struct {
	out    *outbox
	key    conversation.SessionKey
	as     conversation.UserID
	redact bool // the reader lacks read:tools
	deltas bool // the client wants drafts

	// guarded by out.mu

	state  feedState
	cursor conversation.Seq // the last event that was queued
	until  conversation.Seq // the last event that is known to be published
	head   conversation.Seq // synced is said when the cursor comes here
	synced bool             // it was said
	missed bool             // deltas passed by while the feed was not live
}

// publish hands a batch of durable events to the feed; data are their frames.
func (f *feed) publish(first, last conversation.Seq, data []byte) {
	o := f.out
	o.mu.Lock()
	defer o.mu.Unlock()
	f.until = max(f.until, last)
	switch {
	case f.state == feedBehind:
		f.getInRow()
	case f.state != feedLive || last <= f.cursor:
	case first != f.cursor+1: // events that never came: the log has them
		f.fallBehind()
	default:
		frames := int(last-first) + 1
		if !o.roomFor(frames, len(data)) {
			o.m.LagDetaches.Inc()
			f.fallBehind()
			return
		}
		o.push(item{data: data, frames: frames})
		f.cursor = last
	}
}

// stored has the feed read from the log what was never published, up to head.
func (f *feed) stored(head conversation.Seq) {
	o := f.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if head <= f.until {
		return
	}
	f.until = head
	switch {
	case f.state == feedBehind:
		f.getInRow()
	case f.state == feedLive && head > f.cursor:
		f.fallBehind()
	}
}

// getInRow has the writer look at a feed that is behind, if it waits for just
// that. The caller holds out.mu.
func (f *feed) getInRow() {
	if o := f.out; !slices.Contains(o.behind, f) {
		o.behind = append(o.behind, f)
		o.rouse()
	}
}

// fallBehind hands the feed to the writer. The caller holds out.mu.
func (f *feed) fallBehind() {
	f.state = feedBehind
	f.missed = true
	f.out.behind = append(f.out.behind, f)
	f.out.rouse()
}

// goLive ends the reading from the log if there is nothing left to read. The
// caller holds out.mu and has taken the feed out of out.behind.
func (f *feed) goLive() bool {
	if !f.synced && f.cursor >= f.head {
		f.synced = true
		scratch := getBuffer()
		*scratch = appendFrame((*scratch)[:0], opText, func(b []byte) []byte { return appendSynced(b, f.key.Session, f.head) })
		f.out.push(item{data: *scratch, frames: 1, pooled: scratch})
	}
	if f.synced && f.cursor >= f.until {
		f.state = feedLive
		return true
	}
	return false
}

// begin gives the answer to follow and starts the replay. Older is the feed that
// this one replaces, if any; it ends with the answer. live is true when there is
// nothing to replay.
func (f *feed) begin(answer item, since, head conversation.Seq, drafts bool, older *feed) (live bool) {
	o := f.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.state != feedWaiting { // unfollowed before it began: the command is answered all the same
		if answer.frames > 0 {
			o.push(answer)
		}
		return false
	}
	if older != nil {
		older.kill()
	}
	if answer.frames > 0 {
		o.push(answer)
	}
	f.cursor, f.head = since, head
	f.until = max(f.until, head)
	f.missed = drafts
	if f.goLive() {
		return true
	}
	f.state = feedBehind
	o.behind = append(o.behind, f)
	o.rouse()
	return false
}

// kill ends the feed. The caller holds out.mu.
func (f *feed) kill() {
	f.state = feedDead
	f.leaveRow()
}

// leaveRow takes the feed out of those that the writer reads for. The caller
// holds out.mu.
func (f *feed) leaveRow() {
	if i := slices.Index(f.out.behind, f); i >= 0 {
		f.out.behind = slices.Delete(f.out.behind, i, i+1)
	}
}

// dead is true when the feed has ended.
func (f *feed) dead() bool {
	f.out.mu.Lock()
	defer f.out.mu.Unlock()
	return f.state == feedDead
}

// stop ends the feed, wherever it is.
func (f *feed) stop() {
	f.out.mu.Lock()
	defer f.out.mu.Unlock()
	f.kill()
}

// gone tells the client that the session was erased and ends the feed.
func (f *feed) gone(frame []byte) {
	o := f.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.state == feedLive || f.state == feedBehind {
		o.push(item{data: frame, frames: 1})
	}
	f.kill()
}

// wants is false for drafts that the client did not ask for.
func (f *feed) wants(e conversation.Ephemeral) bool {
	switch e.(type) {
	case conversation.Delta, conversation.DraftDropped:
		return f.deltas
	default:
		return true
	}
}

// show hands an ephemeral frame to the feed. It is dropped when the event that
// it came after has not been queued yet, and when the client is slow.
func (f *feed) show(after conversation.Seq, e conversation.Ephemeral, data []byte) {
	if !f.wants(e) {
		return
	}
	o := f.out
	o.mu.Lock()
	defer o.mu.Unlock()
	delta, isDelta := e.(conversation.Delta)
	if f.state != feedLive || after > f.cursor {
		f.missed = f.missed || isDelta
		return
	}
	switch {
	case isDelta:
		if o.overHalf() && f.merge(after, delta) {
			o.m.DeltasMerged.Inc()
			return
		}
		if !o.roomFor(1, len(data)) {
			o.m.EphemeralDrops.Inc()
			return
		}
		o.push(item{data: data, frames: 1, delta: &waitingDelta{feed: f, after: after, delta: delta}})
	default:
		_, dropped := e.(conversation.DraftDropped)
		if !o.roomFor(1, len(data)) || (o.overHalf() && !dropped) {
			o.m.EphemeralDrops.Inc()
			return
		}
		o.push(item{data: data, frames: 1})
	}
}

// merge adds a delta to one of the same draft that still waits. The caller holds
// out.mu.
func (f *feed) merge(after conversation.Seq, d conversation.Delta) bool {
	o := f.out
	for i := o.n - 1; i >= 0; i-- {
		it := o.at(i)
		w := it.delta
		if w == nil || w.feed != f || w.delta.Draft != d.Draft {
			continue
		}
		if w.after != after || w.delta.At+runes(w.delta.Text) != d.At {
			return false
		}
		merged := w.delta
		merged.Text += d.Text
		o.bytes -= len(it.data)
		it.data = textFrame(func(b []byte) []byte { return appendDelta(b, f.key.Session, after, &merged) })
		it.delta = &waitingDelta{feed: f, after: after, delta: merged}
		o.bytes += len(it.data)
		return true
	}
	return false
}

// position is the cursor, and whether the feed has begun and not ended.
func (f *feed) position() (conversation.Seq, bool) {
	f.out.mu.Lock()
	defer f.out.mu.Unlock()
	return f.cursor, f.state == feedLive || f.state == feedBehind
}

// published is the last event that is known to be published, and whether the feed
// has begun and not ended.
func (f *feed) published() (conversation.Seq, bool) {
	f.out.mu.Lock()
	defer f.out.mu.Unlock()
	return f.until, f.state == feedLive || f.state == feedBehind
}

// catchUp reads one page of the log for a feed that is behind and queues it. It
// runs in the writer's goroutine, which alone moves the cursor of such a feed.
// live is true when the feed goes on with what is published.
func (c *core) catchUp(ctx context.Context, f *feed) (live bool, err error) {
	o := f.out
	o.mu.Lock()
	cursor, target := f.cursor, f.until
	if !f.synced {
		target = f.head
	}
	o.mu.Unlock()

	var page []byte
	last := cursor
	if target > cursor {
		page, last, err = c.readPage(ctx, f.key, f.redact, cursor, target)
		if err != nil {
			return false, err
		}
		c.m.ReplayedEvents.Add(float64(last - cursor))
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	if f.state != feedBehind {
		return false, nil // it ended meanwhile
	}
	f.leaveRow() // and to its end again, unless it is done
	if last > cursor {
		o.push(item{data: page, frames: int(last - cursor)})
		f.cursor = last
	}
	if f.goLive() {
		return true, nil
	}
	if last == cursor && target > cursor {
		// Published, yet not in the log: it was erased a moment ago, and the hub
		// will say so. Until then there is nothing to read.
		return false, nil
	}
	o.behind = append(o.behind, f)
	return false, nil
}

// readPage builds the frames of the events after the cursor, up to target: at
// most limits.replay_page of them, and about one write's worth of bytes.
func (c *core) readPage(ctx context.Context, key conversation.SessionKey, redact bool, cursor, target conversation.Seq) ([]byte, conversation.Seq, error) {
	scratch := getBuffer()
	defer putBuffer(scratch)
	buf := (*scratch)[:0]
	last := cursor
	limit := c.cfg.Limits.ReplayPage
	for record, err := range c.sessions.Records(ctx, key, conversation.Range{After: cursor, Before: target + 1, Limit: limit}) {
		if err != nil {
			return nil, cursor, err
		}
		for i := range record.Events {
			e := &record.Events[i]
			if e.Seq <= last || e.Seq > target {
				continue
			}
			if e.Seq != last+1 {
				return nil, cursor, fmt.Errorf("the log of %s has %d after %d", key.Session, e.Seq, last)
			}
			start := len(buf)
			buf = append(buf, 0, 0, 0, 0)
			buf = appendEvent(buf, key.Session, e, redact)
			buf = sealFrame(buf, start, opText)
			last = e.Seq
			if int(last-cursor) >= limit || len(buf) >= writeBytes-4096 {
				*scratch = buf
				return append([]byte(nil), buf...), last, nil
			}
		}
	}
	*scratch = buf
	return append([]byte(nil), buf...), last, nil
}
