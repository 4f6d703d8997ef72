package rest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"parley/conversation"
	"parley/conversation/readmodel"
	"parley/gateway/door"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

func (s *API) postMessage(c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	d, bad := protocol.ReadSend(b, s.Limits)
	if bad != nil {
		return bad
	}
	id, err := door.ClientMsgID(c, d.ClientID, "")
	if err != nil {
		return err
	}
	wait, err := s.waitOf(c)
	if err != nil {
		return err
	}
	who := door.Principal(c)
	say := conversation.Say{
		Author: who.User, AuthorName: who.Name, Via: conversation.ViaHTTP, ClientMsgID: id, Text: *d.Text,
		InReplyTo: conversation.MessageID(d.InReplyTo), Mode: d.Mode, TraceParent: service.TraceParent(c.Get(service.TraceHeader)),
	}
	if say.Files, err = s.Attached(key, d.Files); err != nil {
		return err
	}
	if wait > 0 {
		return s.sayAndWait(c, key, say, wait)
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	r, err := s.Say(ctx, key, say)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusAccepted, func(o *protocol.Object) { protocol.AppendReceipt(o, r) })
}

// waitOf reads ?wait=30s; longer than Times.WaitMax is that.
func (s *API) waitOf(c *fiber.Ctx) (time.Duration, error) {
	q := c.Query("wait")
	if q == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(q)
	if err != nil || wait < 0 {
		return 0, conversation.Errorf(conversation.BadRequest, `wait must be a duration such as "30s"`)
	}
	return min(wait, s.Times.WaitMax), nil
}

// sayAndWait answers when there is something to tell of the message: it is resolved, or,
// where it was merged, its task has gone on; or the task awaits a reply. Or in time with
// what is known of it. It follows the session from the message on, so
// nothing can be missed.
func (s *API) sayAndWait(c *fiber.Ctx, key conversation.SessionKey, say conversation.Say, wait time.Duration) error {
	ctx, cancel := s.Deadline()
	defer cancel()
	r, err := s.Say(ctx, key, say)
	if err != nil {
		return err
	}
	waiting, refusedBy := s.Wait(c, door.Principal(c), key, wait)
	if refusedBy != "" { // accepted all the same: as without ?wait
		return reply(c, fiber.StatusAccepted, func(o *protocol.Object) { protocol.AppendReceipt(o, r) })
	}
	defer waiting.End()
	o, err := s.await(waiting.Context, key, say.Author, r)
	switch {
	case err == nil && !waiting.Over():
		return reply(c, fiber.StatusOK, func(out *protocol.Object) { protocol.AppendOutcome(out, o, door.Principal(c).Redact()) })
	case waiting.Over(), notNow(err): // nothing has failed: it is accepted, as without ?wait
		return reply(c, fiber.StatusAccepted, func(o *protocol.Object) { protocol.AppendReceipt(o, r) })
	default:
		return err
	}
}

// notNow is true for an engine that refuses to show the session at this moment.
func notNow(err error) bool {
	var refusal *conversation.Error
	return errors.As(err, &refusal) && (refusal.Code == conversation.Overloaded || refusal.Code == conversation.Unavailable)
}

// await follows a session after the event of a message until there is something to tell of it.
func (s *API) await(ctx context.Context, key conversation.SessionKey, as conversation.UserID, r conversation.Receipt) (*readmodel.Outcome, error) {
	sub, v, err := s.Hub.Subscribe(ctx, s.Sessions, s.Limits, fanout.Options{Key: key, As: as, Since: r.Seq, Values: true})
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	o := readmodel.NewOutcome(r.Message, r.Task, v.Questions...)
	for synced := false; ; {
		d, err := sub.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case d.Gone:
			return nil, service.ErrNoSession
		}
		for i := range d.Events {
			o.Add(&d.Events[i])
		}
		synced = synced || d.Synced                                     // before that it may be what was, not what is
		merged := o.How == conversation.ResolvedMerged && o.Status == 0 // its task may await another reply
		if !synced || !merged && !o.Rests() {
			continue
		}
		if o.Task != "" {
			row, err := s.Sessions.Task(ctx, key, o.Task)
			if err != nil {
				return nil, err
			}
			if merged && row.Last > o.Seq {
				continue // its events come
			}
			o.Status = row.Status
		}
		if o.Rests() {
			return o, nil
		}
	}
}

func (s *API) listMessages(c *fiber.Ctx) error {
	key, err := sessionOf(c)
	if err != nil {
		return err
	}
	limit, cursor, err := paging(c)
	if err != nil {
		return err
	}
	after, _, err := sequence(cursor, "cursor")
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	if _, err := s.Visible(ctx, door.Principal(c), key); err != nil {
		return err
	}
	h, err := s.history(ctx, key, after, limit)
	if err != nil {
		return err
	}
	page, more, last := newList(s.Services, 0), h.More, after
	for _, e := range h.Page {
		if !page.add(func(b []byte) []byte { return protocol.AppendHistoryEntry(b, e) }) {
			more = true
			break
		}
		last = e.Seq
	}
	next := ""
	if more {
		next = strconv.FormatUint(uint64(last), 10)
	}
	return page.send(c, next)
}

// messageOf is the message of a session that a request wants to change.
func messageOf(c *fiber.Ctx) (conversation.SessionKey, conversation.MessageID, error) {
	key, err := writableSession(c)
	if err != nil {
		return key, "", err
	}
	id, err := door.Param(c, "message")
	return key, conversation.MessageID(id), err
}

func (s *API) editMessage(c *fiber.Ctx) error {
	key, id, err := messageOf(c)
	if err != nil {
		return err
	}
	var text *string
	err = door.ReadBody(c, func(m protocol.Member) error {
		if string(m.Name) == "text" {
			return m.TextPointer(&text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if bad := protocol.CheckText("text", text, s.Limits); bad != nil {
		return bad
	}
	return s.change(c, key, conversation.Edit{By: door.Principal(c).User, Message: id, Text: *text})
}

func (s *API) withdrawMessage(c *fiber.Ctx) error {
	key, id, err := messageOf(c)
	if err != nil {
		return err
	}
	return s.change(c, key, conversation.Withdraw{By: door.Principal(c).User, Message: id})
}

// change gives the session a command whose answer is {seq}.
func (s *API) change(c *fiber.Ctx, key conversation.SessionKey, cmd conversation.Command) error {
	ctx, cancel := s.Deadline()
	defer cancel()
	r, err := s.Tell(ctx, key, door.Principal(c).User, cmd)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { o.Uint("seq", uint64(r.Seq)) })
}
