package wire

import (
	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// Tool calls and delegations.

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

func (r *reader) toolFinished(p *pb.ToolFinished) conversation.ToolFinished {
	return conversation.ToolFinished{
		Call:    conversation.CallID(p.Call),
		Status:  r.callStatus(p.Status),
		Summary: p.Summary,
		Took:    r.duration(p.Took),
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

func (r *reader) delegationFinished(p *pb.DelegationFinished) conversation.DelegationFinished {
	return conversation.DelegationFinished{
		Delegation: conversation.CallID(p.Delegation),
		Status:     r.callStatus(p.Status),
		Summary:    p.Summary,
		Took:       r.duration(p.Took),
	}
}
