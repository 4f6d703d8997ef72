package wire

import (
	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// What a session says: parts and questions.

func putPartialResponse(e conversation.PartialResponse) *pb.PartialResponse {
	return &pb.PartialResponse{Part: putPart(e.Part)}
}

func (*reader) partialResponse(p *pb.PartialResponse) conversation.PartialResponse {
	return conversation.PartialResponse{Part: readPart(p.Part)}
}

func putResponse(e conversation.Response) *pb.Response {
	return &pb.Response{Part: putPart(e.Part), Kind: uint32(e.ResponseKind), Promoted: e.Promoted}
}

func (r *reader) response(p *pb.Response) conversation.Response {
	return conversation.Response{
		Part:         readPart(p.Part),
		ResponseKind: enum(r, p.Kind, conversation.ResponseEmpty),
		Promoted:     p.Promoted,
	}
}

func putAsked(e conversation.Asked) *pb.Asked {
	return &pb.Asked{
		Question:   string(e.Question),
		Text:       e.Text,
		Blocking:   e.Blocking,
		Choices:    putStrings(e.Choices),
		ExpiresAt:  putTime(e.ExpiresAt),
		Default:    text(e.Default),
		Delegation: string(e.Delegation),
		Approval:   putApproval(e.Approval),
		ModelCall:  e.ModelCall,
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

func putQuestionAnswered(e conversation.QuestionAnswered) *pb.QuestionAnswered {
	return &pb.QuestionAnswered{
		Question: string(e.Question),
		Message:  string(e.Message),
		Text:     e.Text,
		By:       e.By,
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

func putQuestionClosed(e conversation.QuestionClosed) *pb.QuestionClosed {
	return &pb.QuestionClosed{Question: string(e.Question), Reason: uint32(e.Reason)}
}

func (r *reader) questionClosed(p *pb.QuestionClosed) conversation.QuestionClosed {
	return conversation.QuestionClosed{
		Question: conversation.QuestionID(p.Question),
		Reason:   enum(r, p.Reason, conversation.QuestionCancelled),
	}
}
