package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/mail"
	"parley/actors/internal/shown"
	"parley/conversation"
	"parley/conversation/fit"
)

var (
	errStopped  = errors.New("stopped")
	errDeadline = errors.New("its time is over")
)

// tool is the child actor of one tool call: it gives the call a deadline, hands a
// cancel on, and waits for the end.
type tool struct {
	env       *Env
	key       conversation.SessionKey
	parent    *actor.PID
	published *shown.Position
	f         conversation.RunTool
	began     time.Time
	cancel    context.CancelCauseFunc // nil: it has not started
	limits    limits
	ended     bool
	asker     asker
	waits     *atomic.Bool // for an answer of the user
}

// toolEnd is the end of the tool's goroutine, or of the wait for it.
type toolEnd struct {
	mail.DeadLetterOK
	status conversation.CallStatus
	result string
}

// Receive takes one message of the actor's mailbox.
func (c *tool) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.start(ctx.Self())
	case *stop:
		c.cancel(errStopped)
	case *toolEnd:
		if !c.ended {
			c.ended = true
			c.limits.stop()
			c.env.Send(c.parent, &End{Command: conversation.ToolDone{
				Call: c.f.Call, Status: m.status, Result: fit.Middle(m.result, c.env.ToolOutput), Took: time.Since(c.began),
			}})
		}
	case *toolAsks:
		c.asks(m)
	case *gaveUp:
		c.gaveUp(m)
	case *toolReply:
		c.replied(m)
	case *over:
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		if c.cancel != nil { // nil: it has failed at its start
			c.cancel(errStopped)
			c.limits.stop()
		}
	}
}

func (c *tool) start(self *actor.PID) {
	c.began = time.Now()
	deadline := c.f.Deadline
	if deadline.IsZero() {
		deadline = c.began.Add(c.env.ToolDeadline)
	}
	ctx, cancel := context.WithCancelCause(c.env.Context)
	env, key, f, published := c.env, c.key, c.f, c.published
	send := func(m any) { env.Send(self, m) }
	end := func(status conversation.CallStatus, result string) { send(&toolEnd{status: status, result: result}) }
	// A tool that ignores its context is given up; it may still do something.
	c.limits.start(deadline, env.ToolGrace, func() { cancel(errDeadline) }, func() {
		end(conversation.CallTimeout, "the tool did not end in time and did not stop")
	})
	c.cancel = cancel
	env.Go("the tool "+f.Tool, func() {
		defer cancel(nil)
		status, result := env.runTool(ctx, key, f, published, env.asks(ctx, send))
		end(status, result)
	}, func(error) { end(conversation.CallError, "the tool failed") })
}

func (e *Env) tool(name string) (conversation.Tool, bool) {
	t, ok := e.Tools[name]
	if !ok && e.Late != nil {
		t, ok = e.Late(name)
	}
	return t, ok
}

// runTool runs a tool to its end and reads its outcome.
func (e *Env) runTool(ctx context.Context, key conversation.SessionKey, f conversation.RunTool, published *shown.Position, ask func(context.Context, conversation.ToolQuestion) (string, error)) (conversation.CallStatus, string) {
	t, ok := e.tool(f.Tool)
	if !ok {
		return conversation.CallError, fmt.Sprintf("there is no tool %q", f.Tool)
	}
	args := f.Args
	if args == "" { // after a recovery it is only in the log
		event, err := e.Event(key, f.Seq)
		started, is := event.Body.(conversation.ToolStarted)
		if err != nil || !is {
			e.Log.Error("the arguments of a tool call cannot be read", "session", key.Session, "tenant", key.Tenant, "call", f.Call, "error", err)
			return conversation.CallError, "the arguments could not be read"
		}
		args = started.Args
	}
	result, err := t.Run(ctx, conversation.ToolCall{
		Key: key, Task: f.Task, Call: f.Call, Args: json.RawMessage(args), TraceParent: f.TraceParent,
		Progress: func(note string, percent *int) {
			if ctx.Err() == nil {
				e.progress(key, f, note, percent, published)
			}
		},
		Ask: ask,
	})
	var refusal *conversation.Error
	switch cause := context.Cause(ctx); {
	case err == nil:
		return conversation.CallOK, result
	case errors.Is(cause, errStopped):
		return conversation.CallCancelled, "cancelled"
	case errors.Is(cause, errDeadline):
		return conversation.CallTimeout, "the tool did not end in time"
	case errors.As(err, &refusal):
		return conversation.CallError, refusal.Message
	default:
		return conversation.CallError, err.Error()
	}
}

// progress shows a tool's note in its own session and, for a delegation, with
// the delegation's call in every session above.
func (e *Env) progress(key conversation.SessionKey, f conversation.RunTool, note string, percent *int, at *shown.Position) {
	e.Publisher.Show(key, at.Epoch(), at.Seq(), conversation.Progress{Task: f.Task, Call: f.Call, Note: note, Percent: percent})
	for id := key.Session; ; {
		parent, call, ok := id.Parent()
		if !ok {
			return
		}
		e.Publisher.Show(conversation.SessionKey{Tenant: key.Tenant, Session: parent}, 0, 0, conversation.Progress{Call: call, Note: note, Percent: percent})
		id = parent
	}
}
