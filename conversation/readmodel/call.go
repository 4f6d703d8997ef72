package readmodel

import "parley/conversation"

// Call is a tool call or a delegation. It begins anywhere before the call.
type Call struct {
	Started  *conversation.Event // a ToolStarted or DelegationStarted; nil = not seen
	Finished *conversation.Event // a ToolFinished or DelegationFinished; nil = it runs

	id conversation.CallID
}

// NewCall begins a call.
func NewCall(id conversation.CallID) *Call { return &Call{id: id} }

// Add takes the next event; it is done when the call has finished.
func (c *Call) Add(e *conversation.Event) (done bool) {
	switch b := e.Body.(type) {
	case conversation.ToolStarted:
		keep(&c.Started, e, b.Call == c.id)
	case conversation.DelegationStarted:
		keep(&c.Started, e, b.Delegation == c.id)
	case conversation.ToolFinished:
		keep(&c.Finished, e, b.Call == c.id)
	case conversation.DelegationFinished:
		keep(&c.Finished, e, b.Delegation == c.id)
	}
	return c.Finished != nil
}

// keep copies an event: the one that was given belongs to its record.
func keep(dst **conversation.Event, e *conversation.Event, it bool) {
	if it {
		kept := *e
		*dst = &kept
	}
}
