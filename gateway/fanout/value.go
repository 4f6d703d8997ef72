package fanout

import (
	"context"
	"errors"
	"slices"

	"parley/conversation"
	"parley/gateway/protocol"
)

// value is the content of a queue's batch, as Go values.
type value struct {
	of        *Subscription
	after     conversation.Seq
	events    []conversation.Event
	ephemeral conversation.Ephemeral
	draft     *conversation.DraftView
	typing    *Typing
	synced    bool
	gone      bool
	merged    *waitingText // of a delta to which others were added while it waits
	reason    string
}

// eventsValue is the value of durable events; nil unless values are wanted. The
// engine may use its slice again, so it is copied.
func (s *Subscription) eventsValue(events []conversation.Event) *value {
	if !s.values {
		return nil
	}
	return &value{of: s, events: slices.Clone(events)}
}

func (s *Subscription) otherValue(v value) *value {
	if !s.values {
		return nil
	}
	v.of = s
	return &v
}

// Typing says that a user types, or has stopped.
type Typing struct {
	User conversation.UserID
	On   bool
}

// Delivery is one thing that a subscription brings. Frames holds the bytes that
// every client is sent for it, as WebSocket frames (protocol.NextFrame takes them
// apart). The other fields are set only with Options.Values, and then exactly one
// of Events, Ephemeral, Draft, Typing, Synced and Gone.
type Delivery struct {
	Frames []byte
	Events []conversation.Event // durable, in order, without gaps: a commit's or a page's

	// The fields below are not stored; After is the event that they came after.

	After     conversation.Seq
	Ephemeral conversation.Ephemeral  // a Delta, DraftDropped, Progress or Thinking
	Draft     *conversation.DraftView // the whole text that streams, after deltas were missed
	Typing    *Typing

	Synced bool   // all that was stored when the subscription began has been delivered
	Gone   bool   // the session was erased; nothing comes after it
	Reason string // why it is gone
}

// ErrEnded says that a subscription brings nothing any more: it was closed, or its
// session erased.
var ErrEnded = errors.New("the subscription has ended")

// Next waits for the next thing that happens. It is for subscriptions with a queue
// of their own, which Subscribe makes, and for one goroutine. It fails with the
// context's error, after which it may be called again, with that of reading the log
// (which ends the subscription), and with ErrEnded.
func (s *Subscription) Next(ctx context.Context) (Delivery, error) {
	q := s.queue
	for {
		if _, err := q.replayNext(ctx, true); err != nil {
			return Delivery{}, err
		}
		d, found, ended := q.takeOne(s)
		switch {
		case found:
			return d, nil
		case ended:
			return Delivery{}, ErrEnded
		case q.next != nil:
			continue
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return Delivery{}, ctx.Err()
		}
	}
}

// takeOne takes the first batch.
func (q *Queue) takeOne(s *Subscription) (d Delivery, found, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.observe()
	if found = q.n > 0; found {
		b := q.pop()
		d.Frames = b.data
		if b.pooled != nil {
			d.Frames = slices.Clone(b.data)
			protocol.PutBuffer(b.pooled)
		}
		if v := b.value; v != nil && s.values {
			d.Events, d.After, d.Ephemeral, d.Draft, d.Typing = v.events, v.after, v.ephemeral, v.draft, v.typing
			d.Synced, d.Gone, d.Reason = v.synced, v.gone, v.reason
		}
	} else if s.phase == phaseEnded {
		return d, false, true
	}
	ended = q.taken(found)
	return d, found, ended
}
