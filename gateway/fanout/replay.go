package fanout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
)

// replay reads one page of the log for a subscription that is behind and queues
// it. It runs in the taker's goroutine, which alone moves the cursor of such a
// subscription.
func (s *Subscription) replay(ctx context.Context) error {
	live, err := s.replayPage(ctx)
	if live {
		s.resumeDrafts()
	}
	return err
}

// replayPage is replay without what follows; live is true when the subscription
// goes on with what is published.
func (s *Subscription) replayPage(ctx context.Context) (live bool, err error) {
	q := s.queue
	q.mu.Lock()
	cursor, target := s.cursor, s.until
	if !s.synced {
		target = s.head
	}
	q.mu.Unlock()

	redact := s.redact.Load()
	p := page{last: cursor}
	if target > cursor {
		shared := false
		if p, shared = q.hub.sharedPage(s, redact, cursor, target); !shared {
			if p, err = s.readPage(ctx, redact, cursor, target); err != nil {
				return false, err
			}
			q.hub.sharePage(s, redact, cursor, p)
		}
		q.hub.metrics.ReplayedEvents.Add(float64(p.last - cursor))
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	if s.phase != phaseReplay {
		return false, nil // it ended meanwhile
	}
	if s.redact.Load() != redact {
		p = page{last: cursor} // read by other rules than those of now: again
	}
	s.cancelReplay() // and back to the end of the list, unless it is done
	if p.last > cursor {
		q.push(frameBatch{data: p.frames, frames: int(p.last-cursor) + p.html, value: s.eventsValue(p.events)})
		s.cursor = p.last
		if newerAttempt(p.over, s.drafts.over) {
			s.drafts.over = p.over
		}
	}
	if s.goLive() {
		return true, nil
	}
	if p.last == cursor && target > cursor && s.redact.Load() == redact {
		// Published, yet not in the log: it was erased a moment ago, and the hub
		// will say so. Until then there is nothing to read.
		return false, nil
	}
	q.replays = append(q.replays, s)
	return false, nil
}

// replayLater has the log read again after a pause: the store is out of reach, which is no
// reason to part from a client.
func (s *Subscription) replayLater(pause time.Duration) {
	q := s.queue
	q.hub.metrics.ReplaysAgain.Inc()
	q.mu.Lock()
	defer q.mu.Unlock()
	s.cancelReplay() // else the taker would ask again at once
	if s.phase != phaseReplay {
		return
	}
	pause = max(pause, minReplayPause)
	time.AfterFunc(pause+rand.N(pause/2), func() { // not all at the same moment
		q.mu.Lock()
		defer q.mu.Unlock()
		if s.phase == phaseReplay {
			s.requestReplay()
		}
	})
}

// minReplayPause is between two attempts to read a log that is out of reach.
const minReplayPause = 200 * time.Millisecond

// page is a piece of the log.
type page struct {
	frames []byte
	events []conversation.Event // only for subscriptions with values
	html   int                  // frames that are no events
	over   conversation.Attempt // the newest that has ended in it
	last   conversation.Seq
}

// readPage builds the frames of the events after the cursor, up to target: at
// most limits.replay_page of them, and about one write's worth of bytes.
func (s *Subscription) readPage(ctx context.Context, redact bool, cursor, target conversation.Seq) (page, error) {
	scratch := pages.Get().(*[]byte)
	defer pages.Put(scratch)
	buf := (*scratch)[:0]
	p := page{last: cursor}
	limit := s.queue.limits.ReplayPage
	full := false
	for record, err := range s.queue.source.Records(ctx, s.key, conversation.Range{After: cursor, Before: target + 1, Limit: limit}) {
		if err != nil {
			return page{}, err
		}
		for i := range record.Events {
			e := &record.Events[i]
			if e.Seq <= p.last || e.Seq > target {
				continue
			}
			if e.Seq != p.last+1 {
				return page{}, fmt.Errorf("the log of %s has %d after %d", s.key.Session, e.Seq, p.last)
			}
			buf = protocol.AppendEventFrame(buf, s.key.Session, e, redact)
			html := 0
			buf, html = s.appendRendered(ctx, buf, e)
			p.html += html
			if s.values {
				p.events = append(p.events, *e)
			}
			p.last = e.Seq
			if over := ends(e); newerAttempt(over, p.over) {
				p.over = over
			}
			if full = int(p.last-cursor) >= limit || len(buf) >= WriteBytes-4096; full {
				break
			}
		}
		if full {
			break
		}
	}
	if cap(buf) <= protocol.MaxPooled {
		*scratch = buf
	}
	p.frames = slices.Clone(buf)
	return p, nil
}

// pages holds scratch space for pages of the log. They are larger than most frames: a
// buffer of those would grow, four times, for most of them.
var pages = sync.Pool{New: func() any { b := make([]byte, 0, WriteBytes); return &b }}
