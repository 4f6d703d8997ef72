package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/admission"
	"parley/conversation"
)

// acquire does what was decided, now that it is durable.
func (s *session) acquire(effect conversation.Effect) {
	switch f := effect.(type) {
	case conversation.AskModel:
		s.ask(f)
	case conversation.RunTool:
		s.runTool(f)
	case conversation.StartDelegation:
		s.delegate(f)
	case conversation.AmendDelegation:
		s.amend(f)
	case conversation.RouteAnswer:
		if pid := s.calls[f.Delegation]; pid != nil {
			s.e.system.Root.Send(pid, &route{f: f})
		}
	case conversation.WantSlot:
		root, self := s.e.system.Root, s.self
		s.slot.Request(s.e.slots, s.key.Tenant, func(r *admission.Request) { root.Send(self, &slotGrant{request: r}) })
	case conversation.Report, conversation.ReportQuestion, conversation.ReportQuestions, conversation.ReportQuestionClosed:
		s.report(f)
	case conversation.Triage:
		s.triage(f)
	default:
		panic(fmt.Sprintf("actors: nobody does %T", effect))
	}
}

// release stops what was decided to stop, at once.
func (s *session) release(effect conversation.Effect) {
	switch f := effect.(type) {
	case conversation.StopModel:
		if s.model != nil && s.model.ask.Step == f.Step {
			b := s.batch()
			b.drafts = append(b.drafts, s.model.stop()...)
			s.model = nil
		}
	case conversation.StopCall:
		s.stopCall(f.Call)
	case conversation.RefuseDelegation:
		sub := conversation.SessionKey{Tenant: s.key.Tenant, Session: s.key.Session + "/" + conversation.SessionID(f.Delegation)}
		s.e.tellUntil(sub, conversation.Cancel{By: conversation.ByParent, Reason: "its parent does not wait for it"})
	default:
		panic(fmt.Sprintf("actors: nobody stops %T", effect))
	}
}

// stopCall cancels a call. One that was not started yet, or that a failure took
// away, has stopped already and is answered like that. After a load the
// machine's outstanding effects say what is to be stopped, so nothing is done.
func (s *session) stopCall(call conversation.CallID) {
	if pid := s.calls[call]; pid != nil {
		s.e.system.Root.Send(pid, &stopCall{})
		return
	}
	if s.phase == phaseRecovering {
		return
	}
	if isDelegation(call) {
		s.send(&callEnd{cmd: conversation.DelegationDone{Delegation: call, Status: conversation.CallCancelled}})
		return
	}
	s.send(&callEnd{cmd: conversation.ToolDone{Call: call, Status: conversation.CallCancelled, Result: "cancelled before it started"}})
}

// isDelegation tells a delegation's id from a tool call's.
func isDelegation(call conversation.CallID) bool { return len(call) > 0 && call[0] == 'd' }

// callEnd is what a child has to say about its call.
type callEnd struct {
	deadLetterOK
	cmd conversation.Command
}

// callEnded hands the end of a call to the machine.
func (s *session) callEnded(m *callEnd) {
	if s.phase != phaseUnloaded {
		s.tellSelf(m.cmd)
	}
}

// stopChild ends a child that has failed: a tool that ran twice could do its
// harm twice. childEnded says so to the machine.
var stopChild = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// childEnded takes the end of a child. A call that is still open then has no
// other end: its child has failed.
func (s *session) childEnded(pid *actor.PID) {
	if s.phase == phaseUnloaded {
		return
	}
	if s.uplink != nil && s.uplink.Equal(pid) {
		s.uplink = nil // the parent tells again, and then hears everything again
		return
	}
	for call, child := range s.calls {
		if !child.Equal(pid) {
			continue
		}
		delete(s.calls, call)
		if isDelegation(call) {
			s.release(conversation.RefuseDelegation{Delegation: call})
			s.tellSelf(conversation.DelegationDone{Delegation: call, Status: conversation.CallFailed, Summary: "the delegation failed on the server"})
		} else {
			s.tellSelf(conversation.ToolDone{Call: call, Status: conversation.CallUnknown, Result: "outcome unknown: the call failed on the server; it may or may not have taken effect"})
		}
		return
	}
}

// callOver tells a call's child that its call has ended.
type callOver struct{ deadLetterOK }

// endCalls stops the children of calls that have ended.
func (s *session) endCalls(events []conversation.Event) {
	if len(s.calls) == 0 {
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
		if pid := s.calls[call]; pid != nil {
			delete(s.calls, call)
			s.e.system.Root.Send(pid, &callOver{})
		}
	}
}
