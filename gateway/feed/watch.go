package feed

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
)

// pageEntries is how many entries are read at once. One has at most chats.MaxValue bytes, and
// mostly less than a hundredth of that.
const pageEntries = 32

// ErrEnded says that a watch was closed, or that Feeds was.
var ErrEnded = errors.New("the watch has ended")

// Watch is a cursor in one tenant's feed. One goroutine at a time calls Next; Close may be
// called from any.
type Watch struct {
	feeds *Feeds
	of    *watched
	wake  chan struct{} // capacity 1: there may be something
	ended chan struct{} // closed by Close

	// guarded by Feeds.mu

	at      chats.Number  // the last entry that Next has brought, or that was erased
	page    []chats.Entry // from at to handed, from the poller, if handed is above at
	handed  chats.Number
	reading bool // Next reads the store
	closed  bool
}

// Next brings the next entries, at least one: it waits for them. They are shared with other
// watches and must not be changed. While the store cannot be read it waits as well. It fails
// with the context's error, with conversation.ErrClosed, and with ErrEnded.
func (w *Watch) Next(ctx context.Context) ([]chats.Entry, error) {
	for {
		page, more, err := w.take(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, conversation.ErrClosed), errors.Is(err, ErrEnded):
			return nil, err
		case err != nil:
			w.feeds.metrics.Errors.Inc()
			w.feeds.log.Debug("a feed could not be read; trying again", "tenant", string(w.of.tenant), "error", err)
			if err := w.rest(ctx); err != nil {
				return nil, err
			}
		case len(page) > 0:
			return page, nil
		case more:
		default:
			select {
			case <-w.wake:
			case <-w.ended:
			case <-w.feeds.ctx.Done():
			case <-ctx.Done():
			}
		}
	}
}

// rest waits for the next try.
func (w *Watch) rest(ctx context.Context) error {
	t := time.NewTimer(w.feeds.poll)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.ended:
		return ErrEnded
	case <-w.feeds.ctx.Done():
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take is what there is: what the poller has handed over, else a page of the store. more is
// true when it was empty and there is more to be looked at.
func (w *Watch) take(ctx context.Context) (page []chats.Entry, more bool, err error) {
	f := w.feeds
	f.mu.Lock()
	if w.closed || f.ctx.Err() != nil {
		f.mu.Unlock()
		return nil, false, ErrEnded
	}
	if w.handed > w.at {
		page, w.page, w.at = w.page, nil, w.handed
		more = w.at < w.of.last
		f.mu.Unlock()
		return page, more, nil
	}
	at, last := w.at, w.of.last
	w.reading = at < last
	f.mu.Unlock()
	if at >= last {
		return nil, false, nil
	}
	page, err = f.store.Entries(ctx, w.of.tenant, at, pageEntries)
	f.mu.Lock()
	defer f.mu.Unlock()
	w.reading = false
	if err != nil {
		return nil, false, err
	}
	w.at = through(page, last)
	f.metrics.Read.WithLabelValues("alone").Add(float64(len(page)))
	return page, w.at < w.of.last, nil
}

// Behind is how many entries there are that Next has not brought yet, erased ones included.
func (w *Watch) Behind() chats.Number {
	w.feeds.mu.Lock()
	defer w.feeds.mu.Unlock()
	return w.of.last - min(w.at, w.of.last)
}

// Close ends the watch. Idempotent.
func (w *Watch) Close() {
	f := w.feeds
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.closed {
		return
	}
	w.closed, w.page = true, nil
	close(w.ended)
	delete(w.of.watches, w)
	f.metrics.Watches.Dec()
	if len(w.of.watches) == 0 {
		w.of.stop()
		delete(f.watched, w.of.tenant)
	}
}

// Topic is what an entry is about: "chat.message" and so on. "" = it says nothing that could
// be one.
func Topic(value []byte) string {
	var head struct {
		Topic string `json:"topic"`
	}
	if json.Unmarshal(value, &head) != nil || strings.ContainsFunc(head.Topic, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '_'
	}) {
		return ""
	}
	return head.Topic
}

// AppendEntry appends an entry as clients and webhooks get it: what has happened, with its
// number.
func AppendEntry(dst []byte, e chats.Entry) []byte {
	dst = append(dst, `{"number":`...)
	dst = strconv.AppendUint(dst, uint64(e.Number), 10)
	if len(e.Value) > 2 && e.Value[0] == '{' {
		dst = append(dst, ',')
		return append(dst, e.Value[1:]...)
	}
	return append(dst, '}')
}
