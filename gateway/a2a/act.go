package a2a

import (
	"cmp"
	"context"
	"strings"

	"parley/conversation"
	"parley/gateway/attach"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// done is what came of what a client has said.
type done struct {
	place
	row  conversation.TaskRow
	from conversation.Seq // the event that it has become
}

// say gives a session what a client says: a message that begins a task, or one for a task that is
// there, which it steers, or answers what that asks.
func (a *api) say(ctx context.Context, c *fiber.Ctx, who *service.Principal, r *sending) (d done, err error) {
	mode, ok := conversation.ParseMode(r.message.mode)
	if !ok {
		return d, refuse(invalidParams, "message.metadata.%s.mode must be steer, queue, collect, interrupt or reject", noteOf)
	}
	if err := a.knows(r.tenant); err != nil {
		return d, err
	}
	if err := a.takes(&r.message); err != nil {
		return d, err
	}
	d.address = addressOf(a.Services, c)
	if r.push != nil {
		r.push.said = clientID(r.message.id)
		if err := a.mayPush(ctx, who, r.push, r.message.task); err != nil {
			return d, err
		}
	}
	var receipt conversation.Receipt
	said := exchange.Said{Via: conversation.ViaA2A, ID: clientID(r.message.id), Text: r.message.text, Mode: mode, TraceParent: c.Get(service.TraceHeader)}
	if r.message.task != "" {
		receipt, err = a.toTask(ctx, who, r, &d, said)
	} else {
		receipt, err = a.toContext(ctx, who, r, &d, said)
	}
	if err != nil {
		if conversation.AsError(err).Code == conversation.Conflict {
			err = refuse(invalidParams, "message.messageId %q was used for another message", conversation.Excerpt(r.message.id, 64))
		}
		return d, err
	}
	if receipt.Task != "" {
		d.task = receipt.Task
	}
	d.from = max(d.from, receipt.Seq)
	if d.row, err = a.TaskRow(ctx, who, d.key, d.task); err == nil && r.push != nil {
		err = a.register(ctx, who, r.push, d.place, d.from)
	}
	return d, err
}

// knows refuses a tenant that names no agent here.
func (a *api) knows(tenant string) error {
	if tenant == "" {
		return nil
	}
	for _, agent := range a.Offer.Agents {
		if agent.Name == tenant {
			return nil
		}
	}
	return refuse(invalidParams, "there is no agent %q: tenant must be absent, or name one", conversation.Excerpt(tenant, 64))
}

// toContext begins a task. A message without a context has one of its own, the same one when it
// comes again.
func (a *api) toContext(ctx context.Context, who *service.Principal, r *sending, d *done, said exchange.Said) (receipt conversation.Receipt, err error) {
	name := r.message.context
	if r.message.question != "" {
		if d.key, _, err = a.Find(ctx, who, name); err != nil {
			return receipt, noQuestion(err)
		}
		d.context = name
		return a.answerTo(ctx, who, r, d, said, conversation.QuestionID(r.message.question))
	}
	if name == "" {
		name = string(said.ID)
	} else if len(name) > protocol.MaxClientMsgID {
		return receipt, refuse(invalidParams, "message.contextId must be at most %d bytes", protocol.MaxClientMsgID)
	}
	agent := conversation.AgentName(r.tenant)
	opened := false
	if d.key, opened, err = a.FindOrOpen(ctx, who, name, conversation.Create{Agent: agent}); err != nil {
		return receipt, err
	}
	d.context = string(d.key.Session)
	if r.message.context != "" {
		d.context = r.message.context
	}
	if !opened && agent != "" {
		row, err := a.Visible(ctx, who, d.key)
		if err != nil {
			return receipt, err
		}
		if row.Agent != agent {
			return receipt, refuse(invalidParams, "the context is one of another agent than %s", agent)
		}
	}
	if said.Mode == conversation.ModeDefault {
		said.Mode = conversation.ModeQueue // each message has a task of its own
	}
	return a.withFiles(ctx, who, r, d, said)
}

// toTask goes on with a task.
func (a *api) toTask(ctx context.Context, who *service.Principal, r *sending, d *done, said exchange.Said) (receipt conversation.Receipt, err error) {
	row, err := a.task(ctx, who, &asked{tenant: r.tenant, task: r.message.task}, &d.place)
	if err != nil {
		return receipt, err
	}
	if r.message.context != "" && r.message.context != d.context {
		key, _, err := a.Find(ctx, who, r.message.context)
		if err != nil || key != d.key {
			return receipt, refuse(invalidParams, "message.contextId is not the context of the task %s", d.task)
		}
		d.context = r.message.context
	}
	if bad := service.Writable(d.key); bad != nil {
		return receipt, bad
	}
	if row.Status.Ended() {
		return a.again(ctx, who, row, said)
	}
	v, err := a.View(ctx, d.key, who.User)
	if err != nil {
		return receipt, err
	}
	status, question := conversation.TaskStatus(0), conversation.QuestionID(r.message.question)
	for _, t := range v.Tasks {
		if t.Task == d.task {
			status = t.Status
		}
	}
	if question == "" && status == conversation.TaskAwaiting {
		question = asksFirst(v, d.task)
	}
	switch {
	case question != "":
		return a.answerTo(ctx, who, r, d, said, question)
	case status == conversation.TaskRunning:
		if said.Mode != conversation.ModeDefault && said.Mode != conversation.ModeSteer {
			return receipt, refuse(invalidParams, "a message for a task steers it: for another mode leave message.taskId out")
		}
		said.Mode = conversation.ModeSteer
		return a.withFiles(ctx, who, r, d, said)
	default:
		receipt, err = a.again(ctx, who, row, said)
		if err != nil && status == conversation.TaskQueued {
			err = refuse(unsupported, "the task %s waits for its turn, and takes messages when it works: leave message.taskId out to begin another one", d.task)
		}
		return receipt, err
	}
}

// answerTo answers a question. What is told of the task begins when it has been closed: before that
// the task would still be one that asks.
func (a *api) answerTo(ctx context.Context, who *service.Principal, r *sending, d *done, said exchange.Said, question conversation.QuestionID) (receipt conversation.Receipt, err error) {
	if len(r.message.files) > 0 {
		return receipt, refuse(typeNotSupported, "an answer to a question cannot have files")
	}
	receipt, err = a.Answer(ctx, who, d.key, exchange.Answered{Via: said.Via, ID: said.ID, Question: question, Text: said.Text})
	if err != nil {
		return receipt, noQuestion(err)
	}
	for e, err := range a.Events(ctx, d.key, receipt.Seq-1, 0) {
		if err != nil {
			return receipt, err
		}
		switch b := e.Body.(type) {
		case conversation.MessageAccepted:
			if e.Seq > receipt.Seq { // it was no answer then
				return receipt, nil
			}
		case conversation.QuestionAnswered:
			if b.Message == receipt.Message {
				d.from = e.Seq
			}
			return receipt, nil
		}
	}
	return receipt, nil
}

// noQuestion names what is not there.
func noQuestion(err error) error {
	if conversation.AsError(err).Code == conversation.NotFound {
		return refuse(invalidParams, "message.metadata.%s.question names no question of this context", noteOf)
	}
	return err
}

// asksFirst is the question of a task that is answered by a message which names none: the first
// that blocks, else the first one. The result of a call is meant only where nothing else is asked.
func asksFirst(v conversation.View, task conversation.TaskID) conversation.QuestionID {
	var first, result conversation.QuestionID
	for _, q := range v.Questions {
		switch {
		case q.Task != task:
		case v.AsksCaller(q.Asked):
			result = cmp.Or(result, q.Asked.Question)
		case q.Asked.Blocking:
			return q.Asked.Question
		default:
			first = cmp.Or(first, q.Asked.Question)
		}
	}
	return cmp.Or(first, result)
}

// maxLate is how many events behind the end of a task a message of it is looked for.
const maxLate = 1000

// again finds a message that is said again to a task which takes no messages now: what came of the
// first delivery is told. It may have come too late for the task, and have one of its own.
func (a *api) again(ctx context.Context, who *service.Principal, row conversation.TaskRow, said exchange.Said) (conversation.Receipt, error) {
	before := conversation.Seq(0)
	if row.Status.Ended() && row.Last > 0 {
		before = row.Last + maxLate
	}
	for e, err := range a.Events(ctx, row.Key, row.First-1, before) {
		if err != nil {
			return conversation.Receipt{}, err
		}
		b, is := e.Body.(conversation.MessageAccepted)
		if !is || b.ClientMsgID != said.ID || b.Author != who.User {
			continue
		}
		if strings.TrimSpace(b.Text) != strings.TrimSpace(said.Text) {
			return conversation.Receipt{}, conversation.Errorf(conversation.Conflict, "the id was used for another text")
		}
		return conversation.Receipt{Message: b.Message, Task: e.Task, Seq: e.Seq, Duplicate: true}, nil
	}
	return conversation.Receipt{}, refuse(unsupported, "the task %s has ended, and takes no messages: leave message.taskId out to begin another one in its context", row.Task)
}

// takes refuses what no session takes, before one is opened for it.
func (a *api) takes(m *message) error {
	most := a.Limits.AttachmentsPerMessage // 0 = any number
	switch n := len(m.files); {
	case n > 0 && a.Files == nil:
		return refuse(typeNotSupported, "this server takes no files")
	case most > 0 && n > most:
		return refuse(invalidParams, "a message may have at most %d files", most)
	case n == 0 || m.text != "":
		if bad := protocol.CheckText("the message", &m.text, a.Limits); bad != nil {
			return bad
		}
	}
	for i := range m.files {
		if m.files[i].kind == "" {
			return refuse(typeNotSupported, "the bytes of a file need a mediaType")
		}
		if err := a.Files.Check(m.files[i].upload()); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) upload() attach.Upload { return attach.Upload{Name: f.name, Type: f.kind, Body: f.body} }

// withFiles says a message, once its files are stored.
func (a *api) withFiles(ctx context.Context, who *service.Principal, r *sending, d *done, said exchange.Said) (receipt conversation.Receipt, err error) {
	if len(r.message.files) > 0 {
		if err := a.Uploads(ctx, who, d.key); err != nil {
			return receipt, err
		}
	}
	for i := range r.message.files {
		stored, _, err := a.Files.Upload(ctx, d.key, r.message.files[i].upload())
		if err != nil {
			return receipt, err
		}
		said.Files = append(said.Files, protocol.NamedFile{Hash: stored.Hash})
	}
	return a.Say(ctx, who, d.key, said)
}

// task is a task that a client names, and where it is.
func (a *api) task(ctx context.Context, who *service.Principal, r *asked, p *place) (row conversation.TaskRow, err error) {
	p.task = conversation.TaskID(r.task)
	if p.key, err = exchange.TaskKey(who, p.task); err == nil {
		row, err = a.TaskRow(ctx, who, p.key, p.task)
	}
	switch {
	case err != nil && conversation.AsError(err).Code == conversation.NotFound, err == nil && r.tenant != "" && r.tenant != string(row.Agent):
		err = errNoTask
	case err == nil && p.context == "":
		p.context = string(p.key.Session)
	}
	return row, err
}

// tell begins the tale of a task.
func (a *api) tell(ctx context.Context, p place, row conversation.TaskRow) (*tale, error) {
	t := newTale(p)
	return t, a.leftOver(ctx, t, row)
}

// leftOver lets the tale of a task that was born of messages which another task has left over
// begin with these.
func (a *api) leftOver(ctx context.Context, t *tale, row conversation.TaskRow) error {
	var messages []conversation.MessageID
	for e, err := range a.Events(ctx, t.key, row.First-1, row.First+1) {
		if err != nil {
			return err
		}
		if b, is := e.Body.(conversation.TaskStatusChanged); is {
			messages = b.Messages
		}
	}
	said := make(map[conversation.MessageID]*conversation.Event, len(messages))
	for e, err := range a.EventsBackward(ctx, t.key, row.First) {
		if err != nil {
			return err
		}
		if len(said) == len(messages) {
			break
		}
		if b, is := e.Body.(conversation.MessageAccepted); is {
			for _, m := range messages {
				if m == b.Message {
					said[m] = e
				}
			}
		}
	}
	for _, m := range messages {
		if e := said[m]; e != nil {
			t.hears(e)
		}
	}
	return nil
}

// send answers SendMessage: with the task when it has ended or waits for an answer, or at once.
func (a *api) send(c *fiber.Ctx, r *sending) ([]byte, error) {
	who := door.Principal(c)
	ctx, cancel := a.Deadline()
	defer cancel()
	d, err := a.say(ctx, c, who, r)
	if err != nil {
		return nil, err
	}
	t, err := a.await(ctx, c, who, d.place, d.row, func(t *tale) bool { return r.now || t.run.Rests() })
	if err != nil {
		return nil, err
	}
	return object(nil, func(o *protocol.Object) {
		o.Key("task")
		o.Bytes = t.appendTask(o.Bytes, view{history: r.history, artifacts: true})
	}), nil
}

// await is what is told of a task once it is as one waits for. What does not come in time, and
// what the limits of waits do not allow to wait for, is told as it is then.
func (a *api) await(ctx context.Context, c *fiber.Ctx, who *service.Principal, p place, row conversation.TaskRow, until func(t *tale) bool) (*tale, error) {
	t, err := a.read(ctx, who, p, row)
	if err != nil || until(t) {
		return t, err
	}
	waiting, refusedBy := a.Wait(c, who, p.key, a.Times.WaitMax)
	if refusedBy != "" {
		return t, nil
	}
	defer waiting.End()
	f, err := a.Follow(waiting.Context, who, exchange.From{Key: p.key, Since: row.First - 1})
	if err == nil {
		defer f.Close()
		if t, err = a.tell(ctx, p, row); err != nil {
			return t, err
		}
		for synced := false; err == nil && !(synced && until(t)); {
			var n *exchange.Note
			if n, err = f.Next(waiting.Context); err == nil {
				t.add(n)
				synced = synced || n.Kind == exchange.Synced
			}
		}
	}
	if err == nil {
		return t, nil
	}
	code := conversation.AsError(err).Code
	if waiting.Over() || code == conversation.Overloaded || code == conversation.Unavailable {
		again, cancel := a.Deadline() // nothing has failed: it is told as it is
		defer cancel()
		return a.read(again, who, p, row)
	}
	if code == conversation.NotFound {
		err = errNoTask // its session is gone, or may not be read any more
	}
	return nil, err
}

// read is what is stored of a task.
func (a *api) read(ctx context.Context, who *service.Principal, p place, row conversation.TaskRow) (*tale, error) {
	t, err := a.tell(ctx, p, row)
	if err != nil {
		return nil, err
	}
	before := conversation.Seq(0)
	if row.Status.Ended() && row.Last > 0 {
		before = row.Last + 1
	}
	for n, err := range a.Notes(ctx, who, p.key, row.First-1, before) {
		if err != nil {
			return nil, err
		}
		t.add(n)
	}
	return t, nil
}

// stream answers SendStreamingMessage: with what happens from the message on, until its task has
// ended or waits for an answer.
func (a *api) stream(c *fiber.Ctx, r *sending, rpc []byte) error {
	who := door.Principal(c)
	free, err := a.StreamSlot(c, who) // before anything is done
	if err != nil {
		return err
	}
	ctx, cancel := a.Deadline()
	defer cancel()
	var t *tale
	d, err := a.say(ctx, c, who, r)
	if err == nil {
		t, err = a.tell(ctx, d.place, d.row)
	}
	if err != nil {
		free()
		return err
	}
	return a.follow(ctx, c, who, free, t, from{since: d.row.First - 1, upto: max(d.from, d.row.First), rests: true}, rpc)
}

// getTask answers GetTask.
func (a *api) getTask(c *fiber.Ctx, r *asked) ([]byte, error) {
	who := door.Principal(c)
	ctx, cancel := a.Deadline()
	defer cancel()
	p := place{address: addressOf(a.Services, c)}
	row, err := a.task(ctx, who, r, &p)
	if err != nil {
		return nil, err
	}
	t, err := a.read(ctx, who, p, row)
	if err != nil {
		return nil, err
	}
	return t.appendTask(nil, view{history: r.history, artifacts: true}), nil
}

// cancel answers CancelTask: with the task when it has ended.
func (a *api) cancel(c *fiber.Ctx, r *asked) ([]byte, error) {
	who := door.Principal(c)
	ctx, cancel := a.Deadline()
	defer cancel()
	p := place{address: addressOf(a.Services, c)}
	row, err := a.task(ctx, who, r, &p)
	if err != nil {
		return nil, err
	}
	ended := refuse(taskNotCancelable, "the task %s has ended", p.task)
	if row.Status.Ended() {
		return nil, ended
	}
	receipt, err := a.Cancel(ctx, who, p.key, p.task, "", "")
	switch {
	case err != nil:
		return nil, err
	case receipt.OldStatus.Ended():
		return nil, ended
	}
	t, err := a.await(ctx, c, who, p, row, func(t *tale) bool { return t.run.Ended() })
	if err != nil {
		return nil, err
	}
	return t.appendTask(nil, view{history: r.history, artifacts: true}), nil
}

// subscribe answers SubscribeToTask: with what happens to the task until it has ended. Who names
// the last event that it has seen is told the rest, also of a task that has ended since.
func (a *api) subscribe(c *fiber.Ctx, r *asked, rpc []byte) error {
	who := door.Principal(c)
	ctx, cancel := a.Deadline()
	defer cancel()
	p := place{address: addressOf(a.Services, c)}
	row, err := a.task(ctx, who, r, &p)
	if err != nil {
		return err
	}
	f := from{since: row.First - 1, upto: newest}
	if seen := c.Get("Last-Event-ID"); seen != "" {
		var ok bool
		if f.after, ok = exchange.ParseNumber(seen); !ok || f.after.Seq() < f.since || row.Status.Ended() && f.after.Seq() > row.Last {
			return refuse(invalidParams, "Last-Event-ID is no id of an event of the task %s", p.task)
		}
	} else if row.Status.Ended() {
		return refuse(unsupported, "the task %s has ended: ask for it (GetTask), or name the last event that you have seen in Last-Event-ID", p.task)
	}
	t, err := a.tell(ctx, p, row)
	if err != nil {
		return err
	}
	free, err := a.StreamSlot(c, who)
	if err != nil {
		return err
	}
	return a.follow(ctx, c, who, free, t, f, rpc)
}
