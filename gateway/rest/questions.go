package rest

import (
	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

func (s *API) listQuestions(c *fiber.Ctx) error {
	key, err := sessionOf(c)
	if err != nil {
		return err
	}
	who := door.Principal(c)
	ctx, cancel := s.Deadline()
	defer cancel()
	v, err := s.View(ctx, key, who.User)
	if err != nil {
		return err
	}
	page := list{body: []byte(`{"items":[`)} // all of them: there is no second page
	for _, q := range v.Questions {
		page.add(func(b []byte) []byte {
			o := protocol.NewObject(b)
			protocol.AppendOpenQuestion(&o, q, who.Redact())
			return o.Close()
		})
	}
	return page.send(c, "")
}

func (s *API) postAnswer(c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	question, err := door.Param(c, "question")
	if err != nil {
		return err
	}
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	d, bad := protocol.ReadAnswer(b, s.Limits)
	if bad != nil {
		return bad
	}
	id, err := door.ClientMsgID(c, d.ClientID, "answer:"+question)
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c)
	r, err := s.Tell(ctx, key, who.User, conversation.Answer{
		Author: who.User, AuthorName: who.Name, Via: conversation.ViaHTTP, ClientMsgID: id,
		Question: conversation.QuestionID(question), Text: *d.Text,
	})
	if err == nil && r.Duplicate {
		err = s.CompleteReply(ctx, key, &r)
	}
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { protocol.AppendAnswerReceipt(o, r) })
}

// readCall is a call whole: a frame shows at most 4 KiB of its arguments and result.
func (s *API) readCall(c *fiber.Ctx) error {
	key, err := sessionOf(c)
	if err != nil {
		return err
	}
	id, err := door.Param(c, "call")
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c)
	if _, err := s.Visible(ctx, who, key); err != nil {
		return err
	}
	found, err := s.findCall(ctx, key, conversation.CallID(id))
	if err != nil {
		return err
	}
	if found.Started == nil {
		return conversation.Errorf(conversation.NotFound, "there is no such call in the session")
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { protocol.AppendCall(o, found, who.Redact()) })
}
