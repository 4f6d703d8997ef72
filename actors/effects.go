package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/admission"
	"parley/actors/internal/calls"
	"parley/conversation"
)

// acquire does an acquiring effect, now that its events are durable.
func (s *session) acquire(effect conversation.Effect) {
	switch f := effect.(type) {
	case conversation.AskModel:
		s.ask(f)
	case conversation.RunTool:
		f.TraceParent = s.observer.ToolParent(f.Task, f.Call)
		s.calls.RunTool(s.e.calls, s.asParent(), f)
	case conversation.StartDelegation:
		summary := s.machine.Summary()
		s.calls.Delegate(s.e.calls, s.asParent(), conversation.Tell{Owner: summary.Owner, Access: summary.Access, Policy: s.machine.Inherited(), Lifted: s.machine.Lifted()}, f)
	case conversation.AmendDelegation:
		if !s.calls.Amend(s.e.calls, f) {
			s.send(&calls.End{Command: conversation.ToolDone{Call: f.Call, Status: conversation.CallError, Result: "the delegation has ended"}})
		}
	case conversation.RouteAnswer:
		s.calls.Answer(s.e.calls, f)
	case conversation.AnswerTool:
		s.calls.AnswerTool(s.e.calls, f)
	case conversation.WantSlot:
		root, self := s.e.system.Root, s.self
		s.slot.Request(s.e.slots, s.key.Tenant, func(r *admission.Request) { root.Send(self, &slotGrant{request: r}) })
	case conversation.Report, conversation.ReportQuestion, conversation.ReportQuestions, conversation.ReportQuestionClosed:
		s.uplink.Report(s.e.calls, s.asParent(), s.machine.Summary().CreatedAt, f)
	case conversation.Triage:
		s.triage(f)
	default:
		panic(fmt.Sprintf("actors: no code for the effect %T", effect))
	}
}

// release does a releasing effect: it stops something, at once.
func (s *session) release(effect conversation.Effect) {
	switch f := effect.(type) {
	case conversation.StopModel:
		s.cache.Forget(f.Step)
		if s.model != nil && s.model.For().Step == f.Step {
			b := s.batch()
			b.drafts = append(b.drafts, s.model.Stop()...)
			s.stopping, s.model = s.model, nil
		}
	case conversation.StopCall:
		// A call that was not started yet, or that a failure took away, has stopped
		// already and is answered like that. After a load the machine's outstanding
		// effects say what is to be stopped, so nothing is done.
		if !s.calls.Stop(s.e.calls, f.Call) && s.phase != phaseRecovering {
			s.send(&calls.End{Command: calls.Cancelled(f.Call)})
		}
	case conversation.RefuseDelegation:
		sub := conversation.SessionKey{Tenant: s.key.Tenant, Session: s.key.Session + "/" + conversation.SessionID(f.Delegation)}
		s.e.tellUntil(sub, conversation.Cancel{By: conversation.ByParent, Reason: "its parent does not wait for it"})
	default:
		panic(fmt.Sprintf("actors: no code for the effect %T", effect))
	}
}

// asParent is the session as its children know it.
func (s *session) asParent() calls.Session {
	return calls.Session{Key: s.key, Self: s.self, Spawner: s.ctx, Published: s.published}
}

// childEnded takes the end of a child. A call that is still open then has failed.
func (s *session) childEnded(pid *actor.PID) {
	if s.phase == phaseUnloaded || s.uplink.Terminated(pid) {
		return
	}
	call, open := s.calls.Terminated(pid)
	if !open {
		return
	}
	if calls.IsDelegation(call) {
		s.release(conversation.RefuseDelegation{Delegation: call})
	}
	s.tellSelf(calls.Failed(call))
}
