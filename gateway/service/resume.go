package service

import "parley/conversation"

// defaultTail is the number of events that a follow without a cursor begins with.
const defaultTail = 50

// Cursor is how far a client that comes back knows a session.
type Cursor struct {
	Since *uint64 // nil = it knows nothing yet
	Log   string  // the identity of the log that Since counts in; "" = not said
	Tail  *uint64 // how many events it wants when it cannot resume; nil = 50
}

// Resumption says where a follow begins.
type Resumption struct {
	Since   conversation.Seq // behind this event
	Resumed bool
	Reason  string // why not, although the client asked for it
}

// Resume decides where a follow begins: at the client's cursor if the log is still the
// same, however much has happened since, else at its tail.
func (c Cursor) Resume(v conversation.View) Resumption {
	tail := uint64(defaultTail)
	if c.Tail != nil {
		tail = *c.Tail
	}
	r := Resumption{Since: v.Head - conversation.Seq(min(tail, uint64(v.Head)))}
	switch {
	case c.Since == nil:
	case c.Log != "" && c.Log != string(v.Log):
		r.Reason = "other_log"
	case *c.Since > uint64(v.Head):
		r.Reason = "ahead"
	default:
		r.Since, r.Resumed = conversation.Seq(*c.Since), true
	}
	return r
}

// Result is the metric's word for it.
func (r Resumption) Result() string {
	switch {
	case r.Resumed:
		return "resumed"
	case r.Reason != "":
		return r.Reason
	default:
		return "tail"
	}
}
