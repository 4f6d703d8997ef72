package wire

import (
	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// Tool calls and delegations.

func putToolStarted(e conversation.ToolStarted) *pb.ToolStarted {
	return &pb.ToolStarted{
		Call:       string(e.Call),
		Tool:       e.Tool,
		Args:       e.Args,
		Deadline:   putTime(e.Deadline),
		Delegation: string(e.Delegation),
		ModelCall:  e.ModelCall,
		Idempotent: e.Idempotent,
	}
}

func (*reader) toolStarted(p *pb.ToolStarted) conversation.ToolStarted {
	return conversation.ToolStarted{
		Call:       conversation.CallID(p.Call),
		Tool:       p.Tool,
		Args:       p.Args,
		Deadline:   readTime(p.Deadline),
		Delegation: conversation.CallID(p.Delegation),
		ModelCall:  p.ModelCall,
		Idempotent: p.Idempotent,
	}
}

func putToolFinished(e conversation.ToolFinished) *pb.ToolFinished {
	return &pb.ToolFinished{
		Call:    string(e.Call),
		Status:  uint32(e.Status),
		Summary: e.Summary,
		Took:    e.Took.Milliseconds(),
	}
}

func (r *reader) toolFinished(p *pb.ToolFinished) conversation.ToolFinished {
	return conversation.ToolFinished{
		Call:    conversation.CallID(p.Call),
		Status:  r.callStatus(p.Status),
		Summary: p.Summary,
		Took:    r.duration(p.Took),
	}
}

func putDelegationStarted(e conversation.DelegationStarted) *pb.DelegationStarted {
	return &pb.DelegationStarted{
		Delegation: string(e.Delegation),
		Agent:      string(e.Agent),
		Objective:  e.Objective,
		Session:    string(e.Session),
		Deadline:   putTime(e.Deadline),
		ModelCall:  e.ModelCall,
	}
}

func (*reader) delegationStarted(p *pb.DelegationStarted) conversation.DelegationStarted {
	return conversation.DelegationStarted{
		Delegation: conversation.CallID(p.Delegation),
		Agent:      conversation.AgentName(p.Agent),
		Objective:  p.Objective,
		Session:    conversation.SessionID(p.Session),
		Deadline:   readTime(p.Deadline),
		ModelCall:  p.ModelCall,
	}
}

func putDelegationFinished(e conversation.DelegationFinished) *pb.DelegationFinished {
	return &pb.DelegationFinished{
		Delegation: string(e.Delegation),
		Status:     uint32(e.Status),
		Summary:    e.Summary,
		Took:       e.Took.Milliseconds(),
	}
}

func (r *reader) delegationFinished(p *pb.DelegationFinished) conversation.DelegationFinished {
	return conversation.DelegationFinished{
		Delegation: conversation.CallID(p.Delegation),
		Status:     r.callStatus(p.Status),
		Summary:    p.Summary,
		Took:       r.duration(p.Took),
	}
}
