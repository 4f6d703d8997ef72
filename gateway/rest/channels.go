package rest

import (
	"context"

	"parley/conversation"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// channels are the routes by which chat platforms bring what has happened there. They are signed
// by the platforms, and no user's credential counts.
func channels(s *API) {
	s.route(fiber.MethodPost, "/channels/:channel", func(c *fiber.Ctx) error {
		inlet := s.Inlets[c.Params("channel")]
		if inlet == nil {
			return s.Problem(c, conversation.Errorf(conversation.NotFound, "no channel of this name takes requests here"))
		}
		ctx, cancel := context.WithTimeout(s.Serving, s.Times.Request)
		defer cancel()
		a := inlet(ctx, service.InletRequest{
			ContentType: c.Get(fiber.HeaderContentType), Body: c.Body(), // both are used until the answer is there, not longer
			Header: func(name string) string { return c.Get(name) },
		})
		if a.ContentType != "" {
			c.Set(fiber.HeaderContentType, a.ContentType)
		}
		return c.Status(a.Status).Send(a.Body)
	})
}
