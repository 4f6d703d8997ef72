package fanout

import (
	"context"
	"fmt"

	"parley/conversation"
	"parley/gateway/protocol"
)

// CatchUp reads one page of the log for a feed that is behind and queues it. It
// runs in the writer's goroutine, which alone moves the cursor of such a feed.
// live is true when the feed goes on with what is published.
func (f *Subscription) CatchUp(ctx context.Context) (live bool, err error) {
	o := f.Out
	o.mu.Lock()
	cursor, target := f.cursor, f.until
	if !f.synced {
		target = f.head
	}
	o.mu.Unlock()

	var page []byte
	last := cursor
	if target > cursor {
		page, last, err = f.readPage(ctx, cursor, target)
		if err != nil {
			return false, err
		}
		o.m.ReplayedEvents.Add(float64(last - cursor))
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	if f.state != stateBehind {
		return false, nil // it ended meanwhile
	}
	f.leaveRow() // and to its end again, unless it is done
	if last > cursor {
		o.push(FrameBatch{Data: page, Frames: int(last - cursor)})
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
func (f *Subscription) readPage(ctx context.Context, cursor, target conversation.Seq) ([]byte, conversation.Seq, error) {
	scratch := protocol.GetBuffer()
	defer protocol.PutBuffer(scratch)
	buf := (*scratch)[:0]
	last := cursor
	limit := f.Out.replayPage
	for record, err := range f.Out.source.Records(ctx, f.Key, conversation.Range{After: cursor, Before: target + 1, Limit: limit}) {
		if err != nil {
			return nil, cursor, err
		}
		for i := range record.Events {
			e := &record.Events[i]
			if e.Seq <= last || e.Seq > target {
				continue
			}
			if e.Seq != last+1 {
				return nil, cursor, fmt.Errorf("the log of %s has %d after %d", f.Key.Session, e.Seq, last)
			}
			start := len(buf)
			buf = append(buf, 0, 0, 0, 0)
			buf = protocol.AppendEvent(buf, f.Key.Session, e, f.Redact)
			buf = protocol.SealFrame(buf, start, protocol.OpText)
			last = e.Seq
			if int(last-cursor) >= limit || len(buf) >= WriteBytes-4096 {
				*scratch = buf
				return append([]byte(nil), buf...), last, nil
			}
		}
	}
	*scratch = buf
	return append([]byte(nil), buf...), last, nil
}

// Drafts shows what streams right now.
func (f *Subscription) Drafts(v conversation.View) {
	o := f.Out
	for _, d := range v.Drafts {
		frame := protocol.TextFrame(func(b []byte) []byte { return protocol.AppendDraftState(b, f.Key.Session, v.Head, d) })
		o.mu.Lock()
		if f.state == stateLive && v.Head <= f.cursor {
			o.push(FrameBatch{Data: frame, Frames: 1})
		}
		o.mu.Unlock()
	}
}

// ResumeDrafts shows what streams to a feed that has just gone live and has
// missed deltas meanwhile.
func (f *Subscription) ResumeDrafts() {
	f.Out.mu.Lock()
	wanted := f.missed && f.Deltas && f.state == stateLive
	f.missed = false
	f.Out.mu.Unlock()
	if !wanted {
		return
	}
	f.Out.source.View(f.Key, f.As, func(v conversation.View, err error) {
		if err == nil {
			f.Drafts(v)
		}
	})
}
