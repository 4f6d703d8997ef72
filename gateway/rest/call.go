package rest

import (
	"context"

	"parley/conversation"
	"parley/gateway/protocol"
)

// call is a tool call or a delegation as the log tells it.
type call struct {
	started, finished *conversation.Event
}

// findCall looks a call up in the log.
func (c *API) findCall(ctx context.Context, key conversation.SessionKey, id conversation.CallID) (call, error) {
	var found call
	for e, err := range c.Events(ctx, key, 0, 0) {
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

func (f call) append(o *protocol.Object, redact bool) {
	switch b := f.started.Body.(type) {
	case conversation.ToolStarted:
		o.Text("call", string(b.Call))
		o.Text("tool", b.Tool)
		switch {
		case redact:
			o.Raw("args", protocol.RedactedJSON)
		case protocol.ValidJSON([]byte(b.Args)):
			o.Key("args")
			o.Bytes = protocol.AppendCompact(o.Bytes, []byte(b.Args))
		default:
			o.Text("args", b.Args)
		}
		o.Time("deadline", b.Deadline)
		o.Optional("delegation", string(b.Delegation))
	case conversation.DelegationStarted:
		o.Text("call", string(b.Delegation))
		o.Text("agent", string(b.Agent))
		o.Text("objective", b.Objective)
		o.Text("session", string(b.Session))
		o.Time("deadline", b.Deadline)
	}
	o.Optional("task", string(f.started.Task))
	o.Time("started_at", f.started.At)
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
	o.Text("status", status.String())
	if redact {
		o.Raw("result", protocol.RedactedJSON)
	} else {
		o.Text("result", result)
	}
	o.Int("ms", ms)
	o.Time("finished_at", f.finished.At)
}

// keep copies an event out of the record that it came with.
func keep(e *conversation.Event) *conversation.Event {
	kept := *e
	return &kept
}
