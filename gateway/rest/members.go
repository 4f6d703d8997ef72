package rest

import (
	"slices"

	"parley/conversation"
	"parley/conversation/access"
	"parley/gateway/door"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// members are the routes that say who is what in a session, and change it.
func members(s *API, read, write fiber.Handler) {
	s.route(fiber.MethodGet, "/api/sessions/:id/members", read, func(c *fiber.Ctx) error { return listMembers(s, c) })
	s.route(fiber.MethodPut, "/api/sessions/:id/members/:user", write, func(c *fiber.Ctx) error { return putMember(s, c) })
	s.route(fiber.MethodDelete, "/api/sessions/:id/members/:user", write, func(c *fiber.Ctx) error { return setMember(s, c, access.None) })
}

// listMembers lists the owner and then the members. Below a root they are the root's: its
// rights hold there.
func listMembers(s *API, c *fiber.Ctx) error {
	key, err := sessionOf(c)
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c)
	if _, err := s.Visible(ctx, who, key); err != nil {
		return err
	}
	key.Session = key.Session.Root()
	as, err := s.ReadsAs(ctx, who, key)
	if err != nil {
		return err
	}
	v, err := s.View(ctx, key, as)
	if err != nil {
		return err
	}
	users := make([]conversation.UserID, 0, len(v.Members))
	for user := range v.Members {
		users = append(users, user)
	}
	slices.Sort(users)
	page := list{body: []byte(`{"items":[`)} // all of them: there is no second page
	add := func(user conversation.UserID, role access.Role) {
		page.add(func(b []byte) []byte {
			o := protocol.NewObject(b)
			o.Text("user", string(user))
			o.Text("role", role.String())
			return o.Close()
		})
	}
	add(v.Owner, access.Owner)
	for _, user := range users {
		add(user, v.Members[user])
	}
	return page.send(c, "")
}

func putMember(s *API, c *fiber.Ctx) error {
	var word *string
	err := door.ReadBody(c, func(m protocol.Member) error {
		if string(m.Name) == "role" {
			return m.TextPointer(&word)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case word == nil:
		return protocol.Missing("role")
	}
	role, ok := access.ParseRole(*word)
	if !ok {
		return conversation.Errorf(conversation.BadRequest, "role must be reader, approver, writer or owner")
	}
	return setMember(s, c, role)
}

// setMember gives a user a role, or none. It is idempotent by effect, so an Idempotency-Key
// would add nothing.
func setMember(s *API, c *fiber.Ctx, role access.Role) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	user, err := door.Param(c, "user")
	if err != nil {
		return err
	}
	return s.change(c, key, conversation.Update{
		By: door.Principal(c).User, Members: map[conversation.UserID]access.Role{conversation.UserID(user): role},
		Admin: door.Principal(c).May(service.ScopeAdmin),
	})
}
