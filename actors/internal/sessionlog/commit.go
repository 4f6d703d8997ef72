package sessionlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"parley/conversation"
)

// Gather adds the results of a decision to a commit that gathers. Of a task's rows the last
// one counts.
func Gather(c *conversation.Commit, d conversation.Decided) {
	c.Summary = d.Summary // as of the last decision
	c.Cursors = append(c.Cursors, d.Cursors...)
	if c.Events == nil && c.Tasks == nil {
		c.Events, c.Keys, c.Tasks = d.Events, d.Keys, d.Rows // they are ours
		return
	}
	c.Events, c.Keys = append(c.Events, d.Events...), append(c.Keys, d.Keys...)
rows:
	for _, row := range d.Rows {
		for i := range c.Tasks {
			if c.Tasks[i].Task == row.Task {
				c.Tasks[i] = row
				continue rows
			}
		}
		c.Tasks = append(c.Tasks, row)
	}
}

// Commit stores a commit and finds out what became of it. done is called once, from
// any goroutine, perhaps before Commit returns; it must not block. A nil error: it is
// stored, and the epoch is the writer's now, which is higher than before if the
// outcome had to be looked for. Any other error: what the session has in memory is
// ahead of what is stored, and must be forgotten; after ErrUnclear, whatever else it
// wraps, the commit may be stored all the same. c belongs to Commit until done is
// called, and may be changed by it. Commit does not block: what must wait does so in a
// goroutine of Log.Go.
func (l *Log) Commit(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(conversation.Epoch, error)) {
	l.Store.CommitAsync(ctx, key, c, func(err error) {
		if err == nil || !outcomeUnknown(err) && !refusedAsNew(c, err) && !errors.Is(err, conversation.ErrFenced) {
			done(c.Epoch, err)
			return
		}
		l.Go("a commit that did not go well", func() { done(l.settle(ctx, key, c, err)) }, func(err error) { done(0, err) })
	})
}

// refusedAsNew is true for a commit that the store has refused because it holds new work.
func refusedAsNew(c *conversation.Commit, err error) bool {
	return errors.Is(err, conversation.ErrFull) && !c.Inner
}

// settle does what can be done about a commit that has ended with err, and finds out
// what became of it.
func (l *Log) settle(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, err error) (conversation.Epoch, error) {
	if refusedAsNew(c, err) {
		// There was room when the newest work was accepted. Running work is in this
		// commit or behind it, and must not end because of it; no more is accepted.
		l.Full()
		c.Inner = true
		err = l.Store.Commit(ctx, key, *c)
	}
	if outcomeUnknown(err) {
		return l.resolve(ctx, key, c, err)
	}
	if errors.Is(err, conversation.ErrFenced) { // by the next writer, or by an erasure on another node
		if erased, failed := l.Store.Erased(ctx, key); failed == nil && erased {
			err = conversation.ErrNotFound
		}
	}
	return c.Epoch, err
}

// outcomeUnknown is true for errors that leave open whether a commit was written.
func outcomeUnknown(err error) bool {
	if err == nil {
		return false
	}
	for _, known := range []error{
		conversation.ErrFenced, conversation.ErrConflict, conversation.ErrFull, conversation.ErrNotFound,
		conversation.ErrTooNew, conversation.ErrUnread, conversation.ErrDamaged, conversation.ErrClosed,
	} {
		if errors.Is(err, known) {
			return false
		}
	}
	var duplicate *conversation.DuplicateError
	return !errors.As(err, &duplicate) && !ownedByAnother(err)
}

// ownedByAnother is true when another member has the session by now: it goes by what is
// stored, like one that has fenced the writer.
func ownedByAnother(err error) bool {
	var owned *conversation.OwnedError
	return errors.As(err, &owned)
}

// ErrUnclear says that it could not be found out whether a commit was written. What it has
// stored, if it has, must be published by the next one who loads the session.
var ErrUnclear = errors.New("it is not known whether the commit was written")

func unclear(first, last error) error {
	return fmt.Errorf("%w: %w", ErrUnclear, errors.Join(first, last))
}

// resolve finds out what became of a commit whose outcome was not seen: it takes
// the session again, on the condition that no other writer did meanwhile, and
// looks at the head. It gives up after a while; the caller then forgets its
// memory, which is always safe.
func (l *Log) resolve(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, err error) (conversation.Epoch, error) {
	l.Log.Warn("the outcome of a commit is not known; looking for it", "session", key.Session, "tenant", key.Tenant, "commit", c.ID, "error", err)
	l.Metrics.FailedCommits.WithLabelValues("unclear").Inc()
	ctx, cancel := context.WithTimeout(ctx, l.ResolveTimeout)
	defer cancel()
	pause := 10 * time.Millisecond
	for asked := false; ; asked = true {
		if l.Pace(ctx) != nil {
			return 0, unclear(err, ctx.Err())
		}
		head, failed := l.Store.Acquire(ctx, key, conversation.AcquireHow{IfEpoch: c.Epoch, Owner: l.Owner})
		switch {
		case failed == nil && head.LastCommit == c.ID:
			return head.Epoch, nil
		case failed == nil && head.Last == c.After:
			c.Epoch = head.Epoch
			if failed = l.Store.Commit(ctx, key, *c); !outcomeUnknown(failed) {
				return c.Epoch, failed
			}
		case failed == nil:
			return 0, conversation.ErrFenced
		case asked && errors.Is(failed, conversation.ErrFenced):
			return 0, unclear(err, failed) // perhaps by an attempt of this one whose answer was lost
		case errors.Is(failed, conversation.ErrFenced), errors.Is(failed, conversation.ErrNotFound), ownedByAnother(failed):
			return 0, failed // whoever took or erased it goes by what is stored
		case !outcomeUnknown(failed):
			return 0, unclear(err, failed) // it says nothing about the commit
		}
		select {
		case <-ctx.Done():
			return 0, unclear(err, failed)
		case <-time.After(pause/2 + rand.N(pause)):
			pause = min(2*pause, time.Second)
		}
	}
}
