package actors

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/mail"
	"parley/actors/internal/modelcall"
	"parley/actors/internal/observe"
	"parley/actors/internal/refusal"
	"parley/actors/internal/sessionlog"
	"parley/actors/internal/unreadable"
	"parley/conversation"
	"parley/conversation/member"
)

// batch is one commit: what it stores, and what waits for it. While one is on its way
// the next one gathers. A batch whose commit has ended is a message to its session.
type batch struct {
	mail.DeadLetterOK
	commit   conversation.Commit
	waiters  []*envelope
	drafts   []conversation.DraftDropped // shown; they end here unless a part takes their place
	addsWork bool                        // it holds something that a client has added
	snapshot bool                        // it is committed even if it holds nothing else

	// On its way, and afterwards.
	e       *Engine
	session *actor.PID
	told    atomic.Bool        // how it has ended; a store that panics may tell it twice
	began   time.Time          // of the commit, for its span; zero = there is none
	epoch   conversation.Epoch // the writer's; higher than before if the outcome was not known at first
	err     error
}

// batch is the pending batch; it is made when there is none.
func (s *session) batch() *batch {
	if s.pending == nil {
		s.pending = &batch{}
	}
	return s.pending
}

// waiting is how many commands a batch answers.
func (b *batch) waiting() int {
	if b == nil {
		return 0
	}
	return len(b.waiters)
}

// add gathers the results of a decision.
func (b *batch) add(d conversation.Decided, addsWork bool) {
	sessionlog.Gather(&b.commit, d)
	b.addsWork = b.addsWork || addsWork && len(d.Events) > 0
}

// flush sends the gathered batch on its way, if none is under way. A batch with
// nothing to store is complete at once: all before it is durable.
func (s *session) flush() {
	for s.inFlight == nil && s.pending != nil && s.phase != phaseUnloaded {
		b := s.pending
		s.pending = nil
		if len(b.commit.Events) == 0 && len(b.commit.Cursors) == 0 && !b.snapshot {
			s.complete(b)
			continue
		}
		s.inFlight = b
		if err := member.Readable(b.commit.Events, s.e.deps.Feature); err != nil {
			s.fail("feature", err, refusal.Upgrading())
			return
		}
		s.commit(b)
		return
	}
}

// commit starts a commit. The machine's state is that after the last of the
// batch's events now: everything decided is in it.
func (s *session) commit(b *batch) {
	s.cursors.addTo(b)
	s.cursors = nil
	c := &b.commit
	c.Epoch, c.After, c.ID = s.epoch, s.durable, s.e.commits.Next()
	c.WakeAt, c.Claim, c.Inner = s.standing.WakeAt, s.standing.Claim, !b.addsWork
	if len(c.Events) == 0 { // cursors, or a snapshot: nothing was decided
		c.Summary = s.machine.Summary()
	}
	// A snapshot holds each open task: while many wait it would cost more than all else if it
	// did not come less often, and what a load reads in its place is no more than it.
	if b.snapshot || int(s.standing.Head-s.snapshotAt) >= max(s.e.cfg.SnapshotEvery, 2*b.commit.Summary.Open) {
		s.addSnapshot(b)
	}
	s.e.m.CommitEvents.Observe(float64(len(c.Events)))
	s.e.m.CommitWaiters.Observe(float64(len(b.waiters)))
	b.e, b.session, b.began = s.e, s.self, s.observer.Began()
	b.store(s.key)
}

// store hands the batch to the store, which says what became of it. No goroutine sleeps
// until then: the store begins on this one, and joins the commits of all sessions that
// wait.
func (b *batch) store(key conversation.SessionKey) {
	b.e.workers.Begin()
	defer func() {
		if r := recover(); r != nil {
			b.e.panicked("a commit", r)
			b.tell(0, fmt.Errorf("panic in a commit: %v", r))
		}
	}()
	b.e.sessions.Commit(b.e.workCtx, key, &b.commit, b.tell)
}

// tell tells the session how the commit has ended. Any goroutine may call it.
func (b *batch) tell(epoch conversation.Epoch, err error) {
	if b.told.Swap(true) {
		return
	}
	b.epoch, b.err = epoch, err
	b.e.send(b.session, b)
	b.e.workers.End()
}

// addSnapshot puts a snapshot of the session into a batch, if all members can use it. If
// none can be made, the next load reads more of the log, and the next snapshot is tried
// as many events later as after a good one.
func (s *session) addSnapshot(b *batch) {
	data, err := member.Snapshot(s.machine, s.e.deps.Feature)
	if err != nil {
		s.snapshotAt = s.standing.Head
		s.e.log.Error("no snapshot of the session can be made", "session", s.key.Session, "tenant", s.key.Tenant, "error", err)
		return
	}
	b.commit.Snapshot = data
}

// committed takes the end of a commit.
func (s *session) committed(b *batch) {
	if s.phase == phaseUnloaded || s.inFlight != b {
		return
	}
	if b.err != nil {
		s.commitFailed(b.err)
		return
	}
	s.inFlight = nil
	s.epoch = b.epoch
	s.e.unreadable.Worked(s.key, unreadable.Commit)
	if b.commit.Snapshot != nil {
		s.snapshotAt = b.commit.After + conversation.Seq(len(b.commit.Events))
	}
	s.complete(b)
	if s.phase == phaseUnloaded {
		return
	}
	s.flush()
	if s.inFlight != nil {
		return
	}
	if s.phase == phaseRecovering {
		s.recovered()
	}
	s.checkDuplicate()
	if reason := s.unloadReason; reason != "" {
		s.unloadReason = ""
		if s.isIdle() || s.draining != drainNot {
			s.unload(reason, refusal.Unreachable())
		}
	}
}

func (s *session) commitFailed(err error) {
	var duplicate *conversation.DuplicateError
	unavailable := conversation.Errorf(conversation.Unavailable, "this could not be stored; please try again")
	unavailable.RetryAfter, unavailable.Err = time.Second, err
	if errors.Is(err, conversation.ErrFull) {
		s.e.refusedByStore()
	}
	switch {
	case errors.Is(err, sessionlog.ErrUnclear): // first: it wraps what else is known
		s.fail("unknown", err, unavailable)
	case errors.Is(err, conversation.ErrFull):
		s.fail("full", err, refusal.Full())
	case errors.Is(err, conversation.ErrFenced):
		s.fail("fenced", err, unavailable)
	case errors.Is(err, conversation.ErrNotFound):
		s.fail("erased", err, refusal.NotFound())
	case errors.As(err, &duplicate):
		s.fail("duplicate", err, unavailable)
	case errors.Is(err, conversation.ErrConflict):
		s.fail("conflict", err, unavailable)
	case errors.Is(err, conversation.ErrUnread), unreadable.Cause(err):
		s.e.unreadable.Failed(s.key, unreadable.Commit, err)
		s.fail("unread", err, refusal.Unread(err))
	case errors.Is(err, conversation.ErrClosed):
		s.fail("closed", err, unavailable)
	default:
		s.fail("unknown", err, unavailable)
	}
}

// complete does what waits until a batch is durable, in this order: it gives back the
// slot, answers the commands, says who may follow from now on, publishes the events, and
// does the acquiring effects.
func (s *session) complete(b *batch) {
	events := b.commit.Events
	if n := len(events); n > 0 {
		s.durable = events[n-1].Seq
		s.lastActive = time.Now()
	}
	if b.commit.ID != "" {
		s.wakeAt = b.commit.WakeAt
		s.offer.Tell(s.e.claims, s.key, b.commit.Claim) // before the answers: a claim that was refused must not find what was
	}
	s.slot.Durable(s.e.slots, s.standing.HoldsSlot, s.durable) // before a client hears that its task has ended: it may ask for the next one at once
	for _, t := range b.waiters {
		if t.view != nil && t.err == nil && s.model != nil {
			t.state.Drafts = s.model.Drafts() // as of now: what was shown up to here will not be shown again
		}
		if b.commit.ID == "" && t.fromClient && suspended(s.e) {
			withoutLease(s.e, s.key, t)
			continue
		}
		t.trace = s.observer.TraceID(t.receipt.Task)
		t.answer(s.e, nil)
	}
	if len(events) > 0 {
		if conversation.ChangesAudience(events) {
			s.e.deps.Publisher.Audience(s.key, s.epoch, b.commit.Summary)
		}
		s.e.deps.Publisher.Publish(s.key, s.epoch, events)
		s.published.Set(s.durable, s.epoch)
		s.observer.Committed(b.began, events, len(b.waiters))
		s.observer.Events(s.e.observe, observe.Session{
			Key: s.key, Recovering: s.phase == phaseRecovering, Busy: s.standing.Busy, Warm: s.cache != nil, At: s.lastActive,
		}, events)
		if s.cache != nil {
			s.cache.Add(events)
		}
		s.calls.Ended(s.e.calls, events)
		s.contextChanged(events)
	}
	s.dropDrafts(modelcall.WithoutPart(b.drafts, events))
	if s.phase != phaseRecovering { // then recovered does it
		s.acquireDurable()
	}
}

// acquireDurable does what was decided and is durable now. A node that goes away
// starts nothing more; what it leaves is outstanding after the next load.
func (s *session) acquireDurable() {
	if s.e.phase.Load() == phaseSuspended {
		return // they remain outstanding: Resume has them done
	}
	effects := s.machine.Durable(s.durable)
	if s.draining != drainNot {
		return
	}
	for _, effect := range effects {
		s.acquire(effect)
	}
}
