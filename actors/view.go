package actors

import (
	"errors"
	"time"

	"parley/actors/internal/refusal"
	"parley/actors/internal/unreadable"
	"parley/conversation"
	"parley/conversation/access"
)

// View reads what is open in a session. A session in memory answers as of its
// durable head; one that is not is folded read-only from the store and stays
// where it is. done is called exactly once, from any goroutine, and must not
// block; for a user who may not see the session it is not_found.
func (e *Engine) View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
	t := &envelope{as: as, view: done, at: time.Now(), fromClient: true}
	e.m.Waiting.Inc()
	switch phase := e.phase.Load(); {
	case phase == phaseNew || phase == phaseStopped:
		t.refuse(e, "stopping", refusal.Stopping())
	case key.Session.Depth() > 0 && as != "":
		e.belowRoot(key, t, func() { e.viewNow(key, t) })
	default:
		e.viewNow(key, t)
	}
}

func (e *Engine) viewNow(key conversation.SessionKey, t *envelope) {
	if !e.registry.Deliver(key, t, false) {
		e.foldView(key, t)
	}
}

// foldView answers for a session that is not in memory. Config.MaxFolds are folded
// at once, so that a burst of readers does not take the memory that writers need.
func (e *Engine) foldView(key conversation.SessionKey, t *envelope) {
	if e.folding.Add(1) > int64(e.cfg.MaxFoldWait) {
		e.folding.Add(-1)
		t.refuse(e, "views", refusal.Busy())
		return
	}
	if !e.goUnlessStopped("a view", func() {
		defer e.folding.Add(-1)
		select {
		case e.folds <- struct{}{}:
			defer func() { <-e.folds }()
		case <-e.workCtx.Done():
			t.answer(e, refusal.Stopping())
			return
		}
		v, err := e.sessions.View(e.workCtx, key)
		switch {
		case errors.Is(err, conversation.ErrNotFound), err == nil && t.as != "" && v.Role(t.as) == access.None:
			t.answer(e, refusal.NotFound())
		case err != nil:
			e.unread(key, unreadable.Load, err)
			t.answer(e, refusal.Unread(err))
		default:
			t.state = &v
			t.answer(e, nil)
		}
	}, func(err error) {
		t.answer(e, conversation.AsError(err))
	}) {
		e.folding.Add(-1)
		t.refuse(e, "stopping", refusal.Stopping())
	}
}
