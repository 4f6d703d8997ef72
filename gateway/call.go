package gateway

import (
	"context"

	"parley/conversation"
)

// call is a tool call or a delegation as the log tells it.
type call struct {
	started, finished *conversation.Event
}

// findCall looks a call up in the log.
func (c *core) findCall(ctx context.Context, key conversation.SessionKey, id conversation.CallID) (call, error) {
	var found call
	for e, err := range c.events(ctx, key, 0, 0) {
		if err != nil {
			return found, err
		}
		switch b := e.Body.(type) {
		case conversation.ToolStarted:
			if b.Call == id {
				found.started = keep(e)
			}
		case conversation.DelegationStarted:
			if b.Delegation == id {
				found.started = keep(e)
			}
		case conversation.ToolFinished:
			if b.Call == id {
				found.finished = keep(e)
			}
		case conversation.DelegationFinished:
			if b.Delegation == id {
				found.finished = keep(e)
			}
		}
		if found.finished != nil {
			break
		}
	}
	return found, nil
}

func (f call) append(o *object, redact bool) {
	switch b := f.started.Body.(type) {
	case conversation.ToolStarted:
		o.text("call", string(b.Call))
		o.text("tool", b.Tool)
		switch {
		case redact:
			o.raw("args", redactedJSON)
		case validJSON([]byte(b.Args)):
			o.key("args")
			o.b = appendCompact(o.b, []byte(b.Args))
		default:
			o.text("args", b.Args)
		}
		o.time("deadline", b.Deadline)
		o.optional("delegation", string(b.Delegation))
	case conversation.DelegationStarted:
		o.text("call", string(b.Delegation))
		o.text("agent", string(b.Agent))
		o.text("objective", b.Objective)
		o.text("session", string(b.Session))
		o.time("deadline", b.Deadline)
	}
	o.optional("task", string(f.started.Task))
	o.time("started_at", f.started.At)
	if f.finished == nil {
		return
	}
	var status conversation.CallStatus
	var result string
	var ms int64
	switch b := f.finished.Body.(type) {
	case conversation.ToolFinished:
		status, result, ms = b.Status, b.Summary, b.Took.Milliseconds()
	case conversation.DelegationFinished:
		status, result, ms = b.Status, b.Summary, b.Took.Milliseconds()
	}
	o.text("status", status.String())
	if redact {
		o.raw("result", redactedJSON)
	} else {
		o.text("result", result)
	}
	o.int("ms", ms)
	o.time("finished_at", f.finished.At)
}

// keep copies an event out of the record that it came with.
func keep(e *conversation.Event) *conversation.Event {
	kept := *e
	return &kept
}
