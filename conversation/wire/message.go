package wire

import (
	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// The session and its messages.

func (r *reader) sessionCreated(p *pb.SessionCreated) conversation.SessionCreated {
	return conversation.SessionCreated{
		Title:  p.Title,
		Agent:  conversation.AgentName(p.Agent),
		Owner:  conversation.UserID(p.Owner),
		Access: r.access(p.Access),
		Policy: readOverrides(p.Policy),
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

func (*reader) sessionClosed(p *pb.SessionClosed) conversation.SessionClosed {
	return conversation.SessionClosed{Reason: p.Reason}
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

func (*reader) messageEdited(p *pb.MessageEdited) conversation.MessageEdited {
	return conversation.MessageEdited{Message: conversation.MessageID(p.Message), Text: p.Text}
}

func (*reader) messageWithdrawn(p *pb.MessageWithdrawn) conversation.MessageWithdrawn {
	return conversation.MessageWithdrawn{
		Message: conversation.MessageID(p.Message),
		Heir:    conversation.MessageID(p.Heir),
	}
}

func (*reader) messageMoved(p *pb.MessageMoved) conversation.MessageMoved {
	return conversation.MessageMoved{
		Message: conversation.MessageID(p.Message),
		Before:  conversation.MessageID(p.Before),
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
