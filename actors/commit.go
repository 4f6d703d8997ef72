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
	"parley/actors/internal/sessionlog"
	"parley/actors/internal/unreadable"
	"parley/conversation"
)

// batch is one commit: what it stores, and what waits for it. While one is on its
// way the next one gathers.
type batch struct {
	events   []conversation.Event
	keys     []conversation.KeyAt
	cursors  []conversation.Cursor
	rows     []conversation.TaskRow
	summary  conversation.Summary // as of the last decision
	waiters  []*envelope
	drafts   []conversation.DraftDropped // shown; they end here unless a part takes their place
	addsWork bool                        // it holds something that a client has added
	snapshot bool                        // it is committed even if it holds nothing else
	commit   conversation.Commit
}

// committed is a message: a commit has ended.
type committed struct {
	mail.DeadLetterOK
	b     *batch
	epoch conversation.Epoch // the writer's; higher than before if the outcome was not known at first
	err   error
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

// add gathers the results of a decision. Of a task's rows the last one counts.
func (b *batch) add(d conversation.Decided, addsWork bool) {
	if b.events == nil {
		b.events, b.keys = d.Events, d.Keys // they are ours
	} else {
		b.events, b.keys = append(b.events, d.Events...), append(b.keys, d.Keys...)
	}
	b.summary = d.Summary
	b.cursors = append(b.cursors, d.Cursors...)
	b.addsWork = b.addsWork || addsWork && len(d.Events) > 0
rows:
	for _, row := range d.Rows {
		for i := range b.rows {
			if b.rows[i].Task == row.Task {
				b.rows[i] = row
				continue rows
			}
		}
		b.rows = append(b.rows, row)
	}
}

// flush sends the gathered batch on its way, if none is under way. A batch with
// nothing to store is complete at once: all before it is durable.
func (s *session) flush() {
	for s.inFlight == nil && s.pending != nil && s.phase != phaseUnloaded {
		b := s.pending
		s.pending = nil
		if len(b.events) == 0 && len(b.cursors) == 0 && !b.snapshot {
			s.complete(b)
			continue
		}
		s.inFlight = b
		s.commit(b)
		return
	}
}

// commit starts a commit. The machine's state is that after the last of the
// batch's events now: everything decided is in it.
func (s *session) commit(b *batch) {
	s.cursors.addTo(b)
	s.cursors = nil
	b.commit = conversation.Commit{
		Epoch: s.epoch, After: s.durable, ID: s.e.nextCommit(),
		Events: b.events, Keys: b.keys, Tasks: b.rows, Cursors: b.cursors,
		Summary: b.summary, WakeAt: s.standing.WakeAt, Claim: s.standing.Claim, Inner: !b.addsWork,
	}
	if len(b.events) == 0 { // cursors, or a snapshot: nothing was decided
		b.commit.Summary = s.machine.Summary()
	}
	if b.snapshot || int(s.standing.Head-s.snapshotAt) >= s.e.cfg.SnapshotEvery {
		s.addSnapshot(b)
	}
	s.e.m.CommitEvents.Observe(float64(len(b.events)))
	s.e.m.CommitWaiters.Observe(float64(len(b.waiters)))
	s.e.store(s.key, s.self, b)
}

// store hands a session's batch to the store, which tells its mailbox what became of it. No
// goroutine sleeps until then: the store begins on this one, and joins the commits of
// all sessions that wait.
func (e *Engine) store(key conversation.SessionKey, session *actor.PID, b *batch) {
	var told atomic.Bool // a store that panics may have told it already, or tell it yet
	end := func(epoch conversation.Epoch, err error) {
		if told.Swap(true) {
			return
		}
		e.send(session, &committed{b: b, epoch: epoch, err: err})
		e.workers.End()
	}
	e.workers.Begin()
	defer func() {
		if r := recover(); r != nil {
			e.panicked("a commit", r)
			end(0, fmt.Errorf("panic in a commit: %v", r))
		}
	}()
	e.sessions.Commit(e.workCtx, key, &b.commit, end)
}

// addSnapshot puts a snapshot of the session into a batch. If none can be made, the
// next load reads more of the log, and the next snapshot is tried as many events
// later as after a good one.
func (s *session) addSnapshot(b *batch) {
	data, err := s.machine.Snapshot()
	if err != nil {
		s.snapshotAt = s.standing.Head
		s.e.log.Error("no snapshot of the session can be made", "session", s.key.Session, "tenant", s.key.Tenant, "err", err)
		return
	}
	b.commit.Snapshot = data
}

// committed takes the end of a commit.
func (s *session) committed(m *committed) {
	if s.phase == phaseUnloaded || s.inFlight != m.b {
		return
	}
	if m.err != nil {
		s.commitFailed(m.err)
		return
	}
	s.inFlight = nil
	s.epoch = m.epoch
	s.e.unreadable.Worked(s.key, unreadable.Commit)
	if m.b.commit.Snapshot != nil {
		s.snapshotAt = m.b.commit.After + conversation.Seq(len(m.b.events))
	}
	s.complete(m.b)
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
			s.unload(reason, errUnreachable())
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
		s.fail("full", err, errFull())
	case errors.Is(err, conversation.ErrFenced):
		s.fail("fenced", err, unavailable)
	case errors.Is(err, conversation.ErrNotFound):
		s.fail("erased", err, errNotFound())
	case errors.As(err, &duplicate):
		s.fail("duplicate", err, unavailable)
	case errors.Is(err, conversation.ErrConflict):
		s.fail("conflict", err, unavailable)
	case errors.Is(err, conversation.ErrUnread), unreadable.Cause(err):
		s.e.unreadable.Failed(s.key, unreadable.Commit, err)
		s.fail("unread", err, errUnread(err))
	case errors.Is(err, conversation.ErrClosed):
		s.fail("closed", err, unavailable)
	default:
		s.fail("unknown", err, unavailable)
	}
}

// complete does what waits until a batch is durable, in this order: it gives back the
// slot, answers the commands, publishes the events, and does the acquiring effects.
func (s *session) complete(b *batch) {
	if n := len(b.events); n > 0 {
		s.durable = b.events[n-1].Seq
		s.lastActive = time.Now()
	}
	if b.commit.ID != "" {
		s.offer.Tell(s.e.claims, s.key, b.commit.Claim) // before the answers: a claim that was refused must not find what was
	}
	s.slot.Durable(s.e.slots, s.standing.HoldsSlot, s.durable) // before a client hears that its task has ended: it may ask for the next one at once
	for _, t := range b.waiters {
		if t.view != nil && t.err == nil && s.model != nil {
			t.state.Drafts = s.model.Drafts() // as of now: what was shown up to here will not be shown again
		}
		t.answer(s.e, nil)
	}
	if len(b.events) > 0 {
		s.e.deps.Publisher.Publish(s.key, b.events)
		s.published.Store(uint64(s.durable))
		s.observer.Events(s.e.observe, observe.Session{
			Key: s.key, Recovering: s.phase == phaseRecovering, Busy: s.standing.Busy, Warm: s.cache != nil,
		}, b.events)
		if s.cache != nil {
			s.cache.add(b.events)
		}
		s.calls.Ended(s.e.calls, b.events)
		s.contextChanged(b.events)
	}
	s.dropDrafts(modelcall.WithoutPart(b.drafts, b.events))
	if s.phase != phaseRecovering { // then recovered does it
		s.acquireDurable()
	}
}

// acquireDurable does what was decided and is durable now. A node that goes away
// starts nothing more; what it leaves is outstanding after the next load.
func (s *session) acquireDurable() {
	effects := s.machine.Durable(s.durable)
	if s.draining != drainNot {
		return
	}
	for _, effect := range effects {
		s.acquire(effect)
	}
}
