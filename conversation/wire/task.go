package wire

import (
	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// Tasks and their steps.

func (r *reader) taskStatusChanged(p *pb.TaskStatusChanged) conversation.TaskStatusChanged {
	return conversation.TaskStatusChanged{
		Trigger:  conversation.MessageID(p.Trigger),
		Old:      r.taskStatus(p.Old),
		New:      r.taskStatus(p.New),
		Messages: readStrings[conversation.MessageID](p.Messages),
		Reason:   p.Reason,
		Error:    readFailure(p.Error),
	}
}

func (r *reader) taskCancelling(p *pb.TaskCancelling) conversation.TaskCancelling {
	return conversation.TaskCancelling{
		By:     enum(r, p.By, conversation.ByParent),
		Until:  readTime(p.Until),
		Reason: p.Reason,
		Error:  readFailure(p.Error),
		Drop:   p.Drop,

		Author:      conversation.UserID(p.Author),
		ClientMsgID: conversation.ClientMsgID(p.ClientMsgId),
	}
}

func (r *reader) stepStarted(p *pb.StepStarted) conversation.StepStarted {
	out := conversation.StepStarted{
		Step:      conversation.StepNumber(p.Step),
		Attempt:   int(p.Attempt),
		Agent:     conversation.AgentName(p.Agent),
		Read:      readStrings[conversation.MessageID](p.Read),
		Cause:     enum(r, p.Cause, conversation.CauseDrain),
		Error:     readFailure(p.Error),
		NotBefore: readTime(p.NotBefore),
		WrapUp:    p.WrapUp,
	}
	if p.Usage != nil {
		usage := readUsage(p.Usage)
		out.Usage = &usage
	}
	return out
}

func (r *reader) stepFinished(p *pb.StepFinished) conversation.StepFinished {
	out := conversation.StepFinished{
		Step:       conversation.StepNumber(p.Step),
		Attempt:    int(p.Attempt),
		Outcome:    enum(r, p.Outcome, conversation.StepCancelled),
		Model:      p.Model,
		Usage:      readUsage(p.Usage),
		Took:       r.duration(p.Took),
		Error:      readFailure(p.Error),
		ResponseID: p.ResponseId,
		Items:      r.items(p.Items),
		Results:    readResults(p.Results),
	}
	if len(p.Decisions) > 0 {
		out.Decisions = make([]conversation.Decision, len(p.Decisions))
		for i, d := range p.Decisions {
			out.Decisions[i] = enum(r, d, conversation.DecisionTool)
		}
	}
	return out
}

func (*reader) coverageNudge(p *pb.CoverageNudge) conversation.CoverageNudge {
	return conversation.CoverageNudge{
		Messages: readStrings[conversation.MessageID](p.Messages),
		Nudge:    int(p.Nudge),
	}
}

func (*reader) contextCompacted(p *pb.ContextCompacted) conversation.ContextCompacted {
	return conversation.ContextCompacted{
		Upto:         conversation.Seq(p.Upto),
		TokensBefore: int(p.TokensBefore),
		TokensAfter:  int(p.TokensAfter),
		Summary:      p.Summary,
	}
}
