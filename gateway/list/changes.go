package list

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/conversation"
)

// pageRows is how many rows Next brings at once, at most.
const pageRows = 32

// Changes is one client's watch of its user's list. Changes may be marked from any goroutine;
// Next and Close belong to one.
type Changes struct {
	lists  *Board
	tenant conversation.TenantID
	user   conversation.UserID
	wake   chan struct{} // capacity 1: there is something to send

	mu      sync.Mutex
	waiting map[conversation.SessionID]struct{}  // changed, and not sent since
	sent    map[conversation.SessionID]time.Time // within the last second
}

// Row is what has become of a session's row.
type Row struct {
	Session conversation.SessionID
	Summary *conversation.Summary // nil = it is not in the list any more
}

// Close ends the watch. Idempotent.
func (w *Changes) Close() { w.lists.drop(w) }

func (w *Changes) mark(id conversation.SessionID) {
	w.mu.Lock()
	if _, waits := w.waiting[id]; waits {
		w.lists.metrics.Merged.Inc()
	}
	w.waiting[id] = struct{}{}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Next waits for changes and brings some rows. While the store cannot be read it waits as
// well. It fails with the context's error, and when the store is closed.
func (w *Changes) Next(ctx context.Context) ([]Row, error) {
	for {
		ids, wait := w.due(time.Now())
		if len(ids) == 0 {
			if err := w.rest(ctx, wait); err != nil {
				return nil, err
			}
			continue
		}
		rows := make([]Row, 0, len(ids))
		for i, id := range ids {
			row, err := w.lists.row(ctx, conversation.SessionKey{Tenant: w.tenant, Session: id}, w.user)
			if err == nil {
				kind := "row"
				if row == nil {
					kind = "gone"
				}
				w.lists.metrics.Sent.WithLabelValues(kind).Inc()
				rows = append(rows, Row{id, row})
				continue
			}
			for _, id := range ids[i:] { // a second later: they count as sent
				w.mark(id)
			}
			if len(rows) == 0 && (ctx.Err() != nil || errors.Is(err, conversation.ErrClosed)) {
				return nil, errors.Join(ctx.Err(), err)
			}
			w.lists.metrics.Errors.Inc()
			w.lists.log.Debug("a row of a list could not be read; trying again", "tenant", string(w.tenant), "session", string(id), "error", err)
			break
		}
		if len(rows) > 0 {
			return rows, nil
		}
	}
}

// due takes what may be sent now. If there is nothing, wait says how long until something
// may; 0 = until there is a change.
func (w *Changes) due(now time.Time) (ids []conversation.SessionID, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, at := range w.sent {
		left := Every - now.Sub(at)
		if _, waits := w.waiting[id]; left <= 0 {
			delete(w.sent, id)
		} else if waits && (wait == 0 || left < wait) {
			wait = left
		}
	}
	for id := range w.waiting {
		if _, early := w.sent[id]; early {
			continue
		}
		delete(w.waiting, id)
		w.sent[id] = now
		if ids = append(ids, id); len(ids) == pageRows {
			break
		}
	}
	return ids, wait
}

// rest waits for a change, or for the end of a wait.
func (w *Changes) rest(ctx context.Context, wait time.Duration) error {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-w.wake:
	case <-over:
	}
	return nil
}
