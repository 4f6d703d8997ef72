package a2a

import (
	"context"
	"errors"
	"io"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/push"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// pushing is a configuration for push notifications, as a client says it. It says of another one
// only which it is.
type pushing struct {
	tenant, id, task string
	target           push.Target
	said             conversation.ClientMsgID // by the message that brings it
}

// read reads a TaskPushNotificationConfig.
func (p *pushing) read(b []byte, what string) error {
	return readMembers(b, what, func(m protocol.Member) error {
		switch string(m.Name) {
		case "tenant":
			return m.ID(&p.tenant)
		case "id":
			return m.Bounded(&p.id, maxName)
		case "taskId", "task_id":
			return m.Bounded(&p.task, maxName)
		case "url":
			return m.Text(&p.target.URL)
		case "token":
			return m.Text(&p.target.Token)
		case "authentication":
			return readMembers(m.Raw, what+".authentication", func(m protocol.Member) error {
				switch string(m.Name) {
				case "scheme":
					return m.Text(&p.target.Scheme)
				case "credentials":
					return m.Text(&p.target.Credentials)
				}
				return nil
			})
		}
		return nil
	})
}

// registration is what a client asks for, without the task.
func (p *pushing) registration(who *service.Principal, mode string) *push.Registration {
	r := &push.Registration{User: *who, ID: p.id, Target: p.target, Said: p.said}
	if r.ID == "" {
		r.ID = push.NameOf(p.target.URL)
	}
	if mode != "keys" { // a token is good for minutes, and its user stays
		r.User.Expires, r.User.Credential = time.Time{}, ""
	}
	return r
}

// mayPush refuses what cannot be told of a task that a message begins or goes on with, before the
// message is said.
func (a *api) mayPush(ctx context.Context, who *service.Principal, p *pushing, task string) error {
	if a.pushes == nil {
		return errNoPush
	}
	if p.task != "" && p.task != task {
		return refuse(invalidParams, "configuration.taskPushNotificationConfig.taskId must be absent, or message.taskId")
	}
	return a.counted(a.pushes.Check(ctx, p.registration(who, a.Auth.Mode())))
}

// counted counts a refusal for a limit.
func (a *api) counted(err error) error {
	if errors.Is(err, push.ErrTooMany) {
		a.Metrics.Refused.WithLabelValues("pushes_per_user").Inc()
	}
	return err
}

// register has what happens to a task from then on told where a client wants it, with the task as
// it was at an event first.
func (a *api) register(ctx context.Context, who *service.Principal, p *pushing, at place, from conversation.Seq) error {
	r := p.registration(who, a.Auth.Mode())
	r.Session, r.Task, r.From, r.Context, r.Address = at.key.Session, at.task, from, at.context, at.address
	p.id, p.task = r.ID, string(r.Task)
	return a.counted(a.pushes.Put(ctx, r))
}

// rpcPush answers what is asked of configurations over JSON-RPC.
func (a *api) rpcPush(c *fiber.Ctx, method string, params []byte) ([]byte, error) {
	p := &pushing{}
	if err := p.read(params, "params"); err != nil {
		return nil, err
	}
	do := map[string]func(*fiber.Ctx, *pushing) ([]byte, error){
		"CreateTaskPushNotificationConfig": a.createPush, "GetTaskPushNotificationConfig": a.getPush,
		"ListTaskPushNotificationConfigs": a.listPush, "DeleteTaskPushNotificationConfig": a.deletePush,
	}[method]
	return do(c, p)
}

// httpPush answers what is asked of configurations over HTTP+JSON.
func (a *api) httpPush(do func(*fiber.Ctx, *pushing) ([]byte, error)) fiber.Handler {
	return func(c *fiber.Ctx) error {
		p := &pushing{}
		if c.Method() == fiber.MethodPost {
			b, err := door.Body(c, media)
			if err != nil {
				return err
			}
			if err := p.read(b, "the body"); err != nil {
				return err
			}
		}
		of, verb, err := taskPath(c)
		switch {
		case err != nil:
			return err
		case verb != "":
			return errNoTask
		case p.task != "" && p.task != of.task:
			return refuse(invalidParams, "taskId is not that of the address")
		}
		p.task = of.task
		if c.Params("tenant") != "" {
			p.tenant = of.tenant
		}
		if c.Params("config") != "" {
			if p.id, err = door.Param(c, "config"); err != nil {
				return err
			}
		}
		json, err := do(c, p)
		if err != nil {
			return err
		}
		return answer(c, json)
	}
}

// ofTask is the task of a configuration that a client names, if it may see it.
func (a *api) ofTask(ctx context.Context, c *fiber.Ctx, p *pushing, needsID bool) (who *service.Principal, at place, err error) {
	who = door.Principal(c)
	switch {
	case a.pushes == nil:
		return who, at, errNoPush
	case p.task == "":
		return who, at, refuse(invalidParams, "taskId is missing")
	case needsID && p.id == "":
		return who, at, refuse(invalidParams, "id is missing")
	}
	at.address = addressOf(a.Services, c)
	_, err = a.task(ctx, who, &asked{tenant: p.tenant, task: p.task}, &at)
	return who, at, err
}

// createPush answers CreateTaskPushNotificationConfig. One of the same id is replaced.
func (a *api) createPush(c *fiber.Ctx, p *pushing) ([]byte, error) {
	ctx, cancel := a.Deadline()
	defer cancel()
	who, at, err := a.ofTask(ctx, c, p, false)
	if err != nil {
		return nil, err
	}
	v, err := a.View(ctx, at.key, who.User)
	if err != nil {
		return nil, err
	}
	if err := a.register(ctx, who, p, at, v.Head); err != nil {
		return nil, err
	}
	return p.append(nil), nil
}

// getPush answers GetTaskPushNotificationConfig.
func (a *api) getPush(c *fiber.Ctx, p *pushing) ([]byte, error) {
	ctx, cancel := a.Deadline()
	defer cancel()
	who, at, err := a.ofTask(ctx, c, p, true)
	if err != nil {
		return nil, err
	}
	r, err := a.pushes.Get(ctx, who, at.task, p.id)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, errNoConfig
	}
	p.target = r.Target
	return p.append(nil), nil
}

// listPush answers ListTaskPushNotificationConfigs: with the caller's own, all on one page.
func (a *api) listPush(c *fiber.Ctx, p *pushing) ([]byte, error) {
	ctx, cancel := a.Deadline()
	defer cancel()
	who, at, err := a.ofTask(ctx, c, p, false)
	if err != nil {
		return nil, err
	}
	all, err := a.pushes.List(ctx, who, at.task)
	if err != nil {
		return nil, err
	}
	return object(nil, func(o *protocol.Object) {
		o.Key("configs")
		o.Bytes = append(o.Bytes, '[')
		for i, r := range all {
			if i > 0 {
				o.Bytes = append(o.Bytes, ',')
			}
			one := pushing{tenant: p.tenant, id: r.ID, task: p.task, target: r.Target}
			o.Bytes = one.append(o.Bytes)
		}
		o.Bytes = append(o.Bytes, ']')
		o.Text("nextPageToken", "")
	}), nil
}

// deletePush answers DeleteTaskPushNotificationConfig. That there is none is no error.
func (a *api) deletePush(c *fiber.Ctx, p *pushing) ([]byte, error) {
	ctx, cancel := a.Deadline()
	defer cancel()
	who, at, err := a.ofTask(ctx, c, p, true)
	if err != nil {
		return nil, err
	}
	return []byte("{}"), a.pushes.Delete(ctx, who, at.task, p.id)
}

// append appends a configuration, without its secrets: who has said them knows them.
func (p *pushing) append(dst []byte) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Optional("tenant", p.tenant)
		o.Text("id", p.id)
		o.Text("taskId", p.task)
		o.Text("url", p.target.URL)
		if p.target.Scheme != "" {
			o.Key("authentication")
			o.Bytes = object(o.Bytes, func(o *protocol.Object) { o.Text("scheme", p.target.Scheme) })
		}
	})
}

// pushed is what happens to a task, as notices tell it.
type pushed struct {
	*stream
	api    *api
	ctx    context.Context
	end    context.CancelCauseFunc
	lease  *service.Lease
	who    *service.Principal
	f      *exchange.Follower
	at     time.Time
	next   []push.Notice
	closed bool
}

// Notices implements push.TaskSource.
func (a *api) Notices(ctx context.Context, r *push.Registration, after uint64) (push.Tale, error) {
	p := &pushed{api: a, who: &r.User}
	p.ctx, p.end = context.WithCancelCause(ctx)
	p.lease = a.Lease(p.who, func(*conversation.Error) { p.end(push.ErrNoAccess) })
	if err := p.begin(r, after); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *pushed) begin(r *push.Registration, after uint64) error {
	switch p.lease.Over() {
	case nil:
	case service.ErrRevoked:
		return push.ErrNoKey
	default:
		return push.ErrNoAccess
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.api.Times.Request)
	defer cancel()
	at := place{address: r.Address, context: r.Context}
	row, err := p.api.task(ctx, p.who, &asked{task: string(r.Task)}, &at)
	if err != nil {
		return noAccess(err)
	}
	t, err := p.api.tell(ctx, at, row)
	if err != nil {
		return noAccess(err)
	}
	f := from{since: row.First - 1, upto: max(r.From, row.First), after: exchange.Number(after)}
	p.f, err = p.api.Follow(ctx, p.who, exchange.From{Key: at.key, Since: f.since, After: f.after, Whole: after > 0, Stored: true})
	if err != nil {
		return noAccess(err)
	}
	p.stream = newStream(t, f, nil)
	p.whole, p.event = true, p.notice
	return nil
}

// noAccess says of an error whether it is that the task cannot be seen any more.
func noAccess(err error) error {
	var own *failure
	if err == nil {
		return nil
	}
	if errors.As(err, &own) && own.kind == taskNotFound || conversation.AsError(err).Code == conversation.NotFound {
		return push.ErrNoAccess
	}
	return err
}

// notice takes an event.
func (p *pushed) notice(at exchange.Number, value func(dst []byte) []byte) {
	p.next = append(p.next, push.Notice{Number: uint64(at), At: p.at, Type: media, Body: value(nil)})
}

// Next implements push.Tale.
func (p *pushed) Next() (n push.Notice, err error) {
	for len(p.next) == 0 {
		if p.closed {
			return n, io.EOF
		}
		note, err := p.f.Next(p.ctx)
		switch {
		case p.ctx.Err() != nil:
			return n, context.Cause(p.ctx)
		case errors.Is(err, service.ErrNoSession):
			return n, push.ErrNoAccess
		case err != nil:
			return n, err
		}
		p.at = note.Time
		p.closed = p.add(note)
	}
	n = p.next[0]
	p.next = p.next[1:]
	return n, nil
}

// Check implements push.Tale.
func (p *pushed) Check() error {
	if p.lease.Over() != nil {
		return push.ErrNoAccess
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.api.Times.Request)
	defer cancel()
	_, err := p.api.TaskRow(ctx, p.who, p.key, p.task)
	return noAccess(err)
}

// Close implements push.Tale.
func (p *pushed) Close() {
	p.end(nil)
	p.lease.Release()
	if p.f != nil {
		p.f.Close()
	}
}
