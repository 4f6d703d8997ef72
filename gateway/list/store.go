package list

import (
	"context"
	"errors"
	"sync"

	"parley/conversation"
)

// Store is a store for those who write on this node: what they commit and erase is told to
// tell, behind it and before the writer hears of it.
func Store(s conversation.Store, tell func(Touched)) conversation.Store {
	return &telling{Store: s, tell: tell, unclear: map[conversation.SessionKey]Touched{}}
}

type telling struct {
	conversation.Store
	tell func(Touched)

	mu      sync.Mutex
	unclear map[conversation.SessionKey]Touched // commits whose outcome was not known; the next Acquire settles them
}

// Commit implements conversation.Store.
func (t *telling) Commit(ctx context.Context, key conversation.SessionKey, c conversation.Commit) error {
	err := t.Store.Commit(ctx, key, c)
	t.committed(key, &c, err)
	return err
}

// CommitAsync implements conversation.Store.
func (t *telling) CommitAsync(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error)) {
	if key.Session.Depth() > 0 {
		t.Store.CommitAsync(ctx, key, c, done)
		return
	}
	t.Store.CommitAsync(ctx, key, c, func(err error) {
		t.committed(key, c, err) // before done: then it is the writer's again
		done(err)
	})
}

func (t *telling) committed(key conversation.SessionKey, c *conversation.Commit, err error) {
	if key.Session.Depth() > 0 || len(c.Events) == 0 && len(c.Cursors) == 0 {
		return
	}
	switch {
	case err == nil:
		t.tell(touchedBy(key, c))
	case !settled(err):
		t.doubt(touchedBy(key, c))
	}
}

// settled is true for an error after which it is known what is stored.
func settled(err error) bool {
	var duplicate *conversation.DuplicateError
	var owned *conversation.OwnedError
	if errors.As(err, &duplicate) || errors.As(err, &owned) {
		return true
	}
	for _, known := range []error{
		conversation.ErrFenced, conversation.ErrConflict, conversation.ErrFull, conversation.ErrNotFound,
		conversation.ErrTooNew, conversation.ErrUnread, conversation.ErrDamaged, conversation.ErrClosed,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// doubt keeps what a commit may have changed until it is known.
func (t *telling) doubt(touched Touched) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.unclear[touched.Key]
	touched.Everyone = touched.Everyone || before.Everyone
	touched.Users = append(touched.Users, before.Users...)
	t.unclear[touched.Key] = touched
}

// Acquire implements conversation.Store: what the writer of before has committed is stored
// by now, or never will be.
func (t *telling) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	head, err := t.Store.Acquire(ctx, key, how)
	if err == nil || settled(err) {
		t.mu.Lock()
		touched, unclear := t.unclear[key]
		delete(t.unclear, key)
		t.mu.Unlock()
		if unclear {
			t.tell(touched)
		}
	}
	return head, err
}

// Delete implements conversation.Store. Who could see the session is read before.
func (t *telling) Delete(ctx context.Context, key conversation.SessionKey) error {
	row, unread := t.Store.Summary(ctx, key)
	err := t.Store.Delete(ctx, key)
	touched := Touched{Key: key, Everyone: row.Access == conversation.AccessTenant, Users: audience(row)}
	switch {
	case unread != nil:
	case err == nil:
		t.tell(touched)
	case !settled(err):
		t.doubt(touched)
	}
	return err
}

// touchedBy says whose rows a commit changes: of those who may see the session, and of those
// who could before. Read cursors are their users' own.
func touchedBy(key conversation.SessionKey, c *conversation.Commit) Touched {
	t := Touched{Key: key}
	if len(c.Events) == 0 {
		for _, cur := range c.Cursors {
			t.Users = append(t.Users, cur.User)
		}
		return t
	}
	t.Everyone, t.Users = c.Summary.Access == conversation.AccessTenant, audience(c.Summary)
	for _, e := range c.Events {
		b, is := e.Body.(conversation.SessionUpdated)
		if !is {
			continue
		}
		t.Everyone = t.Everyone || b.Access != nil
		for user := range b.Members {
			t.Users = append(t.Users, user)
		}
	}
	return t
}

// audience lists the users who are named in a session.
func audience(row conversation.Summary) []conversation.UserID {
	users := make([]conversation.UserID, 1, 1+len(row.Members))
	users[0] = row.Owner
	for user := range row.Members {
		users = append(users, user)
	}
	return users
}
