package wire

import (
	"fmt"

	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

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
