package observe

import (
	"time"

	"parley/conversation"
)

// Said notes with which traceparent a client has sent a message that is new.
func (o *Observer) Said(c conversation.Command, r conversation.Receipt) {
	if o.trace == nil || r.Duplicate || r.Message == "" {
		return
	}
	if say, is := c.(conversation.Say); is {
		o.trace.Said(r.Message, say.TraceParent)
	}
}

// Began is when something begins that Committed is told of; zero when nobody wants to know.
func (o *Observer) Began() time.Time {
	if o.trace == nil {
		return time.Time{}
	}
	return time.Now()
}

// Committed takes a commit that is durable, before its Events.
func (o *Observer) Committed(began time.Time, events []conversation.Event, answers int) {
	o.trace.Commit(began, events, answers)
}

// TraceID is the trace of a task, for exemplars: "" when there is none.
func (o *Observer) TraceID(task conversation.TaskID) string { return o.trace.TraceID(task) }

// ModelParent is the traceparent of a model call: "" when there is none.
func (o *Observer) ModelParent(task conversation.TaskID, a conversation.Attempt) string {
	return o.trace.ModelParent(task, a)
}

// ToolParent is the traceparent of a tool call: "" when there is none.
func (o *Observer) ToolParent(task conversation.TaskID, call conversation.CallID) string {
	return o.trace.ToolParent(task, call)
}
