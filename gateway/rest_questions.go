package gateway

import (
	"parley/conversation"

	"github.com/gofiber/fiber/v2"
)

func (s *Server) listQuestions(c *fiber.Ctx) error {
	key, err := sessionOf(c)
	if err != nil {
		return err
	}
	who := principal(c)
	ctx, cancel := s.deadline()
	defer cancel()
	v, err := s.view(ctx, key, who.User)
	if err != nil {
		return err
	}
	var b []byte
	for i, q := range v.Questions {
		if i > 0 {
			b = append(b, ',')
		}
		o := open(b)
		appendOpenQuestion(&o, q, who.redact())
		b = o.close()
	}
	return items(c, b, "")
}

func (s *Server) postAnswer(c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	question, err := param(c, "question")
	if err != nil {
		return err
	}
	b, err := body(c)
	if err != nil {
		return err
	}
	d, bad := readAnswer(b, s.cfg.Limits)
	if bad != nil {
		return bad
	}
	id, err := clientMsgID(c, d.clientID, "answer:"+question)
	if err != nil {
		return err
	}
	ctx, cancel := s.deadline()
	defer cancel()
	who := principal(c)
	r, err := s.tell(ctx, key, who.User, conversation.Answer{
		Author: who.User, Via: conversation.ViaHTTP, ClientMsgID: id,
		Question: conversation.QuestionID(question), Text: *d.text,
	})
	if err == nil && r.Duplicate {
		err = s.completeReply(ctx, key, &r)
	}
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, func(o *object) { appendAnswerReceipt(o, r) })
}

// readCall is a call whole: a frame shows at most 4 KiB of its arguments and result.
func (s *Server) readCall(c *fiber.Ctx) error {
	key, err := sessionOf(c)
	if err != nil {
		return err
	}
	id, err := param(c, "call")
	if err != nil {
		return err
	}
	ctx, cancel := s.deadline()
	defer cancel()
	who := principal(c)
	if _, err := s.visible(ctx, who, key); err != nil {
		return err
	}
	found, err := s.findCall(ctx, key, conversation.CallID(id))
	if err != nil {
		return err
	}
	if found.started == nil {
		return conversation.Errorf(conversation.NotFound, "there is no such call in the session")
	}
	return reply(c, fiber.StatusOK, func(o *object) { found.append(o, who.redact()) })
}
