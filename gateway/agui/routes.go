package agui

import (
	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// api is the protocol's side of a server. It may be used from any goroutine.
type api struct{ *exchange.Exchange }

// Register adds the routes.
func Register(x *exchange.Exchange, r fiber.Router) {
	a := &api{x}
	chat := x.Authenticated(service.ScopeChat)
	r.Get("/agui", x.Named("/agui"), a.problems, chat, a.capabilities)
	r.Post("/agui", x.Named("/agui"), a.problems, chat, a.postRun)
	const run = "/agui/:thread/runs/:task"
	r.Get(run, x.Named(run), a.problems, x.AuthenticatedBy(door.TicketOf, service.ScopeChat), a.getRun)
	const cancel = "/agui/:thread/cancel"
	r.Post(cancel, x.Named(cancel), a.problems, chat, a.postCancel)
}

// problems answers an error that comes before a stream has begun: with its status, and with the
// event that a stream would end with.
func (a *api) problems(c *fiber.Ctx) error {
	err := c.Next()
	if err == nil {
		return nil
	}
	e, status := a.Refused(err)
	door.SetRefusal(c, status, e.RetryAfter)
	o := protocol.NewObject(nil)
	o.Text("type", runError)
	o.Text("message", e.Message)
	o.Text("code", string(e.Code))
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(o.Close())
}

// capabilities says what can be expected of runs here, in the protocol's words.
func (a *api) capabilities(c *fiber.Ctx) error {
	o := protocol.NewObject(nil)
	inside(&o, "identity", func(o *protocol.Object) {
		o.Text("name", "parley")
		o.Text("type", "parley")
		o.Optional("version", a.Version)
	})
	o.Raw("transport", `{"streaming":true,"websocket":false,"httpBinary":false,"resumable":true}`)
	o.Raw("tools", `{"supported":true,"parallelCalls":true,"clientProvided":true}`)
	o.Raw("state", `{"snapshots":false,"deltas":false,"persistentState":false}`)
	o.Raw("multiAgent", `{"supported":true,"delegation":true}`)
	o.Raw("reasoning", `{"supported":false}`)
	o.Raw("humanInTheLoop", `{"supported":true,"approvals":true,"interventions":true,"interrupts":true,"approveWithEdits":true}`)
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(o.Close())
}

// postCancel ends a task of a thread: the one that is named, or else the one that runs.
func (a *api) postCancel(c *fiber.Ctx) error {
	thread, err := door.Param(c, "thread")
	if err != nil {
		return err
	}
	var task, reason string
	err = door.ReadBody(c, func(m protocol.Member) error {
		switch string(m.Name) {
		case "task":
			return m.ID(&task)
		case "reason":
			return m.Text(&reason)
		}
		return nil
	})
	if err != nil {
		return err
	}
	id, err := door.IdempotencyKey(c, "agui.cancel")
	if err != nil {
		return err
	}
	ctx, cancel := a.Deadline()
	defer cancel()
	who := door.Principal(c)
	key, _, err := a.Find(ctx, who, thread)
	if err != nil {
		return err
	}
	r, err := a.Cancel(ctx, who, key, conversation.TaskID(task), id, reason)
	if err != nil {
		return err
	}
	o := protocol.NewObject(nil)
	o.Text("task", string(r.Task))
	o.Text("oldStatus", r.OldStatus.String())
	c.Status(fiber.StatusAccepted).Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(o.Close())
}
