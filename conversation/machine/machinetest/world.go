package machinetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/dedup"
	"parley/conversation/machine"
	"parley/conversation/policy"
)

// Epoch is the time at which the clock of every World begins.
var Epoch = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// World is an engine with everything that a test wants to hold still.
type World struct {
	Rules     *policy.Rules // of all sessions; may be changed before the first one
	Store     conversation.Store
	Publisher conversation.Publisher // nil = there are no followers

	Now  time.Time     // the clock
	Pace time.Duration // how far each command moves it first
	Full bool          // no task of a root session may start

	// Model answers a model call, with ModelAnswered or ModelFailed; nil leaves it
	// open. After a failure the clock moves to the next attempt.
	Model func(s *Session, r conversation.Request) conversation.Command
	// Tool is the result of a tool call; false leaves it open.
	Tool func(s *Session, run conversation.RunTool) (result string, ok bool)

	sessions map[conversation.SessionKey]*Session
	todo     []func()
	commits  int
}

// New is a world over an empty store, with the rules that Rules gives. Its clock
// moves by a millisecond with each command.
func New(store conversation.Store) *World {
	return &World{
		Rules: Rules(), Store: store, Now: Epoch, Pace: time.Millisecond,
		sessions: map[conversation.SessionKey]*Session{},
	}
}

// Rules are the default policy with five agents who may do everything (the
// coordinator, a developer, a researcher, a communicator and the outside runtime)
// and three tools: clock and calculate, which may be repeated, and mail.
func Rules() *policy.Rules {
	r := &policy.Rules{
		Policy: policy.DefaultPolicy(), Agents: map[conversation.AgentName]policy.Profile{}, Tools: map[string]policy.ToolRule{},
	}
	for _, name := range []conversation.AgentName{conversation.Coordinator, "developer", "researcher", "communicator", conversation.External} {
		r.Agents[name] = policy.Profile{
			Name: name, Tools: []string{"*"}, MayAsk: true, Delegates: true, EngineTools: true, Delegable: name != conversation.Coordinator,
		}
	}
	for _, name := range []string{"clock", "calculate", "mail"} {
		r.Tools[name] = policy.ToolRule{Spec: conversation.ToolSpec{Name: name, Idempotent: name != "mail"}}
	}
	return r
}

// Session is the session of that key; nil when it is not there.
func (w *World) Session(key conversation.SessionKey) *Session {
	if s := w.sessions[key]; s != nil && s.Machine.Exists() {
		return s
	}
	return nil
}

// Tell gives a session a command. done, which may be nil, is called when
// everything is stored and before it is published. A session comes into being by
// Create or conversation.Tell; for other commands an absent one is not found.
// The command's effects wait for Rest.
func (w *World) Tell(key conversation.SessionKey, c conversation.Command, done func(conversation.Receipt, error)) {
	w.Now = w.Now.Add(w.Pace)
	if done == nil {
		done = func(conversation.Receipt, error) {}
	}
	s, err := w.load(key, c)
	if err != nil {
		done(conversation.Receipt{}, err)
		return
	}
	d := s.Machine.Decide(conversation.Inputs{At: w.Now, Slot: !w.Full}, w.lookedUp(s, c))
	w.commit(s, conversation.Commit{
		Events: d.Events, Keys: d.Keys, Tasks: d.Rows, Cursors: d.Cursors, Summary: d.Summary, WakeAt: d.WakeAt, Claim: d.Claim,
	})
	for _, e := range slices.Concat(d.Release, s.Machine.Durable(d.Head)) {
		w.effect(s, e)
	}
	if d.Err != nil {
		done(conversation.Receipt{}, d.Err)
		return
	}
	done(d.Receipt, nil)
	w.publish(key, d.Events)
}

// Do is Tell and Rest.
func (w *World) Do(key conversation.SessionKey, c conversation.Command) (receipt conversation.Receipt, err error) {
	w.Tell(key, c, func(r conversation.Receipt, e error) { receipt, err = r, e })
	w.Rest()
	return receipt, err
}

// Pass moves the clock and lets every session do what has become due.
func (w *World) Pass(d time.Duration) {
	w.Now = w.Now.Add(d)
	keys := slices.SortedFunc(maps.Keys(w.sessions), func(a, b conversation.SessionKey) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session))
	})
	for _, key := range keys {
		w.Tell(key, conversation.Tick{}, nil)
	}
	w.Rest()
}

// Append stores events without a decision, as one record, and publishes them if
// publish is true. Seq and, where it is zero, At are filled in; keys and rows of
// tasks are not stored. The events are applied to the machine, so they must have
// a shape that it knows, if not a meaning.
func (w *World) Append(key conversation.SessionKey, publish bool, events ...conversation.Event) {
	s := w.Session(key) // that it is there is the test's own business
	stored := make([]conversation.Event, len(events))
	for i, e := range events {
		e.Seq = s.Machine.Head() + 1
		if e.At.IsZero() {
			w.Now = w.Now.Add(w.Pace)
			e.At = w.Now
		}
		if err := s.Machine.Apply(e); err != nil {
			panic(err)
		}
		stored[i] = e
	}
	w.commit(s, conversation.Commit{Events: stored, Summary: s.Machine.Summary(), Claim: s.Machine.Standing().Claim})
	if publish {
		w.publish(key, stored)
	}
}

// Erase deletes a session and those below it.
func (w *World) Erase(key conversation.SessionKey) error {
	if err := w.Store.Delete(context.Background(), key); err != nil {
		return err
	}
	for k := range w.sessions {
		if k == key || k.Tenant == key.Tenant && strings.HasPrefix(string(k.Session), string(key.Session)+"/") {
			delete(w.sessions, k)
		}
	}
	if w.Publisher != nil {
		w.Publisher.Gone(key, "erased")
	}
	return nil
}

// Rest does what waits, and what comes of it, until nothing is left but what is
// in the test's own hands.
func (w *World) Rest() {
	for n := 0; len(w.todo) > 0; n++ {
		if n > 5000 {
			panic("machinetest: no rest after 5000 effects")
		}
		next := w.todo[0]
		w.todo = w.todo[1:]
		next()
	}
}

// load finds a session, or makes one without events for a command that opens it.
func (w *World) load(key conversation.SessionKey, c conversation.Command) (*Session, error) {
	if s := w.sessions[key]; s != nil {
		return s, nil
	}
	head, err := w.Store.Acquire(context.Background(), key, conversation.AcquireHow{Create: c.Class().Creates})
	if err != nil {
		return nil, err // not found: absent, or erased
	}
	s := &Session{Key: key, Machine: machine.New(key, w.Rules), world: w, epoch: head.Epoch}
	w.sessions[key] = s
	return s, nil
}

// lookedUp is a command with the hint of what the store knows of its key.
func (w *World) lookedUp(s *Session, c conversation.Command) conversation.Command {
	keys := s.Machine.LookupKeys(c)
	if len(keys) == 0 {
		return c
	}
	find := func(keys []conversation.Key) ([]conversation.Seq, error) {
		return w.Store.Find(context.Background(), s.Key, keys)
	}
	seqs, err := find(keys)
	if err != nil {
		panic(err)
	}
	if first := slices.Max(seqs); first != 0 {
		return dedup.With(c, dedup.Of(c, s.event(first)))
	}
	if before := s.Machine.PartBefore(c); before != nil {
		next, err := dedup.NextPart(*before, find)
		if err != nil {
			panic(err)
		}
		return dedup.Follow(c, next)
	}
	return c
}

// commit stores what the machine has gone through already.
func (w *World) commit(s *Session, c conversation.Commit) {
	if len(c.Events) == 0 && len(c.Cursors) == 0 {
		return
	}
	w.commits++
	c.Epoch, c.After, c.ID = s.epoch, s.Machine.Head()-conversation.Seq(len(c.Events)), conversation.CommitID(fmt.Sprint("c", w.commits))
	if err := w.Store.Commit(context.Background(), s.Key, c); err != nil {
		panic(fmt.Sprintf("machinetest: %s: %v", s.Key, err))
	}
}

func (w *World) publish(key conversation.SessionKey, events []conversation.Event) {
	if w.Publisher == nil || len(events) == 0 {
		return
	}
	if conversation.ChangesAudience(events) {
		w.Publisher.Audience(key, w.sessions[key].epoch, w.sessions[key].Machine.Summary())
	}
	w.Publisher.Publish(key, w.sessions[key].epoch, events)
}

func (w *World) later(f func()) { w.todo = append(w.todo, f) }

// tell is Tell between sessions: no caller waits for the answer, and a session
// that has been erased meanwhile gets nothing.
func (w *World) tell(key conversation.SessionKey, c conversation.Command) {
	w.later(func() { w.Tell(key, c, nil) })
}

func (w *World) effect(s *Session, e conversation.Effect) {
	parent, call, _ := s.Key.Session.Parent()
	below := func(call conversation.CallID) conversation.SessionKey {
		return conversation.SessionKey{Tenant: s.Key.Tenant, Session: s.Key.Session + "/" + conversation.SessionID(call)}
	}
	switch e := e.(type) {
	case conversation.AskModel:
		s.asked = &e
		w.later(func() { s.begin(e) })
	case conversation.StopModel:
		if s.asked != nil && s.asked.Step == e.Step {
			s.asked = nil
		}
	case conversation.RunTool:
		w.later(func() {
			if w.Tool == nil {
				return
			}
			if result, ok := w.Tool(s, e); ok {
				w.Tell(s.Key, conversation.ToolDone{Call: e.Call, Status: conversation.CallOK, Result: result}, nil)
			}
		})
	case conversation.StartDelegation:
		own := s.Machine.Summary()
		child := below(e.Call)
		if e.Stop {
			w.tell(child, conversation.Cancel{By: conversation.ByParent})
			break
		}
		w.tell(child, conversation.Tell{Agent: e.Agent, Owner: own.Owner, Access: own.Access, Policy: s.Machine.Inherited(), Lifted: s.Machine.Lifted(), Objective: e.Objective})
	case conversation.AmendDelegation:
		w.later(func() { w.amend(s, below(e.Delegation), e) })
	case conversation.RouteAnswer:
		w.tell(below(e.Delegation), conversation.Answer{
			Author: e.By, Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID("a" + e.Question), Question: e.Question, Text: e.Text,
		})
	case conversation.StopCall:
		w.tell(s.Key, conversation.ToolDone{Call: e.Call, Status: conversation.CallCancelled, Result: "cancelled"})
		w.tell(s.Key, conversation.DelegationDone{Delegation: e.Call, Status: conversation.CallCancelled, Summary: "cancelled"})
	case conversation.Report:
		w.later(func() {
			w.Tell(conversation.SessionKey{Tenant: s.Key.Tenant, Session: parent}, conversation.DelegationDone{
				Delegation: call, Status: e.Status, Summary: cmp.Or(e.Summary, s.part(e.Seq).Text),
			}, nil)
		})
	case conversation.ReportQuestion:
		w.tell(conversation.SessionKey{Tenant: s.Key.Tenant, Session: parent}, conversation.DelegationAsked{
			Delegation: call, Question: e.Asked.Question, Text: e.Asked.Text, Choices: e.Asked.Choices,
			ExpiresAt: e.Asked.ExpiresAt, Default: e.Asked.Default, Approval: e.Asked.Approval,
		})
	case conversation.RefuseDelegation:
		w.tell(below(e.Delegation), conversation.Cancel{By: conversation.ByParent, Reason: "its parent does not wait for it"})
	case conversation.ReportQuestions:
		w.tell(conversation.SessionKey{Tenant: s.Key.Tenant, Session: parent}, conversation.DelegationQuestions{Delegation: call, Open: e.Open})
	case conversation.ReportQuestionClosed:
		w.tell(conversation.SessionKey{Tenant: s.Key.Tenant, Session: parent}, conversation.DelegationQuestionClosed{
			Delegation: call, Question: e.Question, Reason: e.Reason, Default: e.Default,
		})
	}
}

func (w *World) amend(s *Session, child conversation.SessionKey, e conversation.AmendDelegation) {
	done := conversation.ToolDone{Call: e.Call, Status: conversation.CallOK, Result: "amended"}
	w.Tell(child, conversation.Say{
		Author: s.Machine.Summary().Owner, Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID(e.Call), Text: e.Text,
	}, func(_ conversation.Receipt, err error) {
		if err != nil {
			done.Status, done.Result = conversation.CallError, "error: "+conversation.AsError(err).Message
		}
	})
	w.Tell(s.Key, done, nil)
}
