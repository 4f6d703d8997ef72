package wire

import (
	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// What a session says: parts and questions.

func (*reader) partialResponse(p *pb.PartialResponse) conversation.PartialResponse {
	return conversation.PartialResponse{Part: readPart(p.Part)}
}

func (r *reader) response(p *pb.Response) conversation.Response {
	return conversation.Response{
		Part:         readPart(p.Part),
		ResponseKind: enum(r, p.Kind, conversation.ResponseEmpty),
		Promoted:     p.Promoted,
	}
}

func (*reader) asked(p *pb.Asked) conversation.Asked {
	return conversation.Asked{
		Question:   conversation.QuestionID(p.Question),
		Text:       p.Text,
		Blocking:   p.Blocking,
		Choices:    readStrings[string](p.Choices),
		ExpiresAt:  readTime(p.ExpiresAt),
		Default:    text(p.Default),
		Delegation: conversation.CallID(p.Delegation),
		Approval:   readApproval(p.Approval),
		ModelCall:  p.ModelCall,
	}
}

func (*reader) questionAnswered(p *pb.QuestionAnswered) conversation.QuestionAnswered {
	return conversation.QuestionAnswered{
		Question: conversation.QuestionID(p.Question),
		Message:  conversation.MessageID(p.Message),
		Text:     p.Text,
		By:       p.By,
	}
}

func (r *reader) questionClosed(p *pb.QuestionClosed) conversation.QuestionClosed {
	return conversation.QuestionClosed{
		Question: conversation.QuestionID(p.Question),
		Reason:   enum(r, p.Reason, conversation.QuestionCancelled),
	}
}
