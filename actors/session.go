package actors

import (
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/admission"
	"parley/actors/internal/alarm"
	"parley/actors/internal/calls"
	"parley/actors/internal/claims"
	"parley/actors/internal/mail"
	"parley/actors/internal/modelcall"
	"parley/actors/internal/observe"
	"parley/actors/internal/refusal"
	"parley/actors/internal/registry"
	"parley/actors/internal/shown"
	"parley/actors/internal/window"
	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/machine"
)

// session is the actor of one session: the shell around its machine. It never
// blocks: loading, committing and looking up go on elsewhere, and their results come
// back as messages.
//
// The reply barrier: memory may run ahead of the disk, nothing outside ever
// does. Every answer goes into the pending batch and leaves with it.
//
// Most sessions are idle most of the time, so what only a working one needs is
// nil until then.
type session struct {
	e    *Engine
	key  conversation.SessionKey
	self *actor.PID
	ctx  actor.Context // valid only while Receive runs

	phase            phase
	draining         drainLevel
	handOver         time.Time    // since then it drains for another owner; zero = for the end of the node, if at all
	parked           bool         // the drain's command was decided
	checkRunning     bool         // the store is being asked for the key of checking
	offer            claims.Offer // to outside runtimes
	compactionFailed bool         // a summary has failed; the next is made after a task
	unloadReason     string       // not "": it unloads for this reason once its snapshot is stored

	machine    *machine.Session
	standing   conversation.Standing // of the machine, after the last decision
	epoch      conversation.Epoch
	durable    conversation.Seq // the last durable event
	wakeAt     time.Time        // as it is stored: when there is something to do; zero = nothing
	published  *shown.Position  // the last durable event that was published: "after" of ephemeral things
	snapshotAt conversation.Seq // the snapshot's seq

	pending  *batch // decided, not on its way yet; nil = nothing
	inFlight *batch // on its way to the store
	queue    []*envelope
	held     int       // bytes of clients' commands that were taken and are not answered
	checking *envelope // waits for the store to say whether its key is known

	cursors *cursors // read cursors that wait for a commit

	slot admission.Slot

	model    *modelcall.Call // the attempt that runs
	stopping *modelcall.Call // the last one that was stopped, until it has ended
	calls    calls.Set       // tool calls and delegations that run
	uplink   calls.Uplink    // to the parent session
	cache    *window.Cache

	compaction *compaction // in the making
	triaging   *triage

	alarm      alarm.Alarm
	lastActive time.Time // when something last happened
	noopTick   *noopTick // nil: the last Tick changed something
	jitter     time.Duration
	observer   observe.Observer
}

type phase uint8

const (
	phaseLoading    phase = iota
	phaseRecovering       // the machine decides what becomes of work that was open
	phaseReady
	phaseUnloaded // out of the registry; what still arrives is redirected
)

type drainLevel uint8

const (
	drainNot  drainLevel = iota
	drainSoft            // nothing new is started
	drainHard            // running work is stopped
)

// The messages of the mailbox, beside *envelope and those of other files.
type (
	slotGrant struct {
		mail.DeadLetterOK
		request *admission.Request
	}
	begin struct {
		mail.DeadLetterOK
		key conversation.SessionKey
	}
	// loadNow follows on begin, and on the commands that the session was started for.
	loadNow struct{ mail.DeadLetterOK }
	drain   struct {
		mail.DeadLetterOK
		level    drainLevel
		handOver bool // to another owner; this node goes on
	}
	// unloadNow ends the session without a further commit.
	unloadNow struct {
		mail.DeadLetterOK
		reason string
		err    *conversation.Error
	}
)

// Receive takes one message of the mailbox. A panic in it ends this session, and
// only this one: its memory cannot be trusted any more, its log can.
func (s *session) Receive(ctx actor.Context) {
	s.ctx = ctx
	var current *envelope
	defer func() {
		if r := recover(); r != nil {
			s.panicked(r, current)
		}
		s.ctx = nil
	}()
	switch m := ctx.Message().(type) {
	case *envelope:
		current = m
		s.accept(m)
	case *batch:
		s.committed(m)
	case *modelcall.End:
		s.modelEnded(m)
	case *calls.End:
		s.tellSelf(m.Command)
	case *compactEnd:
		s.compacted(m)
	case *triageEnd:
		s.triaged(m)
	case *begin:
		s.begin(ctx, m.key)
	case *loadNow:
		if s.phase == phaseLoading { // else it was unloaded before that
			s.load(opening(s.key, s.e.rules, s.queue) == nil) // at once: to find first that it is absent would be a second load
		}
	case *loaded:
		s.loaded(m)
	case *duplicateResult:
		s.duplicateChecked(m)
	case *transcriptRead:
		s.transcriptRead(m)
	case *slotGrant:
		s.slotGranted(m)
	case *alarm.Timeout:
		s.timedOut(m)
	case *drain:
		s.drain(m)
	case *unloadNow:
		if m.reason == "fenced" {
			s.e.losses.Note(s.key)
		}
		s.unload(m.reason, m.err)
	case *resume:
		resumed(s)
	case *actor.Terminated:
		s.childEnded(m.Who)
	case *actor.Started, *actor.Stopping:
		return
	case *actor.Stopped:
		s.ended()
		return
	}
	if s.phase == phaseReady {
		s.afterMessage()
	}
}

// panicked unloads the session after a panic. A commit on its way may still be
// stored, and one that is stored may not be published: the next activation tells the
// followers how far the log reaches. Open work goes on by itself; after a moment, for
// what has panicked may do so again.
func (s *session) panicked(r any, current *envelope) {
	e, key := s.e, s.key
	unpublished := s.inFlight != nil || s.published != nil && s.published.Seq() < s.durable
	busy := s.standing.Busy
	e.panicked("session "+key.String(), r)
	err := refusal.Internal(r)
	if current != nil {
		current.answer(e, err)
	}
	s.unload("panic", err)
	switch {
	case unpublished:
		e.Wake(key)
	case busy:
		e.due.In(time.Second)
	}
}

// afterMessage does what is to be done between two messages.
func (s *session) afterMessage() {
	if !s.machine.Exists() && s.inFlight == nil && s.pending == nil && len(s.queue) == 0 {
		s.unload("absent", refusal.NotFound())
		return
	}
	if s.draining != drainNot {
		s.continueDrain()
	}
	if s.phase == phaseReady {
		s.arm()
	}
}

func (s *session) begin(ctx actor.Context, key conversation.SessionKey) {
	s.key, s.self = key, ctx.Self()
	s.lastActive, s.published = time.Now(), new(shown.Position)
	if s.e.cfg.IdleJitter > 0 {
		s.jitter = rand.N(s.e.cfg.IdleJitter)
	}
	s.e.m.Active.Inc()
}

// root is false for the session of a delegation, a sub-session.
func (s *session) root() bool { return s.key.Session.Depth() == 0 }

func (s *session) send(m any) { s.e.system.Root.Send(s.self, m) }

// accept is the only way in: every command comes here, from clients, from other
// sessions, and from the session's own calls.
func (s *session) accept(t *envelope) {
	switch {
	case s.phase == phaseUnloaded:
		s.redirect(t)
	case t.bytes > 0 && !t.fits(&s.held, s.e.cfg.MaxWaitingBytes):
		t.refuse(s.e, "session_bytes", refusal.Busy())
	case s.phase != phaseReady || s.checking != nil:
		s.hold(t)
	default:
		s.process(t)
	}
}

// hold keeps a command until the session can decide it. Commands of the session
// itself are never refused: the work that it has started bounds their number.
func (s *session) hold(t *envelope) {
	if t.fromClient && len(s.queue) >= s.e.cfg.MaxWaiting && !t.class().Stops {
		t.refuse(s.e, "session_waiting", refusal.Busy())
		return
	}
	s.queue = append(s.queue, t)
}

// redirect keeps a command for the session's next activation.
func (s *session) redirect(t *envelope) {
	switch {
	case t.view != nil:
		s.e.viewNow(s.key, t)
	case t.done != nil || t.fromClient:
		t.owned = false // it may have been given up
		if !s.e.registry.Return(s.key, s.self, t) {
			t.answer(s.e, s.e.unreachable(s.key))
		}
	}
}

// ended has the session's next activation started, if something waits for it.
func (s *session) ended() {
	defer s.e.living.Done() // the next one counts already
	for _, m := range s.e.registry.Left(s.key, s.self) {
		if t, ok := m.(*envelope); ok {
			t.answer(s.e, s.e.unreachable(s.key))
		}
	}
}

// processQueue processes the commands that were held, until one must wait again.
func (s *session) processQueue() {
	for s.phase == phaseReady && s.checking == nil && len(s.queue) > 0 {
		s.process(s.queue[0]) // it stays in the queue until then: a panic answers it too
		if len(s.queue) == 0 {
			return // the session was unloaded
		}
		s.queue[0] = nil
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil
		}
	}
}

// process answers a command without deciding it, asks the store first, or decides
// it.
func (s *session) process(t *envelope) {
	s.lastActive = time.Now()
	switch {
	case !s.machine.Exists() && !t.class().Creates && (t.cmd != nil || t.view != nil),
		t.as != "" && s.machine.Exists() && s.machine.Role(t.as) == access.None:
		t.err = refusal.NotFound()
		s.answerWhenDurable(t)
	case t.as != "" && s.machine.Exists() && !s.machine.Role(t.as).May(t.needs()):
		t.err = conversation.Forbid(t.needs())
		s.answerWhenDurable(t)
	case t.view != nil:
		state := s.machine.View()
		state.Log = s.e.deps.Store.LogID()
		t.state = &state
		s.answerWhenDurable(t)
	case t.cmd == nil:
		s.answerWhenDurable(t)
	case t.fromClient && s.draining == drainHard:
		t.refuse(s.e, "stopping", errDraining(s))
		return
	case t.fromClient && s.pending.waiting()+s.cursors.waiting() >= s.e.cfg.MaxPending && !t.class().Stops:
		t.refuse(s.e, "session_pending", refusal.Busy())
		return
	case t.addsWork && s.e.full(): // the disk has filled up while it waited
		t.refuse(s.e, "storage", refusal.Full())
		return
	case s.needsDuplicateCheck(t):
		s.checking = t
		s.checkDuplicate()
		return
	case s.noRoom(t.cmd):
		t.refuse(s.e, "admission", conversation.Errorf(conversation.Overloaded, "%s", s.e.rules.Policy.Texts.Overloaded))
		return
	default:
		s.decide(t)
		return
	}
	s.flush()
}

// decide gives a command to the machine and gathers the results in the pending
// batch. Releasing effects are done at once; everything else waits for the commit.
func (s *session) decide(t *envelope) {
	call := s.model
	asking, shown := call.HoldFor(t.cmd)
	d := s.machine.Decide(conversation.Inputs{At: time.Now(), Slot: s.reserve(t.cmd), Asking: asking, Shown: shown}, t.cmd)
	s.standing = d.Standing
	s.slot.Update(s.e.slots, d.HoldsSlot, d.Head)
	b := s.batch()
	b.drafts = append(b.drafts, t.drafts...)
	for _, effect := range d.Release {
		s.release(effect)
	}
	call.Resume()
	if len(d.Events) == 0 {
		observe.Unused(s.e.m, t.meter, string(s.key.Tenant), t.cmd)
	}
	t.receipt, t.err = d.Receipt, d.Err
	observe.Refused(s.e.m, t.cmd, d.Err)
	s.observer.Said(t.cmd, t.receipt)
	if d.JustRead() {
		s.cursors = s.cursors.add(d.Cursors, t, s.e.cfg.SeenEvery)
	} else {
		b.add(d, t.addsWork)
		b.waiters = append(b.waiters, t)
	}
	if s.slot.Waiting() && !d.WantsSlot {
		s.slot.Withdraw(s.e.slots)
	}
	s.flush()
}

// tellSelf tells the session a command of its own; no one waits for an answer.
func (s *session) tellSelf(c conversation.Command) { s.accept(&envelope{cmd: c}) }

// answerWhenDurable queues an answer that changes nothing behind the pending
// commit: it may depend on everything that was decided before it.
func (s *session) answerWhenDurable(t *envelope) { b := s.batch(); b.waiters = append(b.waiters, t) }

// reserve tries to have a slot ready for a task that the command may start.
func (s *session) reserve(c conversation.Command) bool {
	if !s.root() {
		return true
	}
	if len(s.e.pools) > 0 {
		s.slot.In(s.e.pools[s.machine.Summary().Agent])
	}
	if _, granted := c.(conversation.SlotGranted); granted {
		return s.slot.Held()
	}
	if stopping(s) {
		return false
	}
	return s.slot.Reserve(s.e.slots, s.e.cfg.OnFull.Want(c.Class().MayStart, s.machine.RefusedWhenFull(c)))
}

// stopping is true while the node goes away, or is suspended: nothing starts.
func stopping(s *session) bool { return s.draining != drainNot || s.e.phase.Load() != phaseRunning }

// slotGranted takes a slot that was waited for. A node that stops starts nothing
// more: the slots that its sessions give back must not make others RUNNING, for
// there would be too many after the start.
func (s *session) slotGranted(m *slotGrant) {
	if s.phase == phaseUnloaded {
		return
	}
	use := s.draining == drainNot && s.e.phase.Load() == phaseRunning
	if s.slot.Granted(s.e.slots, m.request, use, s.standing.Head) {
		s.tellSelf(conversation.SlotGranted{})
	}
}

// unload takes the session out of memory: each waiting command is answered with
// err, running calls are stopped, and messages that still arrive are redirected to
// the next activation. Only the log stays.
func (s *session) unload(reason string, err *conversation.Error) {
	if s.phase == phaseUnloaded {
		return
	}
	s.phase = phaseUnloaded
	e := s.e
	// First what others would miss for ever: the place in the registry, the end of the
	// actor, the slot. Nothing is delivered any more, so the pill comes behind all that was.
	e.registry.Leave(s.key, s.self)
	s.ctx.Poison(s.self)
	s.slot.Return(e.slots)
	s.observer.Leave()
	s.alarm.Stop()
	e.m.Active.Dec()
	e.m.Passivations.WithLabelValues(reason).Inc()
	s.answerAll(err)
	if s.model != nil {
		s.dropDrafts(s.model.Stop())
	}
	for _, b := range []*batch{s.inFlight, s.pending} {
		if b != nil {
			s.dropDrafts(b.drafts) // of calls that had ended
		}
	}
	s.compaction.stop(s)
	s.triaging.stop()
	s.calls.StopAll(s.ctx)
	giveUp(s, reason, s.standing.Busy || !s.standing.WakeAt.IsZero() || !s.wakeAt.IsZero())
	*s = session{e: e, key: s.key, self: s.self, ctx: s.ctx, phase: phaseUnloaded}
}

// answerAll answers every command that waits in the session.
func (s *session) answerAll(err *conversation.Error) {
	var waiting []*envelope
	for _, b := range []*batch{s.inFlight, s.pending} {
		if b != nil {
			waiting = append(waiting, b.waiters...)
		}
	}
	if s.checking != nil {
		waiting = append(waiting, s.checking)
	}
	if s.cursors != nil {
		waiting = append(waiting, s.cursors.waiters...)
	}
	for _, t := range append(waiting, s.queue...) {
		t.answer(s.e, err)
	}
}

// fail unloads the session because its memory is ahead of what is stored. The
// commands that wait are refused, and may be sent again.
func (s *session) fail(kind string, cause error, err *conversation.Error) {
	s.e.m.FailedCommits.WithLabelValues(kind).Inc()
	s.e.log.Error("a commit failed; the session starts again from its log",
		"session", s.key.Session, "tenant", s.key.Tenant, "kind", kind, "error", cause)
	due := isDue(s)
	var pause time.Duration
	if kind != "erased" {
		pause = s.e.losses.Note(s.key) // and not by the end of the process
	}
	if kind == "fenced" && s.root() {
		s.e.registry.SendTree(registry.RootKey(s.key), &unloadNow{reason: "fenced", err: err})
	}
	e, key := s.e, s.key
	s.unload("failed", err)
	switch {
	case kind == "unknown":
		e.Wake(key) // if it is stored, followers must hear of it
	case due && kind != "fenced" && kind != "full": // its open work goes on by itself
		time.AfterFunc(pause, func() {
			if !e.unreadable.LeaveAlone(key) {
				e.Wake(key)
			}
		})
	}
}

// isDue is true if there is something to do in the session as it is stored, which may be less than
// was decided: what is lost with a commit may be the end of the work.
func isDue(s *session) bool {
	return !s.wakeAt.IsZero() && time.Until(s.wakeAt) < s.e.cfg.DueEvery
}
