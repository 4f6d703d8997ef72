package agui

import (
	"context"
	"errors"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// getRun goes on with a run that a client has begun: behind the event whose id it has seen last,
// or from the beginning.
func (a *api) getRun(c *fiber.Ctx) error {
	who := door.Principal(c)
	p, err := a.resumed(c, who)
	if err != nil {
		return err
	}
	free, err := a.StreamSlot(c, who)
	if err != nil {
		return err
	}
	return a.stream(c, who, free, p)
}

func (a *api) resumed(c *fiber.Ctx, who *service.Principal) (*plan, error) {
	thread, err := door.Param(c, "thread")
	if err != nil {
		return nil, err
	}
	task, err := door.Param(c, "task")
	if err != nil {
		return nil, err
	}
	p := &plan{task: conversation.TaskID(task), message: conversation.MessageID(c.Query("message"))}
	p.identity = identity{thread: thread, run: c.Query("runId")}
	if p.run == "" {
		p.run = task
	}
	if len(p.run) > maxRunID || len(p.message) > maxRunID {
		return nil, conversation.Errorf(conversation.BadRequest, "runId and message must be at most %d bytes", maxRunID)
	}
	seen := c.Get("Last-Event-ID")
	if p.resumes = seen != ""; p.resumes {
		n, ok := exchange.ParseNumber(seen)
		if !ok {
			return nil, conversation.Errorf(conversation.BadRequest, "Last-Event-ID must be the id of an event of the run")
		}
		p.after = n
	}
	ctx, cancel := a.Deadline()
	defer cancel()
	if p.key, _, err = a.Find(ctx, who, thread); err != nil {
		return nil, err
	}
	row, err := a.TaskRow(ctx, who, p.key, p.task)
	if err != nil {
		return nil, err
	}
	if p.session = p.key.Session; p.message == "" {
		p.message = row.Trigger
	}
	p.since = max(row.First, 1) - 1
	if !p.resumes { // else the notes say what the message is called before the first that is told
		p.after = exchange.NumberAfter(p.since)
		p.name, err = a.called(ctx, who, p)
	}
	return p, err
}

// stream answers a request with the events of a plan's run.
func (a *api) stream(c *fiber.Ctx, who *service.Principal, free func(), p *plan) error {
	t := newEvents(p.identity, who.User, exchange.NewRun(p.message, p.task))
	if p.name != "" {
		t.names[p.message] = p.name
	}
	t.last = p.after
	var f *exchange.Follower
	if !p.idle {
		ctx, cancel := a.Deadline()
		defer cancel()
		var err error
		if f, err = a.Follow(ctx, who, exchange.From{Key: p.key, Since: p.since, After: p.after, Whole: true}); err != nil {
			free()
			return err
		}
	}
	link := p.link()
	if link != "" {
		c.Set(fiber.HeaderContentLocation, link)
	}
	a.ServeEvents(c, who, free, func(ctx context.Context, out *door.EventWriter) {
		if f == nil {
			t.begin(0, "", p.snapshots, p.ignored)
			t.finish()
			out.Send(t.buf)
			return
		}
		defer f.Close()
		a.tell(ctx, out, f, t, func() { t.begin(p.after, link, p.snapshots, p.ignored) }, p.resumes)
	})
	return nil
}

// maxHeld is how much is gathered before it is written, when more is at hand.
const maxHeld = 32 << 10

// tell writes events until the run rests, or the stream ends.
func (a *api) tell(ctx context.Context, out *door.EventWriter, f *exchange.Follower, t *events, begin func(), resumes bool) {
	synced := false
	for {
		n, err := a.next(ctx, f)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case errors.Is(err, context.DeadlineExceeded):
			if !out.Comment() {
				return
			}
			continue
		default:
			var gone *conversation.Error
			if errors.As(err, &gone) {
				t.fail(string(gone.Code), gone.Message)
				out.Send(t.buf)
			}
			return
		}
		synced = synced || n.Kind == exchange.Synced
		if !t.started && !resumes && (synced || n.Own && n.Seen < exchange.MaxNumbers) {
			begin()
		}
		t.add(n)
		if f.More() && len(t.buf) < maxHeld {
			continue
		}
		rests := !f.More() && (t.run.Ended() || synced && t.run.Rests())
		if rests {
			if !t.started && !resumes {
				begin()
			}
			t.finish()
		}
		if len(t.buf) > 0 {
			if !out.Send(t.buf) {
				return
			}
			t.buf = t.buf[:0]
		}
		if rests {
			return
		}
	}
}

// next waits for the next note, and fails with the deadline's error when it is time for a comment.
func (a *api) next(ctx context.Context, f *exchange.Follower) (*exchange.Note, error) {
	if f.More() {
		return f.Next(ctx)
	}
	quiet, cancel := context.WithTimeout(ctx, a.Times.Comment)
	defer cancel()
	return f.Next(quiet)
}
