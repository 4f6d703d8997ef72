package actors

import (
	"context"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/handover"
	"parley/actors/internal/mail"
	"parley/actors/internal/refusal"
	"parley/actors/internal/registry"
	"parley/actors/placement"
	"parley/conversation"
)

// What an engine does because there are others: whose a session is, giving it to its new
// owner, and standing still while the node's lease is over. An engine alone in its store
// has no Placement and no Member, and does nothing of it.

// elsewhere is why a session is not to be brought into memory here; nil = it may be.
func (e *Engine) elsewhere(key conversation.SessionKey) *placement.ElsewhereError {
	if e.deps.Placement == nil {
		return nil
	}
	if owner, local := e.deps.Placement.Local(registry.RootKey(key)); !local {
		return &placement.ElsewhereError{At: owner}
	}
	return nil
}

// mayStart is false for the actor of a session that belongs elsewhere, unless the store has
// said that this node owns it: then nobody else can have it before it was given up here.
// Those below a root that is in memory live with it, wherever it belongs by now.
func (e *Engine) mayStart(key conversation.SessionKey, first []any) bool {
	return e.elsewhere(key) == nil || slices.ContainsFunc(first, func(m any) bool {
		t, ok := m.(*envelope)
		return ok && t.owned
	})
}

// unreachable answers a command whose session is not in memory and was not brought there.
func (e *Engine) unreachable(key conversation.SessionKey) *conversation.Error {
	if suspended(e) {
		return refusal.Suspended()
	}
	err := refusal.Unreachable()
	if where := e.elsewhere(key); where != nil {
		err.Err = where
	}
	return err
}

// AsOwner is Tell for a command that another node hands on because the store has told it
// that this one owns the session, whatever the placement says by now.
func (e *Engine) AsOwner(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error)) {
	e.enter(key, &envelope{as: as, cmd: c, done: done, owned: true})
}

// CreateAsOwner is Create in the way of AsOwner.
func (e *Engine) CreateAsOwner(key conversation.SessionKey, c conversation.Create, done func(conversation.SessionKey, bool, error)) {
	e.create(key, key, c, true, done)
}

// EraseAsOwner is Erase in the way of AsOwner.
func (e *Engine) EraseAsOwner(ctx context.Context, key conversation.SessionKey, as conversation.UserID) error {
	return e.eraseAs(ctx, key, as, true)
}

// Holds is true for a session in memory: it is served here wherever it belongs.
func (e *Engine) Holds(key conversation.SessionKey) bool { return e.registry.Actor(key) != nil }

// Owned is the number of sessions in memory.
func (e *Engine) Owned() int { return e.registry.Count() }

// ScanNow looks for due sessions at once: those of an owner that has died are this node's.
func (e *Engine) ScanNow() { e.due.Now() }

// causeOf says why what is open in a loaded session was lost. A session that was given up, or
// that was taken from a member which may live all the same, was moved, and so was one that
// this engine has lost itself. Only the death of a process is an interruption: a session
// that kills each node that loads it must come to an end.
func causeOf(s *session, prior conversation.Prior) conversation.Cause {
	lost := s.e.losses.Loaded(s.key)
	switch {
	case lost && prior != conversation.PriorDead, prior == conversation.PriorExpired, prior == conversation.PriorNone && s.e.cfg.Member != conversation.Member{}:
		return conversation.CauseMoved
	default:
		return 0 // its process has ended
	}
}

// giveUp lets another member have the session at once, now that it is out of memory here.
func giveUp(s *session, reason string, busy bool) {
	e, key := s.e, s.key
	if e.cfg.Member == (conversation.Member{}) || s.epoch == 0 {
		return
	}
	switch reason {
	case "panic", "erased", "fenced", "absent": // a panic is not to be taken for a move
		return
	}
	if reason != "owned" && e.elsewhere(key) != nil { // what passes by does so once
		e.given.Note(key)
	}
	e.deps.Store.Release(e.workCtx, key, s.epoch, func(err error) {
		if err != nil {
			e.log.Warn("a session could not be given up: its next owner has to wait for it", "session", key.Session, "tenant", key.Tenant, "error", err)
			return
		}
		if busy && e.deps.HandedOver != nil && e.elsewhere(key) != nil {
			e.deps.HandedOver(key)
		}
	})
}

// HandOver gives up the sessions in memory that belong elsewhere by now, each with those below
// it: idle ones at once, others when their running calls have ended, and what still runs
// DrainTimeout later is parked. Until a session has left it is served here. HandOver returns
// when none is left, or with ctx's error. It may be called again, and beside itself.
func (e *Engine) HandOver(ctx context.Context) error {
	if e.deps.Placement == nil {
		return nil
	}
	told, err := handover.Run(ctx, handover.Options[*actor.PID]{
		Left: func() ([]*actor.PID, int) {
			return e.registry.Where(func(root conversation.SessionKey) bool { return e.elsewhere(root) != nil })
		},
		Tell: func(pid *actor.PID) { e.send(pid, &drain{handOver: true}) }, Patience: e.cfg.DrainTimeout,
	})
	if err == nil && told {
		e.due.Now() // the placement may have changed its mind about some of them
	}
	return err
}

// Suspend has the engine start nothing: it refuses work, loads nothing and begins no effect,
// while what runs goes on. It is for a node whose lease is over: another may have its
// sessions by now, or will.
func (e *Engine) Suspend() {
	if e.phase.CompareAndSwap(phaseRunning, phaseSuspended) {
		e.log.Warn("suspended: nothing is started until the node has its lease again", "sessions", e.registry.Count())
	}
}

// Resume ends Suspend: what was decided and is durable is done now.
func (e *Engine) Resume() {
	if e.phase.CompareAndSwap(phaseSuspended, phaseRunning) {
		e.log.Info("resumed", "sessions", e.registry.Count())
		e.registry.SendAll(&resume{})
		e.due.Now()
	}
}

// suspended is true while the node's lease is over: the engine was told so, or will be.
func suspended(e *Engine) bool {
	return e.phase.Load() == phaseSuspended || e.deps.Holds != nil && !e.deps.Holds()
}

// refusal answers what is asked of an engine that does not run.
func (e *Engine) refusal() *conversation.Error {
	if suspended(e) {
		return refusal.Suspended()
	}
	return refusal.Stopping()
}

// withoutLease answers a client whose answer would come from memory alone, where no commit has
// shown that the session is still this node's: another may have acknowledged more by now. What
// the store has is at least that.
func withoutLease(e *Engine, key conversation.SessionKey, t *envelope) {
	if t.view == nil {
		t.answer(e, refusal.Suspended())
		return
	}
	t.err, t.state = nil, nil
	e.foldView(key, t)
}

// resume is a message: the engine runs again.
type resume struct{ mail.DeadLetterOK }

// resumed does what was put off while the engine was suspended.
func resumed(s *session) {
	if s.phase != phaseReady || s.draining != drainNot {
		return
	}
	if s.standing.WantsSlot && !s.slot.Waiting() {
		s.acquire(conversation.WantSlot{})
	}
	startModels(s, s.cache.Take())
	s.acquireDurable()
}

// own takes a session that is to be erased, where others may own it: its owner must hear of
// it, or it would be told by a commit that fails.
func (e *Engine) own(ctx context.Context, key conversation.SessionKey) error {
	if e.cfg.Member == (conversation.Member{}) {
		return nil
	}
	_, err := e.deps.Store.Acquire(ctx, key, conversation.AcquireHow{Owner: e.cfg.Member})
	return err
}
