package rest

import (
	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// postTicket makes a ticket for a socket or a stream.
func postTicket(s *service.Services, c *fiber.Ctx) error {
	if b, err := door.Body(c); err != nil || len(b) > 0 && protocol.ReadObject(b, func(protocol.Member) error { return nil }) != nil {
		return door.AsError(conversation.Errorf(conversation.BadRequest, "the body must be an object, or empty"))
	}
	maker, ok := s.Auth.(service.TicketMaker)
	if !ok {
		return conversation.Errorf(conversation.NotFound, "there are no tickets here")
	}
	ticket, expires, err := maker.Ticket(c.UserContext(), door.Principal(c))
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusCreated, func(o *protocol.Object) {
		o.Text("ticket", ticket)
		o.OptionalTime("expires_at", expires)
	})
}
