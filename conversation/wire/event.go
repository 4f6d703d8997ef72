package wire

import (
	"fmt"

	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// putEvent panics on a body that is none of the vocabulary's: a test holds the
// switch against conversation.EventKinds.
func putEvent(e conversation.Event) *pb.Event {
	out := &pb.Event{Seq: uint64(e.Seq), At: putTime(e.At), Task: string(e.Task)}
	switch b := e.Body.(type) {
	case conversation.SessionCreated:
		out.Body = &pb.Event_SessionCreated{SessionCreated: putSessionCreated(b)}
	case conversation.SessionUpdated:
		out.Body = &pb.Event_SessionUpdated{SessionUpdated: putSessionUpdated(b)}
	case conversation.SessionClosed:
		out.Body = &pb.Event_SessionClosed{SessionClosed: putSessionClosed(b)}
	case conversation.MessageAccepted:
		out.Body = &pb.Event_MessageAccepted{MessageAccepted: putMessageAccepted(b)}
	case conversation.MessageEdited:
		out.Body = &pb.Event_MessageEdited{MessageEdited: putMessageEdited(b)}
	case conversation.MessageWithdrawn:
		out.Body = &pb.Event_MessageWithdrawn{MessageWithdrawn: putMessageWithdrawn(b)}
	case conversation.MessageMoved:
		out.Body = &pb.Event_MessageMoved{MessageMoved: putMessageMoved(b)}
	case conversation.MessageResolved:
		out.Body = &pb.Event_MessageResolved{MessageResolved: putMessageResolved(b)}
	case conversation.TaskStatusChanged:
		out.Body = &pb.Event_TaskStatus{TaskStatus: putTaskStatusChanged(b)}
	case conversation.TaskCancelling:
		out.Body = &pb.Event_TaskCancelling{TaskCancelling: putTaskCancelling(b)}
	case conversation.StepStarted:
		out.Body = &pb.Event_StepStarted{StepStarted: putStepStarted(b)}
	case conversation.StepFinished:
		out.Body = &pb.Event_StepFinished{StepFinished: putStepFinished(b)}
	case conversation.PartialResponse:
		out.Body = &pb.Event_PartialResponse{PartialResponse: putPartialResponse(b)}
	case conversation.Response:
		out.Body = &pb.Event_Response{Response: putResponse(b)}
	case conversation.Asked:
		out.Body = &pb.Event_Question{Question: putAsked(b)}
	case conversation.QuestionAnswered:
		out.Body = &pb.Event_QuestionAnswered{QuestionAnswered: putQuestionAnswered(b)}
	case conversation.QuestionClosed:
		out.Body = &pb.Event_QuestionClosed{QuestionClosed: putQuestionClosed(b)}
	case conversation.ToolStarted:
		out.Body = &pb.Event_ToolStarted{ToolStarted: putToolStarted(b)}
	case conversation.ToolFinished:
		out.Body = &pb.Event_ToolFinished{ToolFinished: putToolFinished(b)}
	case conversation.DelegationStarted:
		out.Body = &pb.Event_DelegationStarted{DelegationStarted: putDelegationStarted(b)}
	case conversation.DelegationFinished:
		out.Body = &pb.Event_DelegationFinished{DelegationFinished: putDelegationFinished(b)}
	case conversation.CoverageNudge:
		out.Body = &pb.Event_CoverageNudge{CoverageNudge: putCoverageNudge(b)}
	case conversation.ContextCompacted:
		out.Body = &pb.Event_ContextCompacted{ContextCompacted: putContextCompacted(b)}
	default:
		panic(fmt.Sprintf("wire: there is no encoding for an event body of type %T", e.Body))
	}
	return out
}

func readEvent(p *pb.Event) (conversation.Event, error) {
	if number := unknownBody(p); number != 0 {
		return conversation.Event{}, fmt.Errorf("%w: event kind %d", conversation.ErrTooNew, number-10)
	}
	var r reader
	out := conversation.Event{Seq: conversation.Seq(p.Seq), At: readTime(p.At), Task: conversation.TaskID(p.Task)}
	switch b := p.Body.(type) {
	case *pb.Event_SessionCreated:
		out.Body = r.sessionCreated(b.SessionCreated)
	case *pb.Event_SessionUpdated:
		out.Body = r.sessionUpdated(b.SessionUpdated)
	case *pb.Event_SessionClosed:
		out.Body = r.sessionClosed(b.SessionClosed)
	case *pb.Event_MessageAccepted:
		out.Body = r.messageAccepted(b.MessageAccepted)
	case *pb.Event_MessageEdited:
		out.Body = r.messageEdited(b.MessageEdited)
	case *pb.Event_MessageWithdrawn:
		out.Body = r.messageWithdrawn(b.MessageWithdrawn)
	case *pb.Event_MessageMoved:
		out.Body = r.messageMoved(b.MessageMoved)
	case *pb.Event_MessageResolved:
		out.Body = r.messageResolved(b.MessageResolved)
	case *pb.Event_TaskStatus:
		out.Body = r.taskStatusChanged(b.TaskStatus)
	case *pb.Event_TaskCancelling:
		out.Body = r.taskCancelling(b.TaskCancelling)
	case *pb.Event_StepStarted:
		out.Body = r.stepStarted(b.StepStarted)
	case *pb.Event_StepFinished:
		out.Body = r.stepFinished(b.StepFinished)
	case *pb.Event_PartialResponse:
		out.Body = r.partialResponse(b.PartialResponse)
	case *pb.Event_Response:
		out.Body = r.response(b.Response)
	case *pb.Event_Question:
		out.Body = r.asked(b.Question)
	case *pb.Event_QuestionAnswered:
		out.Body = r.questionAnswered(b.QuestionAnswered)
	case *pb.Event_QuestionClosed:
		out.Body = r.questionClosed(b.QuestionClosed)
	case *pb.Event_ToolStarted:
		out.Body = r.toolStarted(b.ToolStarted)
	case *pb.Event_ToolFinished:
		out.Body = r.toolFinished(b.ToolFinished)
	case *pb.Event_DelegationStarted:
		out.Body = r.delegationStarted(b.DelegationStarted)
	case *pb.Event_DelegationFinished:
		out.Body = r.delegationFinished(b.DelegationFinished)
	case *pb.Event_CoverageNudge:
		out.Body = r.coverageNudge(b.CoverageNudge)
	case *pb.Event_ContextCompacted:
		out.Body = r.contextCompacted(b.ContextCompacted)
	default:
		return conversation.Event{}, fmt.Errorf("%w: the event says nothing", ErrCorrupt)
	}
	if r.err != nil {
		return conversation.Event{}, fmt.Errorf("%s: %w", out.Body.Kind(), r.err)
	}
	return out, nil
}
