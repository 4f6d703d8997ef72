package rest

import (
	"context"

	"parley/conversation"
	"parley/conversation/search"
	"parley/gateway/door"
	"parley/gateway/find"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// searched is what a request for the list of sessions searches for; messages: in them.
func searched(s *API, c *fiber.Ctx) (q search.Query, messages bool, err error) {
	in := c.Query("in")
	if in != "" && in != "titles" && in != "messages" {
		return q, false, conversation.Errorf(conversation.BadRequest, "in must be titles or messages")
	}
	if !c.Context().QueryArgs().Has("q") {
		if in == "messages" { // its items are not rows of the list
			return q, false, conversation.Errorf(conversation.BadRequest, "q has to say what to search for with in=messages")
		}
		return q, false, nil
	}
	q, err = s.Find.Read(c.Query("q"))
	return q, in == "messages", err
}

func findMessages(ctx context.Context, s *API, c *fiber.Ctx, a find.Ask) error {
	cursors := s.Cursors.For(door.Principal(c), "messages")
	var err error
	if a.Cursor, err = cursors.Show(a.Cursor); err != nil {
		return err
	}
	found, next, err := s.Find.Messages(ctx, a)
	if err != nil {
		return err
	}
	page := newList(s.Services, a.Limit)
	for i, f := range found {
		if !page.add(func(b []byte) []byte { return protocol.AppendFound(b, f.Session, f.Said, f.Snippet, f.Marks) }) {
			next = found[i-1].Cursor(a)
			break
		}
	}
	return page.send(c, cursors.Hide(next))
}
