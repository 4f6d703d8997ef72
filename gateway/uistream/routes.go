package uistream

import (
	"context"
	"errors"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// api is the way in.
type api struct{ *exchange.Exchange }

// Register adds the routes. /api/ui/chat is what a client's transport calls api; the others are
// those that the transport makes of it, and what else a page needs.
func Register(x *exchange.Exchange, r fiber.Router) {
	a := &api{x}
	a.route(r, fiber.MethodPost, "/api/ui/chat", a.chat)
	a.route(r, fiber.MethodGet, "/api/ui/chat/:id", a.read)
	a.route(r, fiber.MethodGet, "/api/ui/chat/:id/stream", a.resume)
	a.route(r, fiber.MethodPost, "/api/ui/chat/:id/stop", a.stop)
}

func (a *api) route(r fiber.Router, method, path string, handler fiber.Handler) {
	r.Add(method, path, a.Named(path), a.refusals, a.Authenticated(service.ScopeChat), handler)
}

// HeaderCode has the code of a refusal, for programs.
const HeaderCode = "X-Parley-Code"

// refusals answers with what was refused as a sentence: the SDK shows people the body.
func (a *api) refusals(c *fiber.Ctx) error {
	err := c.Next()
	if err == nil {
		return nil
	}
	e, status := a.Refused(err)
	door.SetRefusal(c, status, e.RetryAfter)
	c.Set(HeaderCode, string(e.Code))
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	return c.SendString(e.Message)
}

// chat is what a client sends: a message, or what a message of the assistant has asked for. It is
// answered with the message of the task that has it.
func (a *api) chat(c *fiber.Ctx) error {
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	r, bad := readRequest(b)
	if bad != nil {
		return bad
	}
	who := door.Principal(c)
	free, err := a.StreamSlot(c, who)
	if err != nil {
		return err
	}
	ctx, cancel := a.Deadline()
	defer cancel()
	act := a.say
	if r.last.Role == "assistant" {
		act = a.goOn
	}
	t, err := act(ctx, c, who, r)
	if err == nil {
		err = a.tell(ctx, c, who, t, free)
	}
	if err != nil {
		free()
	}
	return err
}

// resume tells the message that is being worked on again, from its beginning, as the SDK wants it;
// with ?message= that message, though it has ended. A client that keeps the ids of the events names
// the last one (Last-Event-ID), and is told the rest.
func (a *api) resume(c *fiber.Ctx) error {
	name, err := door.Param(c, "id")
	if err != nil {
		return err
	}
	who := door.Principal(c)
	ctx, cancel := a.Deadline()
	defer cancel()
	t := told{after: lastSeen(c)}
	if message := c.Query("message"); message != "" {
		if t.key, _, err = a.Find(ctx, who, name); err == nil {
			t.task, err = a.taskOf(t.key, message)
		}
	} else {
		t.key, t.task, err = a.active(ctx, who, name)
	}
	if err != nil {
		return err
	}
	if t.task == "" {
		return c.SendStatus(fiber.StatusNoContent)
	}
	row, err := a.TaskRow(ctx, who, t.key, t.task)
	if err != nil {
		return err
	}
	t.since = row.First - 1
	if t.after.Seq() < row.First || (row.Status.Ended() && t.after.Seq() > row.Last) {
		t.after = 0 // of another message: this one begins
	}
	t.goesOn = t.after > 0
	free, err := a.StreamSlot(c, who)
	if err != nil {
		return err
	}
	if err := a.tell(ctx, c, who, t, free); err != nil {
		free()
		return err
	}
	return nil
}

// lastSeen is the number of the last event that a client has seen; 0 = it does not say.
func lastSeen(c *fiber.Ctx) exchange.Number {
	n, _ := exchange.ParseNumber(c.Get("Last-Event-ID"))
	return n
}

// recently is for how long a task that has ended, or waits for an answer, is told to a client that
// comes back: it may have been cut off before it knew, and does not say what it has. A client that
// comes later loads the messages anew.
const recently = 5 * time.Minute

// active is the task that is worked on in a session, or will be next, or the one that has ended a
// little ago; "" = there is none, also because there is no such session: a page asks before its
// first message.
func (a *api) active(ctx context.Context, who *service.Principal, name string) (conversation.SessionKey, conversation.TaskID, error) {
	key, _, err := a.Find(ctx, who, name)
	if err != nil {
		if errors.Is(err, service.ErrNoSession) {
			err = nil
		}
		return key, "", err
	}
	as, err := a.ReadsAs(ctx, who, key)
	if err != nil {
		return key, "", err
	}
	v, err := a.View(ctx, key, as)
	if err != nil {
		return key, "", err
	}
	if task := activeOf(v); task != "" {
		return key, task, nil
	}
	var last conversation.TaskRow
	for row, err := range a.Sessions.Tasks(ctx, conversation.TaskFilter{Tenant: key.Tenant, Session: key.Session, Limit: 10}) {
		if err != nil {
			return key, "", err
		}
		if row.UpdatedAt.After(last.UpdatedAt) && a.Now().Sub(row.UpdatedAt) < recently {
			last = row
		}
	}
	return key, last.Task, nil
}

func activeOf(v conversation.View) conversation.TaskID {
	for _, t := range v.Tasks { // the RUNNING one first, then the QUEUED ones
		if t.Status == conversation.TaskRunning || t.Status == conversation.TaskQueued {
			return t.Task
		}
	}
	return ""
}

// taskOf is the task of a message of the assistant.
func (a *api) taskOf(key conversation.SessionKey, message string) (conversation.TaskID, error) {
	id, is := strings.CutPrefix(message, messageOf)
	task := conversation.TaskID(id)
	session, ok := task.Session()
	if !is || !ok || session != key.Session {
		return "", conversation.Errorf(conversation.NotFound, "there is no such message of the assistant in this chat")
	}
	return task, nil
}

// stop ends the task that runs, or that of the message which the body names: a client that goes
// away ends nothing.
func (a *api) stop(c *fiber.Ctx) error {
	name, err := door.Param(c, "id")
	if err != nil {
		return err
	}
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	var r struct {
		MessageID string `json:"messageId"`
		Reason    string `json:"reason"`
	}
	if b != nil {
		if bad := unmarshal(b, &r, "the body"); bad != nil {
			return bad
		}
	}
	if len(r.Reason) > protocol.MaxTitle {
		return conversation.Errorf(conversation.BadRequest, "reason must be at most %d bytes", protocol.MaxTitle)
	}
	who := door.Principal(c)
	ctx, cancel := a.Deadline()
	defer cancel()
	key, _, err := a.Find(ctx, who, name)
	if err != nil {
		return err
	}
	var task conversation.TaskID
	if r.MessageID != "" {
		if task, err = a.taskOf(key, r.MessageID); err != nil {
			return err
		}
	}
	id, err := door.IdempotencyKey(c, "ui-stop:"+string(key.Session))
	if err != nil {
		return err
	}
	receipt, err := a.Cancel(ctx, who, key, task, id, r.Reason)
	if task == "" && err != nil && conversation.AsError(err).Code == conversation.NotFound {
		return c.SendStatus(fiber.StatusNoContent) // nothing runs: it has been stopped
	}
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Status(fiber.StatusAccepted).SendString(object(func(o *protocol.Object) {
		o.Text("messageId", messageID(receipt.Task))
		o.Text("task", string(receipt.Task))
		o.Text("status", receipt.OldStatus.String())
	}))
}
