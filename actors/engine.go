package actors

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/admission"
	"parley/actors/internal/calls"
	"parley/actors/internal/claims"
	"parley/actors/internal/delivery"
	"parley/actors/internal/due"
	"parley/actors/internal/guard"
	"parley/actors/internal/losses"
	"parley/actors/internal/mail"
	"parley/actors/internal/modelcall"
	"parley/actors/internal/observe"
	"parley/actors/internal/refusal"
	"parley/actors/internal/registry"
	"parley/actors/internal/sessionlog"
	"parley/actors/internal/unreadable"
	"parley/actors/internal/workers"
	"parley/actors/placement"
	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/attached"
	"parley/conversation/dedup"
	"parley/conversation/living"
	"parley/conversation/member"
	"parley/conversation/policy"
	"parley/metrics"
	"parley/metrics/tracing"
)

// Deps holds the parts that an Engine works with. Store, Publisher and Metrics are required.
type Deps struct {
	Store     conversation.Store
	Publisher conversation.Publisher                      // must not block
	Models    map[string]conversation.Model               // by the configuration's name; "" = the default; each agent's must be there
	Tools     map[string]conversation.Tool                // by name; nil = none
	Late      func(name string) (conversation.Tool, bool) // finds one of Rules.Late; nil = none joins
	Logger    *slog.Logger                                // nil = no log
	Metrics   *metrics.Actors
	Tracer    *tracing.Tracer                                                                         // nil = no traces
	Files     func(ctx context.Context, key conversation.SessionKey, f attached.File) ([]byte, error) // reads what is attached to messages; nil = models are given none
	Health    func() error                                                                            // why the store needs a person, or nil; nil = it is always well
	Quota     func(conversation.TenantID) error                                                       // refuses new work of a tenant that has stored too much; nil = none

	Feature    func() member.Feature                                                                  // the highest that all members can read; nil = this program's
	Placement  placement.Map                                                                          // which sessions are this node's; nil = all
	Holds      func() bool                                                                            // this node's lease by its own clock: without it nothing is answered from memory; nil = always
	HandedOver func(conversation.SessionKey)                                                          // told of a session with open work that was given up; nil = nobody is told. None of these three may block
	HandOut    func(conversation.SessionKey, conversation.HandOut, func(conversation.Receipt, error)) // tells it to a session of any node; nil = this one's alone
	Offered    func(conversation.SessionKey, *conversation.Claimable)                                 // told what can be claimed here, for the claims of other nodes; nil = none
}

// Engine runs sessions. Its methods may be called from any goroutine.
type Engine struct {
	stored
	cfg   Config
	rules *policy.Rules
	deps  Deps
	log   *slog.Logger
	m     *metrics.Actors

	system     *actor.ActorSystem
	root       *actor.RootContext // the parent of session actors
	props      *actor.Props       // of session actors
	registry   *registry.Registry
	sessions   *sessionlog.Log      // what is stored of them
	unreadable *unreadable.Sessions // those that cannot be read
	slots      *admission.Slots
	claims     *claims.Desk                                 // what outside runtimes may claim
	repeater   *delivery.Repeater                           // of what is told to sessions until they take it
	calls      *calls.Env                                   // what tool calls and delegations need of the engine
	pools      map[conversation.AgentName]*admission.Places // of agents that have a limit of their own
	models     *modelcall.Env
	observe    *observe.Env

	workCtx context.Context // of everything that a session starts; ends when Run does
	cancel  context.CancelFunc
	workers *workers.Pool  // goroutines that sessions have started
	living  sync.WaitGroup // session actors
	phase   atomic.Int32
	stopMu  sync.RWMutex // held for reading by callers that start work themselves, for writing by stopAll
	started chan struct{}

	given     *losses.Losses // sessions that were given up a moment ago, because they belong elsewhere
	losses    *losses.Losses // sessions that this engine has lost although it goes on
	commits   *sessionlog.Names
	fullPause admission.Pause // the store is taken for full in it
	due       *due.Scanner
	folds     chan struct{} // holds a token per passive view that is being folded
	folding   atomic.Int64  // passive views that are folded or wait for that
}

// stored is what callers read of the store, past the engine.
type stored interface {
	Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error]
	Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error)
	Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error]
	Task(ctx context.Context, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error)
	Tasks(ctx context.Context, f conversation.TaskFilter) iter.Seq2[conversation.TaskRow, error]
}

const ( // the phases of an engine
	phaseNew int32 = iota
	phaseRunning
	phaseSuspended // it has lost the right to start anything, for a while
	phaseDraining
	phaseStopped
)

// What is done about sessions that a store could not serve: it must not be met by
// all of them at once when it comes back.
const (
	attemptEvery = 2 * time.Millisecond // between two attempts to take such a session back
	maxRepeated  = 100_000              // such sessions that wait for their turn
	lostPause    = time.Second          // after the first failed commit of a session; it doubles
	maxLostPause = 15 * time.Second
	rememberLost = 24 * time.Hour // at least, that a session was lost here and not by the end of a process
)

// New checks the configuration and makes an engine. It starts nothing.
func New(cfg Config, d Deps) (*Engine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if d.Store == nil || d.Publisher == nil || d.Metrics == nil {
		return nil, errors.New("actors: a store, a publisher and metrics are required")
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	for name, profile := range cfg.Rules.Agents {
		if _, ok := d.Models[profile.Model]; !ok && name != conversation.External {
			return nil, fmt.Errorf("actors: agent %q wants the model %q, which is not configured", name, profile.Model)
		}
	}
	d.Logger = slog.New(guard.SafeLog{Handler: d.Logger.Handler()})
	cfg.Rules.Always = &policy.AlwaysKept{}
	e := &Engine{
		stored: d.Store, cfg: cfg, rules: &cfg.Rules, log: d.Logger, m: d.Metrics,
		started:   make(chan struct{}),
		commits:   sessionlog.NewNames(cfg.Node),
		folds:     make(chan struct{}, cfg.MaxFolds),
		fullPause: admission.NewPause(),
		given:     losses.New(losses.Options{Pause: 1, MaxPause: 1, Age: 500 * time.Millisecond, Limit: maxRepeated}),
		losses:    losses.New(losses.Options{Pause: lostPause, MaxPause: maxLostPause, Age: rememberLost, Limit: maxRepeated}),
	}
	d.Publisher = &guard.SafePublisher{To: d.Publisher, Panicked: e.panicked}
	e.deps = d
	e.workCtx, e.cancel = context.WithCancel(context.Background())
	e.workers = workers.New(e.panicked)
	e.system = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
			return slog.New(guard.Warnings{Handler: d.Logger.With("lib", "actor").Handler()})
		}),
		// A late result for an ended session is normal, and its text must not be logged.
		actor.WithDeadLetterRequestLogging(false),
	)
	e.props = actor.PropsFromProducer(func() actor.Actor { return &session{e: e} }, actor.WithDispatcher(e.workers),
		actor.WithMailbox(mail.Counting(d.Metrics.Mailbox, isCommand)), actor.WithSupervisor(calls.StopOnFailure))
	e.root = e.system.Root.Copy().WithGuardian(&guard.GoOnAfterFailure{Failed: func(reason any) { e.panicked("a session's actor", reason) }})
	e.registry = registry.New(e.spawn, e.send, cfg.MaxWaiting)
	pace := delivery.NewPace(attemptEvery)
	e.repeater = delivery.NewRepeater(delivery.RepeaterOptions{
		Tell: func(key conversation.SessionKey, c conversation.Command, done func(error)) {
			e.tellInner(key, c, func(_ conversation.Receipt, err error) {
				if refusal.IsElsewhere(err) && d.HandedOver != nil {
					d.HandedOver(key)
				}
				if unreadable.Cause(err) || refusal.IsElsewhere(err) {
					err = nil // it is of no use; the scan for due work tries again, sometimes
				}
				done(err)
			})
		},
		GoOn: func() bool { return e.phase.Load() <= phaseSuspended }, // else the start finds what is due
		Pace: pace, Parallel: cfg.DueParallel, Pause: cfg.TellRetry, MaxPause: cfg.TellEvery, Limit: maxRepeated,
	})
	e.calls = &calls.Env{
		Context: e.workCtx, Tools: d.Tools, Late: d.Late, Publisher: d.Publisher, Log: d.Logger,
		Go: e.workers.Go, Send: e.send, Event: func(key conversation.SessionKey, seq conversation.Seq) (conversation.Event, error) {
			return e.sessions.Event(e.workCtx, key, seq)
		},
		Tell: func(key conversation.SessionKey, c conversation.Command, done func(error)) {
			e.tellInner(key, c, func(_ conversation.Receipt, err error) { done(err) })
		},
		ToolOutput: cfg.ToolOutput, ToolGrace: cfg.ToolGrace, ToolDeadline: cfg.ToolDeadline,
		TellEvery: cfg.TellEvery, TellRetry: cfg.TellRetry,
	}
	e.models = &modelcall.Env{
		Context: e.workCtx, Publisher: d.Publisher, Metrics: d.Metrics, Log: d.Logger, Go: e.workers.Go,
		ShowEvery: cfg.DeltaEvery, IdleLimit: cfg.ModelIdle, Limit: cfg.ModelLimit, Files: d.Files,
	}
	e.observe = &observe.Env{Metrics: d.Metrics, Log: d.Logger, Rules: e.rules, Tracer: d.Tracer, Models: d.Models}
	d.Metrics.Watch(e.observe.Pulses.Now)
	e.sessions = &sessionlog.Log{
		Store: d.Store, Rules: e.rules, Metrics: d.Metrics, Log: d.Logger, Owner: cfg.Member, Go: e.workers.Go, Full: e.refusedByStore, Pace: pace.Wait, ResolveTimeout: cfg.SettleTimeout,
	}
	e.unreadable = unreadable.New(d.Logger, d.Metrics.Unreadable)
	e.slots, e.pools = admission.New(cfg.MaxConcurrent, d.Metrics), admission.PlacesOf(cfg.Rules.Agents)
	e.due = e.scanner()
	e.claims = claims.New(claims.Options{
		List: d.Store.Claimable, Metrics: d.Metrics, Tell: e.Tell, HandOut: d.HandOut, Told: d.Offered, Event: e.sessions.Event,
	})
	return e, nil
}

// spawn starts a session's actor with its first messages; nil if that panics. The
// session is loaded behind them: a load that fails answers them all. The registry calls it.
//
// Here, and only here, it is asked where a session belongs. While the engine is suspended none
// is loaded: another member may own it by now.
func (e *Engine) spawn(key conversation.SessionKey, rootIsHere bool, first ...any) (pid *actor.PID) {
	if e.phase.Load() == phaseSuspended || !rootIsHere && !e.mayStart(key, first) {
		return nil
	}
	e.living.Add(1)
	e.guarded("starting a session's actor", func() { pid = e.root.Spawn(e.props) })
	if pid == nil {
		e.living.Done()
		return nil
	}
	e.send(pid, &begin{key: key})
	for _, m := range first {
		e.send(pid, m)
	}
	e.send(pid, &loadNow{})
	return pid
}

// send puts a message into an actor's mailbox.
func (e *Engine) send(pid *actor.PID, m any) { e.system.Root.Send(pid, m) }

// Run serves until ctx ends, then stops every session at once and waits for
// them. Drain before that lets open steps come to their end. A second call is
// an error.
func (e *Engine) Run(ctx context.Context) error {
	if !e.phase.CompareAndSwap(phaseNew, phaseRunning) {
		return errors.New("actors: the engine has run already")
	}
	close(e.started)
	var scans sync.WaitGroup
	scans.Go(func() { e.due.Run(ctx) })
	scans.Go(func() { e.repeater.Run(ctx) })
	if e.cfg.RetentionAge > 0 {
		scans.Go(func() { e.sweeper().Run(ctx) })
	}
	<-ctx.Done()
	scans.Wait()
	e.stopAll()
	return nil
}

// Started is closed when Run has begun: from then on commands are taken.
func (e *Engine) Started() <-chan struct{} { return e.started }

// stopAll stops every session at once, as a crash would, but answers the commands
// that wait.
func (e *Engine) stopAll() {
	e.stopMu.Lock()
	e.phase.Store(phaseStopped)
	e.stopMu.Unlock()
	e.claims.Close()
	e.registry.StopLoading()
	e.registry.SendAll(&unloadNow{reason: "halt", err: refusal.Stopping()})
	e.living.Wait()
	e.registry.Close()
	e.cancel()
	e.workers.Stop()
	done := make(chan struct{})
	go func() { e.workers.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(e.cfg.ToolGrace):
		e.log.Error("model or tool calls ignore their cancellation; going on without them")
	}
}

// Ready is nil while the engine takes commands; else it says why not.
func (e *Engine) Ready() error {
	switch e.phase.Load() {
	case phaseRunning:
		return nil
	case phaseNew:
		return errors.New("the engine has not started yet")
	case phaseSuspended:
		return errors.New("the node has lost its lease: the database cannot be reached")
	case phaseDraining:
		return errors.New("the engine is draining")
	default:
		return errors.New("the engine has stopped")
	}
}

// Health says why the engine cannot serve everything although it takes commands:
// its store reports damage, or some sessions could not be read. nil = it can.
func (e *Engine) Health() error {
	if e.deps.Health != nil {
		if err := e.deps.Health(); err != nil {
			return err
		}
	}
	if n := e.unreadable.Count(); n > 0 {
		return fmt.Errorf("%d sessions cannot be read", n)
	}
	return nil
}

// unread notes that a session could not be read.
func (e *Engine) unread(key conversation.SessionKey, stage unreadable.Stage, err error) {
	switch {
	case unreadable.Cause(err):
		e.unreadable.Failed(key, stage, err)
	case !errors.Is(err, context.Canceled) && !errors.Is(err, conversation.ErrClosed):
		e.log.Error("a session cannot be read", "session", key.Session, "tenant", key.Tenant, "error", err)
	}
}

// Create opens a session, or finds that it is there already (created false). An
// erased session never comes back: under its key the next session of its name is
// opened, or found. done gets the key of the session, and is called like Tell's.
func (e *Engine) Create(key conversation.SessionKey, c conversation.Create, done func(key conversation.SessionKey, created bool, err error)) {
	e.create(key, key, c, false, done)
}

// create opens the session that is now that of a name, as far as is known.
func (e *Engine) create(name, key conversation.SessionKey, c conversation.Create, owned bool, done func(conversation.SessionKey, bool, error)) {
	e.enter(key, &envelope{as: c.Owner, cmd: c, owned: owned, done: func(r conversation.Receipt, err error) {
		if refused := conversation.AsError(err); refused != nil && refused.Code == conversation.NotFound {
			e.createNext(name, key, c, owned, done)
			return
		}
		done(key, err == nil && !r.Duplicate, err)
	}})
}

// createNext opens the session of a name whose session was found to be erased. The
// next one may have been erased as well, also since it was looked for.
func (e *Engine) createNext(name, erased conversation.SessionKey, c conversation.Create, owned bool, done func(conversation.SessionKey, bool, error)) {
	failed := func(err error) { done(name, false, conversation.AsError(err)) }
	if !e.goUnlessStopped("looking for a name's session", func() {
		next, err := living.Of(name.Session, func(id conversation.SessionID) (bool, error) {
			return e.deps.Store.Erased(e.workCtx, conversation.SessionKey{Tenant: name.Tenant, Session: id})
		})
		switch {
		case err != nil:
			failed(refusal.Unread(err))
		case next == erased.Session: // it is not erased, but nothing that this user may see
			failed(refusal.NotFound())
		default:
			e.create(name, conversation.SessionKey{Tenant: name.Tenant, Session: next}, c, owned, done)
		}
	}, failed) {
		failed(refusal.Stopping())
	}
}

// Tell hands a command to a session. done is called exactly once, after
// everything that the answer depends on is durable and before the events of its
// commit are published; it must not block. It runs on the session's goroutine,
// or on the caller's when the command is refused before it gets there.
//
// as names who asks: for a user who may not see the session it does not exist
// (not_found); "" is the engine itself. The error is always a
// *conversation.Error; after a retryable one the command may be sent again as
// it is, because every command is idempotent.
func (e *Engine) Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error)) {
	e.enter(key, &envelope{as: as, cmd: c, done: done})
}

// enter takes what comes from outside of the engine.
func (e *Engine) enter(key conversation.SessionKey, t *envelope) {
	class := t.class()
	t.at, t.fromClient, t.addsWork, t.bytes = time.Now(), true, class.AddsWork, class.Bytes
	e.m.Waiting.Inc()
	e.m.WaitingBytes.Add(float64(t.bytes))
	switch {
	case suspended(e):
		t.refuse(e, "suspended", refusal.Suspended())
	case e.phase.Load() != phaseRunning:
		t.refuse(e, "stopping", refusal.Stopping())
	case t.addsWork && e.full():
		e.refuseFull(key, t, refusal.Full())
	case t.addsWork && e.deps.Quota != nil && e.deps.Quota(key.Tenant) != nil:
		e.refuseFull(key, t, refusal.Quota())
	default:
		e.route(key, t)
	}
}

func (e *Engine) route(key conversation.SessionKey, t *envelope) {
	if key.Session.Depth() > 0 && t.as != "" {
		e.belowRoot(key, t, func() { e.dispatch(key, t) })
		return
	}
	e.dispatch(key, t)
}

// refuseFull refuses a command for which the store has no room. A repetition of one
// that is stored needs none: it gets its first receipt.
func (e *Engine) refuseFull(key conversation.SessionKey, t *envelope, full *conversation.Error) {
	refuse := func() { t.refuse(e, "storage", full) }
	own, repeatable := dedup.ClientKey(t.cmd)
	if !repeatable || !e.goUnlessStopped("looking for a repetition", func() {
		seqs, err := e.deps.Store.Find(e.workCtx, key, []conversation.Key{own})
		if err != nil || seqs[0] == 0 {
			refuse()
			return
		}
		t.addsWork = false
		e.route(key, t)
	}, func(error) { refuse() }) {
		refuse()
	}
}

// goUnlessStopped runs work of a caller in a goroutine; false: the engine has stopped.
func (e *Engine) goUnlessStopped(what string, work func(), panicked func(error)) bool {
	e.stopMu.RLock()
	defer e.stopMu.RUnlock()
	if e.phase.Load() == phaseStopped {
		return false
	}
	e.workers.Go(what, work, panicked)
	return true
}

// belowRoot lets a user through to a sub-session if they may see its root: access
// is given and taken away there. Commands may overtake each other on this way: users can
// only read sub-sessions, so there are none but read cursors and views.
func (e *Engine) belowRoot(key conversation.SessionKey, t *envelope, next func()) {
	if !e.goUnlessStopped("asking for a root", func() {
		summary, err := e.deps.Store.Summary(e.workCtx, registry.RootKey(key))
		switch {
		case errors.Is(err, conversation.ErrNotFound), err == nil && summary.Role(t.as) == access.None:
			t.answer(e, refusal.NotFound())
		case err != nil:
			t.answer(e, refusal.Unread(err))
		case t.needs() != access.Read:
			t.answer(e, conversation.Errorf(conversation.Forbidden, "the session of a delegation can only be read"))
		default:
			t.as = ""
			next()
		}
	}, func(err error) { t.answer(e, conversation.AsError(err)) }) {
		t.refuse(e, "stopping", refusal.Stopping())
	}
}

// dispatch delivers an envelope, or refuses it when the session cannot be reached.
func (e *Engine) dispatch(key conversation.SessionKey, t *envelope) {
	if !e.registry.Deliver(key, t, true) {
		t.answer(e, e.unreachable(key))
	}
}

// tellInner hands a command from one session of a tree to another: it gets
// through while the engine drains, as long as the receiver is in memory.
func (e *Engine) tellInner(key conversation.SessionKey, c conversation.Command, done func(conversation.Receipt, error)) {
	e.m.Waiting.Inc()
	e.dispatch(key, &envelope{cmd: c, done: done, at: time.Now(), owned: c == nil}) // what is woken was here
}

// tellUntil has a command told to a session until it is taken or refused for good.
func (e *Engine) tellUntil(key conversation.SessionKey, c conversation.Command) {
	if !e.repeater.Add(key, c) { // a sub-session speaks again, and is told again then
		e.log.Error("too many sessions wait to be told something: one is left out, until its next message", "session", key.Session, "tenant", key.Tenant)
	}
}

// Wake brings a session into memory, as soon as the store allows it.
func (e *Engine) Wake(key conversation.SessionKey) { e.tellUntil(key, nil) }

// full is true while the store takes nothing new: it says so, or it has refused a
// commit less than Config.FullPause ago.
func (e *Engine) full() bool {
	return e.fullPause.On() || e.deps.Store.Room(false) != nil
}

// refusedByStore has new work refused for a while.
func (e *Engine) refusedByStore() { e.fullPause.Begin(e.cfg.FullPause) }
