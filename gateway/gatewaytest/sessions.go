package gatewaytest

import (
	"context"
	"strconv"
	"sync"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/living"
	"parley/conversation/machine/machinetest"
	"parley/gateway/list"
	"parley/persistence/persistencetest"
)

// Epoch is when the clock of every stand-in begins, so that bytes are the same in
// each run.
var Epoch = machinetest.Epoch

// Sessions stands in for the engine: the real machine over a store in memory, on
// one goroutine, with no models: the test gives their answers by
// Play. Like the engine it works on one command after the other, calls done
// before it publishes, and publishes each commit at once. All reads come
// from the store.
type Sessions struct {
	*persistencetest.Memory

	// Script answers a command instead of the machine; ok is false to leave it to
	// the machine. It is called on the one goroutine that does everything.
	Script func(t Told) (a Outcome, ok bool)
	// Claims answers claims. nil = nothing waits, ever.
	Claims func(ctx context.Context, r conversation.ClaimRequest) ([]conversation.HandedOut, error)
	// NotReady is the error that Ready returns.
	NotReady error
	// Unwell is the error that Health returns.
	Unwell error

	// Lists knows who watches a list; it hears of what the world stores.
	Lists *list.Board

	world   *machinetest.World
	drafts  map[conversation.SessionKey][]conversation.DraftView
	stopped chan struct{}

	work   sync.Mutex // guards queue and closed
	more   *sync.Cond
	queue  []func()
	closed bool
}

// Told is a command that came in.
type Told struct {
	Key     conversation.SessionKey
	As      conversation.UserID
	Command conversation.Command
}

// Outcome is a script's answer to the sender.
type Outcome struct {
	Receipt conversation.Receipt
	Err     error
}

// LogID is the identity of every log.
const LogID conversation.LogID = "log-1"

// NewSessions starts a stand-in that publishes to p. Close it.
func NewSessions(p conversation.Publisher) *Sessions {
	store := persistencetest.NewMemory()
	s := &Sessions{
		Memory: store, Lists: list.New(store, nil, nil), drafts: make(map[conversation.SessionKey][]conversation.DraftView),
		stopped: make(chan struct{}),
	}
	s.world = machinetest.New(list.Store(store, s.Lists.Changed))
	s.world.Publisher = p
	s.more = sync.NewCond(&s.work)
	go s.run()
	return s
}

func (s *Sessions) run() {
	defer close(s.stopped)
	for {
		s.work.Lock()
		for len(s.queue) == 0 && !s.closed {
			s.more.Wait()
		}
		if s.closed {
			s.work.Unlock()
			return
		}
		f := s.queue[0]
		s.queue = s.queue[1:]
		s.work.Unlock()
		f()
	}
}

// do queues f for the one goroutine; it never blocks the caller.
func (s *Sessions) do(f func()) {
	s.work.Lock()
	defer s.work.Unlock()
	s.queue = append(s.queue, f)
	s.more.Signal()
}

// Close stops the goroutine. Commands that are still queued are lost.
func (s *Sessions) Close() {
	s.work.Lock()
	s.closed = true
	s.more.Signal()
	s.work.Unlock()
	<-s.stopped
}

// Do runs f on the one goroutine and waits for it: what was asked for before has
// happened then.
func (s *Sessions) Do(f func()) {
	done := make(chan struct{})
	s.do(func() { defer close(done); f() })
	<-done
}

// Hold stops the one goroutine until release is called.
func (s *Sessions) Hold() (release func()) {
	gate := make(chan struct{})
	held := make(chan struct{})
	s.do(func() { close(held); <-gate })
	<-held
	return sync.OnceFunc(func() { close(gate) })
}

// Key is a session of the default tenant.
func Key(session string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "default", Session: conversation.SessionID(session)}
}

// Open makes a session of owner, with its first event, and waits for it. One
// below another gets an objective, as its parent would send it.
func (s *Sessions) Open(session string, owner conversation.UserID) conversation.SessionKey {
	key := Key(session)
	var opening conversation.Command = conversation.Create{Owner: owner}
	if key.Session.Depth() > 0 {
		opening = conversation.Tell{Agent: "developer", Owner: owner, Objective: "Do it"}
	}
	s.Do(func() { s.world.Tell(key, opening, nil) })
	return key
}

// Play gives f the world on the one goroutine and waits for it: to change the
// rules, to move the clock, to tell sessions what models and tools say.
func (s *Sessions) Play(f func(w *machinetest.World)) { s.Do(func() { f(s.world) }) }

// Full says whether tasks may start; when they may, those that wait do.
func (s *Sessions) Full(full bool) {
	s.Play(func(w *machinetest.World) {
		w.Full = full
		w.Pass(0)
	})
}

// Seq returns the seq at which a message was accepted; 0 = it was not.
func (s *Sessions) Seq(key conversation.SessionKey, message conversation.MessageID) (seq conversation.Seq) {
	s.Play(func(w *machinetest.World) {
		for _, e := range w.Session(key).Events() {
			if b, ok := e.Body.(conversation.MessageAccepted); ok && b.Message == message {
				seq = e.Seq
			}
		}
	})
	return seq
}

// Model plays the open model call of a session: it answers with these items.
func (s *Sessions) Model(key conversation.SessionKey, items ...conversation.Item) {
	s.Play(func(w *machinetest.World) { w.Session(key).Answer(items...) })
}

// Commit stores events that no session decided, as one record, and publishes
// them. It does not wait.
func (s *Sessions) Commit(key conversation.SessionKey, events ...conversation.Event) {
	s.do(func() {
		if s.world.Session(key) != nil {
			s.world.Append(key, true, events...)
		}
	})
}

// Store stores events as one record, as a session does that ends before it can
// publish them; the next activation says how far the log reaches.
func (s *Sessions) Store(key conversation.SessionKey, events ...conversation.Event) {
	s.Do(func() {
		s.world.Append(key, false, events...)
		s.world.Publisher.Stored(key, 0, s.world.Session(key).Machine.Head())
	})
}

// Say has an outside runtime say n things in a session, one event each. It does
// not wait.
func (s *Sessions) Say(key conversation.SessionKey, n int) {
	s.do(func() {
		for i := range n {
			s.world.Tell(key, conversation.AddPart{Author: "local", Text: "message " + strconv.Itoa(i)}, nil)
		}
	})
}

// Show shows an ephemeral thing after the head of a session.
func (s *Sessions) Show(key conversation.SessionKey, e conversation.Ephemeral) {
	s.do(func() { s.world.Publisher.Show(key, 0, s.world.Session(key).Machine.Head(), e) })
}

// Drafts has the session's views show these.
func (s *Sessions) Drafts(key conversation.SessionKey, drafts ...conversation.DraftView) {
	s.Do(func() { s.drafts[key] = drafts })
}

// Create opens a session, or the next one of the name of an erased session.
func (s *Sessions) Create(key conversation.SessionKey, c conversation.Create, done func(conversation.SessionKey, bool, error)) {
	s.do(func() {
		living, err := living.Of(key.Session, func(id conversation.SessionID) (bool, error) {
			return s.Erased(context.Background(), conversation.SessionKey{Tenant: key.Tenant, Session: id})
		})
		if err != nil {
			done(key, false, err)
			return
		}
		key.Session = living
		s.world.Tell(key, c, func(r conversation.Receipt, err error) { done(key, err == nil && !r.Duplicate, err) })
	})
}

var errNoSession = conversation.Errorf(conversation.NotFound, "there is no such session")

// session is a session to which as has a right: their role in its root decides, as in
// the engine. "" has every right.
func (s *Sessions) session(key conversation.SessionKey, as conversation.UserID, needs access.Right) (*machinetest.Session, error) {
	found := s.world.Session(key)
	root := s.world.Session(conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()})
	switch {
	case found == nil, as != "" && (root == nil || root.Machine.Role(as) == access.None):
		return nil, errNoSession
	case as != "" && !root.Machine.Role(as).May(needs), as != "" && key.Session.Depth() > 0 && needs != access.Read:
		return nil, conversation.Forbid(needs)
	}
	return found, nil
}

// Tell has a command answered, by the script or by the machine.
func (s *Sessions) Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error)) {
	s.do(func() {
		if _, err := s.session(key, as, c.Class().Needs); err != nil {
			done(conversation.Receipt{}, err)
			return
		}
		if s.Script != nil {
			if a, ok := s.Script(Told{Key: key, As: as, Command: c}); ok {
				done(a.Receipt, a.Err)
				return
			}
		}
		s.world.Tell(key, c, done)
		s.world.Rest()
	})
}

// View shows a session.
func (s *Sessions) View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
	s.do(func() {
		found, err := s.session(key, as, access.Read)
		if err != nil {
			done(conversation.View{}, err)
			return
		}
		v := found.Machine.View()
		v.Log, v.Drafts = LogID, s.drafts[key]
		done(v, nil)
	})
}

// Erase deletes a session and those below it.
func (s *Sessions) Erase(_ context.Context, key conversation.SessionKey, as conversation.UserID) (err error) {
	s.Do(func() {
		if _, err = s.session(key, as, access.Own); err == nil {
			err = s.world.Erase(key)
		}
	})
	return err
}

// Claim is answered by Claims.
func (s *Sessions) Claim(ctx context.Context, r conversation.ClaimRequest) ([]conversation.HandedOut, error) {
	if s.Claims == nil {
		return nil, nil
	}
	return s.Claims(ctx, r)
}

// Ready is nil unless NotReady is set.
func (s *Sessions) Ready() error { return s.NotReady }

// Health is nil unless Unwell is set.
func (s *Sessions) Health() error { return s.Unwell }
