package calls

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/mail"
	"parley/actors/internal/shown"
	"parley/conversation"
)

// Env holds what calls need from the engine. All fields are required.
type Env struct {
	Context   context.Context // of everything that a call starts; ends with the engine
	Tools     map[string]conversation.Tool
	Late      func(name string) (conversation.Tool, bool) // those that joined after the start; nil = none
	Publisher conversation.Publisher
	Log       *slog.Logger

	// Go runs do in a goroutine; failed gets a panic in it.
	Go func(what string, do func(), failed func(error))
	// Send puts a message into an actor's mailbox.
	Send func(*actor.PID, any)
	// Tell hands a command to another session of the tree; done is called once.
	Tell func(conversation.SessionKey, conversation.Command, func(error))
	// Event reads one stored event.
	Event func(conversation.SessionKey, conversation.Seq) (conversation.Event, error)

	ToolOutput   int           // bytes of a tool's result that are kept
	ToolGrace    time.Duration // how long a tool may go on after its deadline before it is given up
	ToolDeadline time.Duration // for a tool call that brings no deadline of its own
	TellEvery    time.Duration // a delegation's objective is sent again this often; also the longest pause after a refusal
	TellRetry    time.Duration // the first pause after a refusal
}

// Session is the session that a call is started for.
type Session struct {
	Key       conversation.SessionKey
	Self      *actor.PID
	Spawner   actor.SpawnerContext // valid while the session takes a message
	Published *shown.Position      // the last event that was published
}

// End is a message to the session: what a child says of its call. A call that has
// ended and its child are the same until Set.Ended.
type End struct {
	mail.DeadLetterOK
	Command conversation.Command
}

// The messages to children, beside those of the delivery queue.
type (
	stop struct{ mail.DeadLetterOK } // the call is cancelled; its end comes back as usual
	over struct{ mail.DeadLetterOK } // the end of the call is durable
)

// StopOnFailure is the supervision of a session's children: one that fails is
// stopped, and the session gets actor.Terminated.
var StopOnFailure = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// Set is the calls of one session that run. The zero value is empty.
type Set struct {
	children map[conversation.CallID]*actor.PID
	waiting  map[conversation.CallID]*atomic.Bool // of tools: whether they wait for an answer of their user
}

// RunTool starts a tool call.
func (s *Set) RunTool(env *Env, of Session, f conversation.RunTool) {
	child := &tool{env: env, key: of.Key, parent: of.Self, published: of.Published, f: f, waits: new(atomic.Bool)}
	if s.add(f.Call, of, child) {
		if s.waiting == nil {
			s.waiting = map[conversation.CallID]*atomic.Bool{}
		}
		s.waiting[f.Call] = child.waits
	}
}

// Delegate starts a delegation with what the session passes on of itself, or cancels one
// that an earlier activation has started, if f says so.
func (s *Set) Delegate(env *Env, of Session, as conversation.Tell, f conversation.StartDelegation) {
	s.add(f.Call, of, &delegation{env: env, key: of.Key, parent: of.Self, f: f, as: as, stop: f.Stop})
}

// add starts a child. A call that runs is not started again, whatever the machine
// asks for: a tool that ran twice could do its harm twice.
func (s *Set) add(call conversation.CallID, of Session, child actor.Actor) bool {
	if s.children[call] != nil {
		return false
	}
	if s.children == nil {
		s.children = map[conversation.CallID]*actor.PID{}
	}
	s.children[call] = of.Spawner.Spawn(actor.PropsFromProducer(func() actor.Actor { return child }))
	return true
}

// Amend hands a text to a delegation that runs; false when none does.
func (s *Set) Amend(env *Env, f conversation.AmendDelegation) bool {
	pid := s.children[f.Delegation]
	if pid != nil {
		env.Send(pid, &amendment{f: f})
	}
	return pid != nil
}

// Answer hands a user's answer to the delegation that has asked. If it does not
// run, the answer is dropped: its question is closed then.
func (s *Set) Answer(env *Env, f conversation.RouteAnswer) {
	if pid := s.children[f.Delegation]; pid != nil {
		env.Send(pid, &answer{f: f})
	}
}

// AnswerTool tells a tool what became of its question. One that does not run any more
// has its end.
func (s *Set) AnswerTool(env *Env, f conversation.AnswerTool) {
	if pid := s.children[f.Call]; pid != nil {
		env.Send(pid, &toolReply{AnswerTool: f})
	}
}

// Stop cancels a call; its end comes as usual. False when it does not run.
func (s *Set) Stop(env *Env, call conversation.CallID) bool {
	pid := s.children[call]
	if pid != nil {
		env.Send(pid, &stop{})
	}
	return pid != nil
}

// StopAll ends every child at once; no end is reported. The outcome of the
// calls is unknown, and is recorded as unknown when the session is loaded again.
func (s *Set) StopAll(ctx actor.Context) {
	for _, pid := range s.children {
		ctx.Stop(pid)
	}
	s.children, s.waiting = nil, nil
}

// Ended ends the children of calls whose end is among events, which are durable.
func (s *Set) Ended(env *Env, events []conversation.Event) {
	if len(s.children) == 0 {
		return
	}
	for _, event := range events {
		var call conversation.CallID
		switch b := event.Body.(type) {
		case conversation.ToolFinished:
			call = b.Call
		case conversation.DelegationFinished:
			call = b.Delegation
		default:
			continue
		}
		if pid := s.children[call]; pid != nil {
			s.forget(call)
			env.Send(pid, &over{})
		}
	}
}

// Terminated takes the end of a child: true with its call if that is still open.
// It has no other end then, for its child has failed.
func (s *Set) Terminated(pid *actor.PID) (conversation.CallID, bool) {
	for call, child := range s.children {
		if child.Equal(pid) {
			s.forget(call)
			return call, true
		}
	}
	return "", false
}

func (s *Set) forget(call conversation.CallID) {
	delete(s.children, call)
	delete(s.waiting, call)
}

// Empty is true when no call runs.
func (s *Set) Empty() bool { return len(s.children) == 0 }

// RunsTools is true while a tool call works; one that waits for an answer of its user
// does not, and a delegation's work runs in its own session.
func (s *Set) RunsTools() bool {
	for _, waits := range s.waiting {
		if !waits.Load() {
			return true
		}
	}
	return false
}

// IsDelegation tells a delegation's id from a tool call's.
func IsDelegation(call conversation.CallID) bool { return len(call) > 0 && call[0] == 'd' }

// Cancelled is the end of a call that was cancelled before it has started.
func Cancelled(call conversation.CallID) conversation.Command {
	if IsDelegation(call) {
		return conversation.DelegationDone{Delegation: call, Status: conversation.CallCancelled}
	}
	return conversation.ToolDone{Call: call, Status: conversation.CallCancelled, Result: "cancelled before it started"}
}

// Failed is the end of a call whose child has failed.
func Failed(call conversation.CallID) conversation.Command {
	if IsDelegation(call) {
		return conversation.DelegationDone{Delegation: call, Status: conversation.CallFailed, Summary: "the delegation failed on the server"}
	}
	return conversation.ToolDone{
		Call: call, Status: conversation.CallUnknown,
		Result: "outcome unknown: the call failed on the server; it may or may not have taken effect",
	}
}
