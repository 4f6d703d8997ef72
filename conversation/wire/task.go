package wire

import (
	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// Tasks and their steps.

func putTaskStatusChanged(e conversation.TaskStatusChanged) *pb.TaskStatusChanged {
	return &pb.TaskStatusChanged{
		Trigger:  string(e.Trigger),
		Old:      uint32(e.Old),
		New:      uint32(e.New),
		Messages: putStrings(e.Messages),
		Reason:   e.Reason,
		Error:    putFailure(e.Error),
	}
}

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

func putTaskCancelling(e conversation.TaskCancelling) *pb.TaskCancelling {
	return &pb.TaskCancelling{
		By:     uint32(e.By),
		Until:  putTime(e.Until),
		Reason: e.Reason,
		Error:  putFailure(e.Error),
		Drop:   e.Drop,
	}
}

func (r *reader) taskCancelling(p *pb.TaskCancelling) conversation.TaskCancelling {
	return conversation.TaskCancelling{
		By:     enum(r, p.By, conversation.ByParent),
		Until:  readTime(p.Until),
		Reason: p.Reason,
		Error:  readFailure(p.Error),
		Drop:   p.Drop,
	}
}

func putStepStarted(e conversation.StepStarted) *pb.StepStarted {
	out := &pb.StepStarted{
		Step:      uint32(e.Step),
		Attempt:   int64(e.Attempt),
		Agent:     string(e.Agent),
		Read:      putStrings(e.Read),
		Cause:     uint32(e.Cause),
		Error:     putFailure(e.Error),
		NotBefore: putTime(e.NotBefore),
		WrapUp:    e.WrapUp,
	}
	if e.Usage != nil {
		out.Usage = putUsage(*e.Usage)
	}
	return out
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

func putStepFinished(e conversation.StepFinished) *pb.StepFinished {
	out := &pb.StepFinished{
		Step:       uint32(e.Step),
		Attempt:    int64(e.Attempt),
		Outcome:    uint32(e.Outcome),
		Model:      e.Model,
		Took:       e.Took.Milliseconds(),
		Error:      putFailure(e.Error),
		ResponseId: e.ResponseID,
		Items:      putItems(e.Items),
		Results:    putResults(e.Results),
	}
	if e.Usage != (conversation.Usage{}) {
		out.Usage = putUsage(e.Usage)
	}
	if len(e.Decisions) > 0 {
		out.Decisions = make([]uint32, len(e.Decisions))
		for i, d := range e.Decisions {
			out.Decisions[i] = uint32(d)
		}
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

func putCoverageNudge(e conversation.CoverageNudge) *pb.CoverageNudge {
	return &pb.CoverageNudge{Messages: putStrings(e.Messages), Nudge: int64(e.Nudge)}
}

func (*reader) coverageNudge(p *pb.CoverageNudge) conversation.CoverageNudge {
	return conversation.CoverageNudge{
		Messages: readStrings[conversation.MessageID](p.Messages),
		Nudge:    int(p.Nudge),
	}
}

func putContextCompacted(e conversation.ContextCompacted) *pb.ContextCompacted {
	return &pb.ContextCompacted{
		Upto:         uint64(e.Upto),
		TokensBefore: int64(e.TokensBefore),
		TokensAfter:  int64(e.TokensAfter),
		Summary:      e.Summary,
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
