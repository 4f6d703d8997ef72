package fanout

import (
	"context"
	"sync"

	"parley/conversation"
	"parley/gateway/protocol"
)

// Renderer makes HTML of the Markdown of parts.
type Renderer interface {
	// Render calls done once with the HTML, or with "" when there is none: before it
	// returns or soon, on another goroutine. It does not wait, and done does not either.
	Render(key conversation.SessionKey, message conversation.MessageID, text string, done func(html string))
	// Forget drops what is kept of a session and those below it.
	Forget(key conversation.SessionKey)
}

// RenderWith gives subscriptions with Options.HTML the HTML of parts. It is for the
// start: nobody may follow anything yet.
func (h *Hub) RenderWith(r Renderer) { h.renderer = r }

// later is a frame that is being made, and has its place in queues already: right behind
// its part. What is behind it waits, for as long as the Renderer takes at most.
type later struct {
	mu     sync.Mutex
	done   bool
	frame  []byte // nil: there is none
	queues []*Queue
}

// finish gives the frame, and wakes those who wait for it.
func (l *later) finish(frame []byte) {
	l.mu.Lock()
	l.done, l.frame = true, frame
	queues := l.queues
	l.queues = nil
	l.mu.Unlock()
	for _, q := range queues {
		q.mu.Lock()
		q.wakeTaker()
		q.mu.Unlock()
	}
}

// arrived is true when the frame of the first batch is there, or will never be; then it
// is a batch like others. The caller holds mu.
func (q *Queue) arrived(first *frameBatch) bool {
	l := first.later
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		*first = frameBatch{data: l.frame, frames: min(1, len(l.frame))}
		q.frames += first.frames
		q.bytes += len(first.data)
	}
	return l.done
}

// pushLater appends a frame that is not there yet. The caller holds mu.
func (q *Queue) pushLater(l *later) {
	l.mu.Lock()
	if !l.done {
		l.queues = append(l.queues, q)
	}
	l.mu.Unlock()
	q.push(frameBatch{later: l})
}

// rendering is the HTML of one part of a batch of events.
type rendering struct {
	frames int // of the batch, up to the part
	html   *later
}

// partOf is the part that an event shows.
func partOf(e *conversation.Event) (conversation.Part, bool) {
	switch b := e.Body.(type) {
	case conversation.PartialResponse:
		return b.Part, true
	case conversation.Response:
		return b.Part, true
	default:
		return conversation.Part{}, false
	}
}

// render has the parts of a batch rendered.
func (h *Hub) render(key conversation.SessionKey, events []conversation.Event) (all []rendering) {
	for i := range events {
		part, ok := partOf(&events[i])
		if !ok {
			continue
		}
		r := rendering{frames: i + 1, html: &later{}}
		after := events[i].Seq
		h.renderer.Render(key, part.Message, part.Text, func(html string) { r.html.finish(renderedFrame(key.Session, after, part.Message, html)) })
		all = append(all, r)
	}
	return all
}

// renderedFrame is nil if there is no HTML.
func renderedFrame(session conversation.SessionID, after conversation.Seq, message conversation.MessageID, html string) []byte {
	if html == "" {
		return nil
	}
	return protocol.TextFrame(func(b []byte) []byte { return protocol.AppendRendered(b, session, after, message, html) })
}

// pushRendered queues a batch with the HTML behind each part. The caller holds queue.mu.
func (s *Subscription) pushRendered(frames int, data []byte, all []rendering) {
	done := 0
	for _, r := range all {
		rest := data
		for range r.frames - done {
			_, _, rest = protocol.NextFrame(rest)
		}
		s.queue.push(frameBatch{data: data[:len(data)-len(rest)], frames: r.frames - done})
		s.queue.pushLater(r.html)
		data, done = rest, r.frames
	}
	if done < frames {
		s.queue.push(frameBatch{data: data, frames: frames - done})
	}
}

// appendRendered appends the HTML of a replayed part, for which the taker waits. It
// returns how many frames that are.
func (s *Subscription) appendRendered(ctx context.Context, dst []byte, e *conversation.Event) ([]byte, int) {
	part, ok := partOf(e)
	if !ok || !s.html {
		return dst, 0
	}
	done := make(chan []byte, 1)
	s.queue.hub.renderer.Render(s.key, part.Message, part.Text, func(html string) { done <- renderedFrame(s.key.Session, e.Seq, part.Message, html) })
	select {
	case frame := <-done:
		return append(dst, frame...), min(1, len(frame))
	case <-ctx.Done():
		return dst, 0
	}
}
