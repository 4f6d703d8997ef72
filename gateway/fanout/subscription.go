package fanout

import (
	"slices"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"
)

// subscriptionState is how a feed gets its events.
type subscriptionState uint8

const (
	stateWaiting subscriptionState = iota // follows already, but its answer has not been given
	stateBehind                           // the writer reads from the log
	stateLive                             // what is published goes straight into the queue
	stateEnded                            // unfollowed, replaced or erased
)

// Subscription is one client's view of one session: a cursor that only moves forward,
// one event at a time. It is fed either by the hub (live) or by the writer from
// the log (behind); the change from one to the other happens under the outbox's
// lock, when the cursor has reached everything that was published. So there is
// never a gap and never an overlap.
//
// The log is read only up to what the hub has published. The answer to a command
// is queued before its events are published, so it is always written first.
type Subscription struct {
	Out    *Queue
	Key    conversation.SessionKey
	As     conversation.UserID
	Redact bool // the reader lacks read:tools
	Deltas bool // the client wants drafts

	// guarded by out.mu

	state  subscriptionState
	cursor conversation.Seq // the last event that was queued
	until  conversation.Seq // the last event that is known to be published
	head   conversation.Seq // synced is said when the cursor comes here
	synced bool             // it was said
	missed bool             // deltas passed by while the feed was not live
}

// publish hands a batch of durable events to the feed; data are their frames.
func (f *Subscription) publish(first, last conversation.Seq, data []byte) {
	o := f.Out
	o.mu.Lock()
	defer o.mu.Unlock()
	f.until = max(f.until, last)
	switch {
	case f.state == stateBehind:
		f.getInRow()
	case f.state != stateLive || last <= f.cursor:
	case first != f.cursor+1: // events that never came: the log has them
		f.fallBehind()
	default:
		frames := int(last-first) + 1
		if !o.roomFor(frames, len(data)) {
			o.m.LagDetaches.Inc()
			f.fallBehind()
			return
		}
		o.push(FrameBatch{Data: data, Frames: frames})
		f.cursor = last
	}
}

// stored has the feed read from the log what was never published, up to head.
func (f *Subscription) stored(head conversation.Seq) {
	o := f.Out
	o.mu.Lock()
	defer o.mu.Unlock()
	if head <= f.until {
		return
	}
	f.until = head
	switch {
	case f.state == stateBehind:
		f.getInRow()
	case f.state == stateLive && head > f.cursor:
		f.fallBehind()
	}
}

// getInRow has the writer look at a feed that is behind, if it waits for just
// that. The caller holds out.mu.
func (f *Subscription) getInRow() {
	if o := f.Out; !slices.Contains(o.behind, f) {
		o.behind = append(o.behind, f)
		o.rouse()
	}
}

// fallBehind hands the feed to the writer. The caller holds out.mu.
func (f *Subscription) fallBehind() {
	f.state = stateBehind
	f.missed = true
	f.Out.behind = append(f.Out.behind, f)
	f.Out.rouse()
}

// goLive ends the reading from the log if there is nothing left to read. The
// caller holds out.mu and has taken the feed out of out.behind.
func (f *Subscription) goLive() bool {
	if !f.synced && f.cursor >= f.head {
		f.synced = true
		scratch := protocol.GetBuffer()
		*scratch = protocol.AppendFrame((*scratch)[:0], protocol.OpText, func(b []byte) []byte { return protocol.AppendSynced(b, f.Key.Session, f.head) })
		f.Out.push(FrameBatch{Data: *scratch, Frames: 1, Pooled: scratch})
	}
	if f.synced && f.cursor >= f.until {
		f.state = stateLive
		return true
	}
	return false
}

// Begin gives the answer to follow and starts the replay. Older is the feed that
// this one replaces, if any; it ends with the answer. live is true when there is
// nothing to replay.
func (f *Subscription) Begin(answer FrameBatch, since, head conversation.Seq, drafts bool, older *Subscription) (live bool) {
	o := f.Out
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.state != stateWaiting { // unfollowed before it began: the command is answered all the same
		if answer.Frames > 0 {
			o.push(answer)
		}
		return false
	}
	if older != nil {
		older.kill()
	}
	if answer.Frames > 0 {
		o.push(answer)
	}
	f.cursor, f.head = since, head
	f.until = max(f.until, head)
	f.missed = drafts
	if f.goLive() {
		return true
	}
	f.state = stateBehind
	o.behind = append(o.behind, f)
	o.rouse()
	return false
}

// kill ends the feed. The caller holds out.mu.
func (f *Subscription) kill() {
	f.state = stateEnded
	f.leaveRow()
}

// leaveRow takes the feed out of those that the writer reads for. The caller
// holds out.mu.
func (f *Subscription) leaveRow() {
	if i := slices.Index(f.Out.behind, f); i >= 0 {
		f.Out.behind = slices.Delete(f.Out.behind, i, i+1)
	}
}

// Dead is true when the feed has ended.
func (f *Subscription) Dead() bool {
	f.Out.mu.Lock()
	defer f.Out.mu.Unlock()
	return f.state == stateEnded
}

// Stop ends the feed, wherever it is.
func (f *Subscription) Stop() {
	f.Out.mu.Lock()
	defer f.Out.mu.Unlock()
	f.kill()
}

// gone tells the client that the session was erased and ends the feed.
func (f *Subscription) gone(frame []byte) {
	o := f.Out
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.state == stateLive || f.state == stateBehind {
		o.push(FrameBatch{Data: frame, Frames: 1})
	}
	f.kill()
}

// wants is false for drafts that the client did not ask for.
func (f *Subscription) wants(e conversation.Ephemeral) bool {
	switch e.(type) {
	case conversation.Delta, conversation.DraftDropped:
		return f.Deltas
	default:
		return true
	}
}

// show hands an ephemeral frame to the feed. It is dropped when the event that
// it came after has not been queued yet, and when the client is slow.
func (f *Subscription) show(after conversation.Seq, e conversation.Ephemeral, data []byte) {
	if !f.wants(e) {
		return
	}
	o := f.Out
	o.mu.Lock()
	defer o.mu.Unlock()
	delta, isDelta := e.(conversation.Delta)
	if f.state != stateLive || after > f.cursor {
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
		o.push(FrameBatch{Data: data, Frames: 1, delta: &waitingDelta{feed: f, after: after, delta: delta}})
	default:
		_, dropped := e.(conversation.DraftDropped)
		if !o.roomFor(1, len(data)) || (o.overHalf() && !dropped) {
			o.m.EphemeralDrops.Inc()
			return
		}
		o.push(FrameBatch{Data: data, Frames: 1})
	}
}

// merge adds a delta to one of the same draft that still waits. The caller holds
// out.mu.
func (f *Subscription) merge(after conversation.Seq, d conversation.Delta) bool {
	o := f.Out
	for i := o.n - 1; i >= 0; i-- {
		it := o.at(i)
		w := it.delta
		if w == nil || w.feed != f || w.delta.Draft != d.Draft {
			continue
		}
		if w.after != after || w.delta.At+utf8.RuneCountInString(w.delta.Text) != d.At {
			return false
		}
		merged := w.delta
		merged.Text += d.Text
		o.bytes -= len(it.Data)
		it.Data = protocol.TextFrame(func(b []byte) []byte { return protocol.AppendDelta(b, f.Key.Session, after, &merged) })
		it.delta = &waitingDelta{feed: f, after: after, delta: merged}
		o.bytes += len(it.Data)
		return true
	}
	return false
}

// position is the cursor, and whether the feed has begun and not ended.
func (f *Subscription) position() (conversation.Seq, bool) {
	f.Out.mu.Lock()
	defer f.Out.mu.Unlock()
	return f.cursor, f.state == stateLive || f.state == stateBehind
}

// Published is the last event that is known to be published, and whether the feed
// has begun and not ended.
func (f *Subscription) Published() (conversation.Seq, bool) {
	f.Out.mu.Lock()
	defer f.Out.mu.Unlock()
	return f.until, f.state == stateLive || f.state == stateBehind
}
