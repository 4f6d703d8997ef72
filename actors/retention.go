package actors

import (
	"context"
	"errors"
	"time"

	"parley/actors/internal/refusal"
	"parley/actors/internal/retention"
	"parley/actors/internal/unreadable"
	"parley/conversation"
	"parley/conversation/access"
)

// Erase removes a session with its sub-sessions, for good. as names who asks: a
// user who may not see it gets not_found, one who may see it but does not own it
// forbidden; "" is the engine itself. Commands that wait in the session get
// not_found.
func (e *Engine) Erase(ctx context.Context, key conversation.SessionKey, as conversation.UserID) error {
	return e.eraseAs(ctx, key, as, false)
}

func (e *Engine) eraseAs(ctx context.Context, key conversation.SessionKey, as conversation.UserID, owned bool) error {
	if e.phase.Load() != phaseRunning {
		return e.refusal()
	}
	if key.Session.Depth() > 0 {
		return conversation.Errorf(conversation.Forbidden, "a delegation's session is erased with its root")
	}
	if !owned && e.elsewhere(key) != nil && !e.Holds(key) {
		return e.unreachable(key)
	}
	summary, err := e.deps.Store.Summary(ctx, key)
	if errors.Is(err, conversation.ErrNotFound) {
		return refusal.NotFound()
	}
	if unreadable.Cause(err) {
		return refusal.Unread(err)
	}
	if err != nil {
		return conversation.AsError(err)
	}
	switch role := summary.Role(as); {
	case as == "" || role.May(access.Own):
	case role == access.None:
		return refusal.NotFound()
	default:
		return conversation.Forbid(access.Own)
	}
	return e.erase(ctx, key, "user", refusal.NotFound(), nil)
}

// erase takes a session out of memory and out of the store, and out of the store
// only if may still agrees when it cannot change any more; nil = always. Commands
// that wait in the session are refused with answer.
func (e *Engine) erase(ctx context.Context, key conversation.SessionKey, reason string, answer *conversation.Error, may func(conversation.Summary) bool) error {
	gone, err := e.eraseBlocked(ctx, key, answer, may)
	if !gone && !errors.Is(err, conversation.ErrNotFound) {
		// It was thrown out of memory for nothing, perhaps with a commit on its way:
		// its work goes on, and what is stored but not published is published.
		e.Wake(key)
	}
	switch {
	case errors.Is(err, conversation.ErrNotFound):
		return refusal.NotFound()
	case err != nil:
		if answer, ok := refusal.Owned(err); ok {
			return answer
		}
		return conversation.AsError(err)
	case !gone:
		return nil
	}
	e.unreadable.Gone(key)
	e.m.Erased.WithLabelValues(reason).Inc()
	e.log.Info("session erased", "session", key.Session, "tenant", key.Tenant, "reason", reason)
	e.deps.Publisher.Gone(key, "erased")
	return nil
}

// eraseBlocked does it while nothing reaches the session. gone is false if the
// session is still there, or may be.
func (e *Engine) eraseBlocked(ctx context.Context, key conversation.SessionKey, answer *conversation.Error, may func(conversation.Summary) bool) (gone bool, err error) {
	// It must not be loaded again before it is deleted.
	left := e.registry.Block(key, &unloadNow{reason: "erased", err: answer})
	defer e.registry.Unblock(key)
	select {
	case <-left:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if may != nil {
		now, err := e.deps.Store.Summary(ctx, key)
		if err != nil || !may(now) {
			return false, err
		}
	}
	if err := e.own(ctx, key); err != nil {
		return false, err
	}
	err = e.deps.Store.Delete(ctx, key)
	return err == nil, err
}

// sweeper erases what retention.max_age no longer keeps.
func (e *Engine) sweeper() *retention.Sweeper {
	return retention.New(retention.Options{
		Age: e.cfg.RetentionAge, Every: e.cfg.SweepEvery,
		Sessions: e.deps.Store.Sessions, Summary: e.deps.Store.Summary,
		Erase: func(ctx context.Context, key conversation.SessionKey, may func(conversation.Summary) bool) error {
			if e.elsewhere(key) != nil {
				return nil // its own node erases it
			}
			return e.erase(ctx, key, "retention", refusal.Unreachable(), may)
		},
		GoOn: func() bool { return e.phase.Load() == phaseRunning },
		Wall: time.Now, Sweep: retention.Counted(e.m), Guard: e.guarded, Log: e.log,
	})
}
