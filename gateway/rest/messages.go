package rest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"parley/conversation"
	"parley/conversation/readmodel"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/rest/internal/gone"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// say gives a session a message and completes the receipt of a repetition.
func (s *API) say(ctx context.Context, key conversation.SessionKey, say conversation.Say) (conversation.Receipt, error) {
	r, err := s.tell(ctx, key, say.Author, say)
	if err == nil && r.Disposition == 0 {
		err = s.Complete(ctx, key, &r)
	}
	return r, err
}

func (s *API) postMessage(c *fiber.Ctx) error {
	key, err := writableSession(c)
	if err != nil {
		return err
	}
	b, err := body(c)
	if err != nil {
		return err
	}
	d, bad := protocol.ReadSend(b, s.Limits)
	if bad != nil {
		return bad
	}
	id, err := clientMsgID(c, d.ClientID, "")
	if err != nil {
		return err
	}
	wait, err := s.waitOf(c)
	if err != nil {
		return err
	}
	who := principal(c)
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
	ctx, cancel := s.deadline()
	defer cancel()
	r, err := s.say(ctx, key, say)
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

// sayAndWait answers when the message is resolved or its task awaits a reply, or
// in time with what is known of it. It follows the session from the message on, so
// nothing can be missed.
func (s *API) sayAndWait(c *fiber.Ctx, key conversation.SessionKey, say conversation.Say, wait time.Duration) error {
	ctx, cancel := s.deadline()
	defer cancel()
	r, err := s.say(ctx, key, say)
	if err != nil {
		return err
	}
	free, refusedBy := s.open.Take(
		service.Most{Slot: service.Slot{Name: "waits_per_session", Of: key}, Most: s.Limits.WaitsPerSession},
		service.Most{Slot: service.Slot{Name: "waits_per_address", Of: service.AddressGroup(addressOf(s.Services, c))}, Most: s.Limits.WaitsPerAddress},
	)
	if refusedBy != "" { // accepted all the same: as without ?wait
		s.Metrics.Refused.WithLabelValues(refusedBy).Inc()
		return reply(c, fiber.StatusAccepted, func(o *protocol.Object) { protocol.AppendReceipt(o, r) })
	}
	defer free()
	ctx, cancelWait := context.WithTimeout(s.Serving, wait)
	defer cancelWait()
	lease := s.Lease(principal(c), func(*conversation.Error) { cancelWait() })
	defer lease.Release()
	defer gone.Watch(c.Context().Conn(), cancelWait)()
	if lease.Over() != nil {
		cancelWait()
	}
	o := readmodel.NewOutcome(r.Message, r.Task)
	err = s.await(ctx, key, say.Author, r.Seq, o)
	switch {
	case err == nil && lease.Over() == nil:
		return reply(c, fiber.StatusOK, func(out *protocol.Object) { protocol.AppendOutcome(out, o, principal(c).Redact()) })
	case ctx.Err() != nil, lease.Over() != nil, notNow(err): // nothing has failed: it is accepted, as without ?wait
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

// await follows a session after the event since until there is something to tell.
func (s *API) await(ctx context.Context, key conversation.SessionKey, as conversation.UserID, since conversation.Seq, o *readmodel.Outcome) error {
	sub, _, err := s.Hub.Subscribe(ctx, s.Sessions, s.Limits, fanout.Options{Key: key, As: as, Since: since, Values: true})
	if err != nil {
		return err
	}
	defer sub.Close()
	for synced := false; ; {
		d, err := sub.Next(ctx)
		switch {
		case err != nil:
			return err
		case d.Gone:
			return service.ErrNoSession
		}
		for i := range d.Events {
			o.Add(&d.Events[i])
		}
		synced = synced || d.Synced // before that it may be what was, not what is
		if !synced || (o.How == 0 && o.Status != conversation.TaskAwaiting) {
			continue
		}
		if o.Task != "" {
			row, err := s.Sessions.Task(ctx, key, o.Task)
			if err != nil {
				return err
			}
			o.Status = row.Status
		}
		if o.How != 0 || o.Status == conversation.TaskAwaiting {
			return nil
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
	ctx, cancel := s.deadline()
	defer cancel()
	if _, err := s.Visible(ctx, principal(c), key); err != nil {
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
	id, err := param(c, "message")
	return key, conversation.MessageID(id), err
}

func (s *API) editMessage(c *fiber.Ctx) error {
	key, id, err := messageOf(c)
	if err != nil {
		return err
	}
	var text *string
	err = readBody(c, func(m protocol.Member) error {
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
	return s.change(c, key, conversation.Edit{By: principal(c).User, Message: id, Text: *text})
}

func (s *API) withdrawMessage(c *fiber.Ctx) error {
	key, id, err := messageOf(c)
	if err != nil {
		return err
	}
	return s.change(c, key, conversation.Withdraw{By: principal(c).User, Message: id})
}

// change gives the session a command whose answer is {seq}.
func (s *API) change(c *fiber.Ctx, key conversation.SessionKey, cmd conversation.Command) error {
	ctx, cancel := s.deadline()
	defer cancel()
	r, err := s.tell(ctx, key, principal(c).User, cmd)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { o.Uint("seq", uint64(r.Seq)) })
}
