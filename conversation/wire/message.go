package wire

import (
	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// The session and its messages.

func putSessionCreated(e conversation.SessionCreated) *pb.SessionCreated {
	return &pb.SessionCreated{
		Title:  e.Title,
		Agent:  string(e.Agent),
		Owner:  string(e.Owner),
		Access: uint32(e.Access),
		Policy: putOverrides(e.Policy),
	}
}

func (r *reader) sessionCreated(p *pb.SessionCreated) conversation.SessionCreated {
	return conversation.SessionCreated{
		Title:  p.Title,
		Agent:  conversation.AgentName(p.Agent),
		Owner:  conversation.UserID(p.Owner),
		Access: r.access(p.Access),
		Policy: readOverrides(p.Policy),
	}
}

func putSessionUpdated(e conversation.SessionUpdated) *pb.SessionUpdated {
	return &pb.SessionUpdated{
		Title:  text(e.Title),
		Access: pointer[uint32](e.Access),
		Policy: putOverrides(e.Policy),
	}
}

func (r *reader) sessionUpdated(p *pb.SessionUpdated) conversation.SessionUpdated {
	r.access(p.GetAccess())
	return conversation.SessionUpdated{
		Title:  text(p.Title),
		Access: pointer[conversation.Access](p.Access),
		Policy: readOverrides(p.Policy),
	}
}

func putSessionClosed(e conversation.SessionClosed) *pb.SessionClosed {
	return &pb.SessionClosed{Reason: e.Reason}
}

func (*reader) sessionClosed(p *pb.SessionClosed) conversation.SessionClosed {
	return conversation.SessionClosed{Reason: p.Reason}
}

func putMessageAccepted(e conversation.MessageAccepted) *pb.MessageAccepted {
	return &pb.MessageAccepted{
		Message:     string(e.Message),
		ClientMsgId: string(e.ClientMsgID),
		Author:      string(e.Author),
		Text:        e.Text,
		Disposition: uint32(e.Disposition),
		Via:         uint32(e.Via),
		Mode:        uint32(e.Mode),
		InReplyTo:   string(e.InReplyTo),
		Question:    string(e.Question),
		NotBefore:   putTime(e.NotBefore),
		Steer:       e.Steer,
		First:       e.First,
		Kept:        e.Kept,
	}
}

func (r *reader) messageAccepted(p *pb.MessageAccepted) conversation.MessageAccepted {
	return conversation.MessageAccepted{
		Message:     conversation.MessageID(p.Message),
		ClientMsgID: conversation.ClientMsgID(p.ClientMsgId),
		Author:      conversation.UserID(p.Author),
		Text:        p.Text,
		Disposition: enum(r, p.Disposition, conversation.Answered),
		Via:         enum(r, p.Via, conversation.ViaDelegation),
		Mode:        enum(r, p.Mode, conversation.ModeReject),
		InReplyTo:   conversation.MessageID(p.InReplyTo),
		Question:    conversation.QuestionID(p.Question),
		NotBefore:   readTime(p.NotBefore),
		Steer:       p.Steer,
		First:       p.First,
		Kept:        p.Kept,
	}
}

func putMessageEdited(e conversation.MessageEdited) *pb.MessageEdited {
	return &pb.MessageEdited{Message: string(e.Message), Text: e.Text}
}

func (*reader) messageEdited(p *pb.MessageEdited) conversation.MessageEdited {
	return conversation.MessageEdited{Message: conversation.MessageID(p.Message), Text: p.Text}
}

func putMessageWithdrawn(e conversation.MessageWithdrawn) *pb.MessageWithdrawn {
	return &pb.MessageWithdrawn{Message: string(e.Message), Heir: string(e.Heir)}
}

func (*reader) messageWithdrawn(p *pb.MessageWithdrawn) conversation.MessageWithdrawn {
	return conversation.MessageWithdrawn{
		Message: conversation.MessageID(p.Message),
		Heir:    conversation.MessageID(p.Heir),
	}
}

func putMessageMoved(e conversation.MessageMoved) *pb.MessageMoved {
	return &pb.MessageMoved{Message: string(e.Message), Before: string(e.Before)}
}

func (*reader) messageMoved(p *pb.MessageMoved) conversation.MessageMoved {
	return conversation.MessageMoved{
		Message: conversation.MessageID(p.Message),
		Before:  conversation.MessageID(p.Before),
	}
}

func putMessageResolved(e conversation.MessageResolved) *pb.MessageResolved {
	return &pb.MessageResolved{
		Message:  string(e.Message),
		How:      uint32(e.How),
		Part:     pointer[uint32](e.Part),
		Question: string(e.Question),
	}
}

func (r *reader) messageResolved(p *pb.MessageResolved) conversation.MessageResolved {
	return conversation.MessageResolved{
		Message:  conversation.MessageID(p.Message),
		How:      enum(r, p.How, conversation.ResolvedUnanswered),
		Part:     pointer[conversation.PartIndex](p.Part),
		Question: conversation.QuestionID(p.Question),
	}
}
