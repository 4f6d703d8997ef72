package parley

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"
)

// A watch is what a connection is shown besides its sessions: the list of sessions, or
// the chats of platforms. A new connection watches again.
type watch struct {
	client *Client
	name   string
	data   func() any
	ok     func(json.RawMessage) (Body, error) // of the answer; nil = nothing to tell
	need   bool                                // guarded by the client's mu

	ready chan struct{}
	mu    sync.Mutex
	queue []Event
	err   error
}

// Watch shows the changes of the list of one's sessions. The first pair, and each one
// after a lost connection, is a nil *Listed: read the list ([Client.Sessions]) then,
// because changes before it were not shown. Ending the loop ends the watch.
func (c *Client) Watch(ctx context.Context) iter.Seq2[*Listed, error] {
	return func(yield func(*Listed, error) bool) {
		w := c.newWatch("watch", func() any { return nil })
		w.ok = func(json.RawMessage) (Body, error) { return nil, nil }
		for e, err := range w.all(ctx) {
			row, _ := e.Body.(*Listed)
			if !yield(row, err) {
				return
			}
		}
	}
}

// WatchChats shows what happens in the chats of platforms behind the entry since (nil =
// from now on), each entry once (scope chats).
func (c *Client) WatchChats(ctx context.Context, since *uint64) iter.Seq2[*ChatEntry, error] {
	return func(yield func(*ChatEntry, error) bool) {
		var mu sync.Mutex // the answers are read by the link
		last := since
		w := c.newWatch("watch_chats", func() any {
			mu.Lock()
			defer mu.Unlock()
			if last == nil {
				return nil
			}
			return map[string]uint64{"since": *last}
		})
		w.ok = func(answer json.RawMessage) (Body, error) {
			var start FeedStart
			err := json.Unmarshal(answer, &start)
			mu.Lock()
			defer mu.Unlock()
			if before := start.First - 1; err == nil && (last == nil || !start.Resumed) {
				last = &before
			}
			return nil, err
		}
		for e, err := range w.all(ctx) {
			entry, _ := e.Body.(*ChatEntry)
			if entry != nil {
				mu.Lock()
				known := last != nil && entry.Number <= *last
				if !known {
					last = &entry.Number
				}
				mu.Unlock()
				if known {
					continue
				}
			} else if err == nil {
				continue
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

func (c *Client) newWatch(name string, data func() any) *watch {
	return &watch{client: c, name: name, data: data, need: true, ready: make(chan struct{}, 1)}
}

// all begins the watch and ends it with the loop.
func (w *watch) all(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		c := w.client
		c.mu.Lock()
		if c.watches == nil {
			c.mu.Unlock()
			yield(Event{}, context.Cause(c.ctx))
			return
		}
		before, l := c.watches[w.name], c.link
		c.watches[w.name] = w
		c.mu.Unlock()
		if before != nil {
			before.stop(ErrReplaced)
		}
		defer w.close()
		if l != nil {
			l.nudge()
		}
		for {
			w.mu.Lock()
			queue, err := w.queue, w.err
			w.queue = nil
			w.mu.Unlock()
			for _, e := range queue {
				if !yield(e, nil) {
					return
				}
			}
			if len(queue) > 0 {
				continue
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			select {
			case <-w.ready:
			case <-ctx.Done():
				yield(Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// close ends the watch of the loop.
func (w *watch) close() {
	c := w.client
	c.mu.Lock()
	l := c.link
	mine := c.watches[w.name] == w
	if mine {
		delete(c.watches, w.name)
	}
	c.mu.Unlock()
	if mine && l != nil {
		_, _ = l.command("un"+w.name, "", nil, c.options.Answer, func(*frameIn, error) {})
	}
}

func (w *watch) stop(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.wake()
}

func (w *watch) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (w *watch) push(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) >= maxQueue { // rows are whole and entries are numbered: begin again
		w.queue = nil
		w.client.again(w)
		return
	}
	w.queue = append(w.queue, e)
	w.wake()
}

// again makes a watch begin again.
func (c *Client) again(w *watch) {
	time.AfterFunc(0, func() { // the caller holds the watch's lock, which comes after the client's
		c.mu.Lock()
		defer c.mu.Unlock()
		w.need = true
		if c.link != nil {
			c.link.nudge()
		}
	})
}

// send sends the watch over a link.
func (w *watch) send(l *link) error {
	_, err := l.command(w.name, "", w.data(), w.client.options.Answer, func(f *frameIn, err error) {
		switch {
		case err != nil: // the next connection watches again
		case f.Error != nil && f.Error.Retryable:
			wait := max(refusedBy(f.Error).RetryAfter, w.client.options.LeastPause)
			time.AfterFunc(wait, func() { w.client.again(w) })
		case f.Error != nil:
			w.stop(refusedBy(f.Error))
		default:
			if _, err := w.ok(f.Data); err != nil {
				w.stop(err)
				return
			}
			w.push(Event{Type: TypeFollowed})
		}
	})
	return err
}

// watched takes an event of a watch.
func (c *Client) watched(e Event) {
	name := "watch_chats"
	if e.Type == "listed" {
		name = "watch"
	}
	c.mu.Lock()
	w := c.watches[name]
	c.mu.Unlock()
	switch {
	case w == nil:
	case e.Type == "chats_gone":
		w.stop(&Error{Code: Forbidden, Message: "the chats may not be seen any more"})
	default:
		w.push(e)
	}
}
