package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// stopCall tells the child of a call to stop; its end comes back as usual.
type stopCall struct{ deadLetterOK }

var (
	errToolStopped = errors.New("stopped")
	errToolTime    = errors.New("its time is over")
)

// runTool starts a tool call in a child actor.
func (s *session) runTool(f conversation.RunTool) {
	if s.calls[f.Call] != nil {
		return
	}
	child := &toolCall{e: s.e, key: s.key, parent: s.self, after: s.published, f: f}
	s.keepCall(f.Call, s.ctx.Spawn(actor.PropsFromProducer(func() actor.Actor { return child })))
}

func (s *session) keepCall(call conversation.CallID, pid *actor.PID) {
	if s.calls == nil {
		s.calls = map[conversation.CallID]*actor.PID{}
	}
	s.calls[call] = pid
}

// toolCall is the child actor of one tool call: it gives the call a deadline,
// hands a cancel on, and waits for the end.
type toolCall struct {
	e      *Engine
	key    conversation.SessionKey
	parent *actor.PID
	after  *atomic.Uint64
	f      conversation.RunTool
	began  time.Time
	cancel context.CancelCauseFunc
	timer  *time.Timer
	ended  bool
}

// toolEnd is the end of the tool's goroutine; nobody else ends it in time.
type toolEnd struct {
	deadLetterOK
	status conversation.CallStatus
	result string
}

// Receive is the actor's.
func (c *toolCall) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.start(ctx.Self())
	case *stopCall:
		c.cancel(errToolStopped)
	case *toolEnd:
		if !c.ended {
			c.ended = true
			c.e.system.Root.Send(c.parent, &callEnd{cmd: conversation.ToolDone{
				Call: c.f.Call, Status: m.status, Result: conversation.CutMiddle(m.result, c.e.cfg.ToolOutput), Took: time.Since(c.began),
			}})
		}
	case *callOver:
		ctx.Stop(ctx.Self())
	case *actor.Stopping:
		c.cancel(errToolStopped)
		c.timer.Stop()
	}
}

func (c *toolCall) start(self *actor.PID) {
	c.began = time.Now()
	deadline := c.f.Deadline
	if deadline.IsZero() {
		deadline = c.began.Add(c.e.cfg.ToolDeadline)
	}
	ctx, cancel := context.WithCancelCause(c.e.workCtx)
	c.cancel = cancel
	e, key, f, after := c.e, c.key, c.f, c.after
	end := func(status conversation.CallStatus, result string) {
		e.system.Root.Send(self, &toolEnd{status: status, result: result})
	}
	limit := time.AfterFunc(time.Until(deadline), func() { cancel(errToolTime) })
	// A tool that does not listen is given up; what it still does is its own.
	c.timer = time.AfterFunc(time.Until(deadline)+e.cfg.ToolGrace, func() {
		end(conversation.CallTimeout, "the tool did not end in time and did not stop")
	})
	e.workers.Go("the tool "+f.Tool, func() {
		defer limit.Stop()
		defer cancel(nil)
		status, result := e.runTool(ctx, key, f, after)
		end(status, result)
	}, func(error) { end(conversation.CallError, "the tool failed") })
}

// runTool runs a tool to its end and reads its outcome.
func (e *Engine) runTool(ctx context.Context, key conversation.SessionKey, f conversation.RunTool, after *atomic.Uint64) (conversation.CallStatus, string) {
	tool, ok := e.deps.Tools[f.Tool]
	if !ok {
		return conversation.CallError, fmt.Sprintf("there is no tool %q", f.Tool)
	}
	args := f.Args
	if args == "" { // after a recovery it is only in the log
		event, err := e.event(key, f.Seq)
		started, is := event.Body.(conversation.ToolStarted)
		if err != nil || !is {
			e.log.Error("the arguments of a tool call cannot be read", "session", key.Session, "tenant", key.Tenant, "call", f.Call, "err", err)
			return conversation.CallError, "the arguments could not be read"
		}
		args = started.Args
	}
	result, err := tool.Run(ctx, conversation.ToolCall{
		Key: key, Call: f.Call, Args: json.RawMessage(args),
		Progress: func(note string, percent *int) {
			if ctx.Err() == nil {
				e.progress(key, f, note, percent, conversation.Seq(after.Load()))
			}
		},
	})
	var told *conversation.Error
	switch cause := context.Cause(ctx); {
	case err == nil:
		return conversation.CallOK, result
	case errors.Is(cause, errToolStopped):
		return conversation.CallCancelled, "cancelled"
	case errors.Is(cause, errToolTime):
		return conversation.CallTimeout, "the tool did not end in time"
	case errors.As(err, &told):
		return conversation.CallError, told.Message
	default:
		return conversation.CallError, err.Error()
	}
}

// progress shows a tool's note in its own session and, for a delegation, with
// the delegation's call in every session above.
func (e *Engine) progress(key conversation.SessionKey, f conversation.RunTool, note string, percent *int, after conversation.Seq) {
	e.deps.Publisher.Show(key, after, conversation.Progress{Task: f.Task, Call: f.Call, Note: note, Percent: percent})
	for id := key.Session; ; {
		parent, call, ok := id.Parent()
		if !ok {
			return
		}
		e.deps.Publisher.Show(conversation.SessionKey{Tenant: key.Tenant, Session: parent}, 0, conversation.Progress{Call: call, Note: note, Percent: percent})
		id = parent
	}
}
