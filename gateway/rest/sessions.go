package rest

import (
	"context"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/listing"
	"parley/gateway/door"
	"parley/gateway/find"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

func (s *API) createSession(c *fiber.Ctx) error {
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	d, bad := protocol.ReadCreate(b)
	if bad != nil {
		return bad
	}
	if d.ClientID == "" {
		key, err := door.IdempotencyKey(c, "")
		if err != nil {
			return err
		}
		d.ClientID = string(key)
	}
	who := door.Principal(c)
	key, created, err := s.Open(who, d)
	if err != nil {
		err = s.Lift(c.UserContext(), who, door.CredentialOf(s.Services, c).Address, key.Session, d.Create.Policy, err)
		if err == nil {
			d.Create.Admin = true
			key, created, err = s.Open(who, d)
		}
	}
	if err != nil {
		return err
	}
	status := fiber.StatusOK
	if created {
		status = fiber.StatusCreated
	}
	c.Set(fiber.HeaderLocation, "/api/sessions/"+string(key.Session))
	return reply(c, status, func(o *protocol.Object) { o.Text("session", string(key.Session)) })
}

func (s *API) listSessions(c *fiber.Ctx) error {
	limit, cursor, err := paging(c)
	if err != nil {
		return err
	}
	query, messages, err := searched(s, c)
	if err != nil {
		return err
	}
	shows, err := protocol.ReadArchived(c.Query("archived"))
	if err != nil {
		return err
	}
	who := door.Principal(c)
	ctx, cancel := s.Deadline()
	defer cancel()
	if messages {
		return findMessages(ctx, s, c, find.Ask{Tenant: who.Tenant, User: who.User, Query: query, Cursor: cursor, Limit: limit})
	}
	cursors := s.Cursors.For(who, "sessions")
	if cursor, err = cursors.Show(cursor); err != nil {
		return err
	}
	var last conversation.Summary
	page, next := newList(s.Services, limit), ""
	looked := 0
	for row, err := range s.Sessions.Sessions(ctx, conversation.Page{Tenant: who.Tenant, For: who.User, Cursor: cursor}) {
		if err != nil {
			return err
		}
		if looked++; looked > maxLooked {
			next = last.PageCursor()
			break
		}
		if row.Role(who.User) == access.None || !shows(row.Marks) || !query.Fits(row.Title) {
			last = row
			continue
		}
		if !page.add(func(b []byte) []byte { return protocol.AppendSummary(b, row) }) {
			next = last.PageCursor()
			break
		}
		last = row
	}
	return page.send(c, cursors.Hide(next))
}

func (s *API) readSession(c *fiber.Ctx) error {
	key, err := sessionOf(c)
	if err != nil {
		return err
	}
	return s.showSession(c, key)
}

func (s *API) showSession(c *fiber.Ctx, key conversation.SessionKey) error {
	who := door.Principal(c)
	ctx, cancel := s.Deadline()
	defer cancel()
	as, err := s.ReadsAs(ctx, who, key)
	if err != nil {
		return err
	}
	v, err := s.View(ctx, key, as)
	if err != nil {
		return err
	}
	row, err := s.Row(ctx, who, key)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) {
		o.Text("session", string(key.Session))
		o.Text("log", string(v.Log))
		o.Uint("head", uint64(v.Head))
		o.Bool("closed", v.Closed)
		o.Time("created_at", v.CreatedAt)
		protocol.AppendMarks(o, row)
		protocol.AppendState(o, v, who.Redact())
	})
}

func (s *API) patchSession(c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	update := conversation.Update{By: door.Principal(c).User}
	var level *string
	var closed *bool
	var agent, reason string
	var marking listing.Marking
	err = door.ReadBody(c, func(m protocol.Member) error {
		switch string(m.Name) {
		case "pinned":
			return m.Mark(listing.Pinned, &marking)
		case "archived":
			return m.Mark(listing.Archived, &marking)
		case "title":
			return m.LinePointer(&update.Title)
		case "agent":
			return m.ID(&agent)
		case "access":
			return m.TextPointer(&level)
		case "policy":
			return m.Overrides(&update.Policy)
		case "closed":
			return m.BoolPointer(&closed)
		case "reason":
			return m.Text(&reason)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if level != nil {
		if *level == "" {
			return conversation.Errorf(conversation.BadRequest, "access must be private or tenant")
		}
		word, bad := protocol.ReadAccess(*level)
		if bad != nil {
			return bad
		}
		update.Access = &word
	}
	if closed != nil && !*closed {
		return conversation.Errorf(conversation.BadRequest, "a session cannot be opened again: closed must be true or absent")
	}
	update.Agent = conversation.AgentName(agent)
	changes := update.Title != nil || agent != "" || update.Access != nil || len(update.Policy) > 0
	marks := marking != listing.Marking{}
	if !changes && closed == nil && !marks {
		return conversation.Errorf(conversation.BadRequest, "the body names nothing to change: title, agent, access, policy, closed, pinned or archived")
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c)
	if changes {
		_, err := s.Tell(ctx, key, who.User, update)
		if err != nil {
			if err = s.Lift(ctx, who, door.CredentialOf(s.Services, c).Address, key.Session, update.Policy, err); err == nil {
				update.Admin = true
				_, err = s.Tell(ctx, key, who.User, update)
			}
		}
		if err != nil {
			return err
		}
	}
	if closed != nil {
		if _, err := s.Tell(ctx, key, who.User, conversation.Close{Reason: reason}); err != nil {
			return err
		}
	}
	if marks {
		if _, err := s.Tell(ctx, key, who.User, conversation.Mark{User: who.User, Marking: marking}); err != nil {
			return err
		}
	}
	return s.showSession(c, key)
}

func (s *API) deleteSession(c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	as, err := erasesAs(ctx, s, c, key)
	if err != nil {
		return err
	}
	if err := s.Sessions.Erase(ctx, key, as); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}

// erasesAs is the user as whom the engine lets a request erase a session. An administrator
// erases anybody's in the tenant, as "": that is written down before it is done.
func erasesAs(ctx context.Context, s *API, c *fiber.Ctx, key conversation.SessionKey) (conversation.UserID, error) {
	who := door.Principal(c)
	if !who.May(service.ScopeAdmin) {
		return who.User, nil
	}
	row, err := s.Sessions.Summary(ctx, key)
	if err != nil || row.Role(who.User).May(access.Own) {
		return who.User, err
	}
	return "", s.Audited(ctx, who, door.CredentialOf(s.Services, c).Address, service.ActErase, string(key.Session), "of "+string(row.Owner))
}

func (s *API) cancelSession(c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	cancelled, bad := protocol.ReadCancel(b)
	if bad != nil {
		return bad
	}
	if cancelled.ClientMsgID, err = door.IdempotencyKey(c, "cancel"); err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	r, err := s.cancel(ctx, key, door.Principal(c).User, cancelled)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusAccepted, func(o *protocol.Object) {
		protocol.AppendCancelReceipt(o, r)
	})
}

// clearSession needs no client's id: a clear right after a clear is that one.
func clearSession(s *API, c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	if err := door.ReadBody(c, func(protocol.Member) error { return nil }); err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c).User
	r, err := s.Tell(ctx, key, who, conversation.Clear{By: who})
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { o.Uint("seq", uint64(r.Seq)) })
}

// cancel ends a task and completes the receipt of a repetition, which is that of
// the first time: what runs by now is not what the client wanted to end.
func (s *API) cancel(ctx context.Context, key conversation.SessionKey, as conversation.UserID, c conversation.Cancel) (conversation.Receipt, error) {
	c.Author = as
	r, err := s.Tell(ctx, key, as, c)
	if err == nil && r.Duplicate {
		r.OldStatus, err = s.StatusBefore(ctx, key, r.Task, r.Seq)
	}
	return r, err
}
