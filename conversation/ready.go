package conversation

import "time"

// Given is what the shell hands to Decide with each command, because the
// machine has no clock and cannot see the rest of the node.
type Given struct {
	At   time.Time
	Slot bool // a task of this session may become RUNNING now
}

// Decided is what Decide makes of a command: what happened, what is to be done,
// and what to tell the sender. The sender is told only when every event applied
// up to now is durable.
type Decided struct {
	Events  []Event
	Effects []Effect
	Cursors []Cursor
	Rows    []TaskRow // tasks whose status changed, as they are now
	Receipt Receipt
	Err     *Error // the command was refused; there are no events then
}

// Receipt is the positive answer to a command; which fields count depends on it.
type Receipt struct {
	Message     MessageID
	Seq         Seq
	Duplicate   bool // the first delivery took effect; Disposition may be 0 then: see the event at Seq
	Disposition Disposition
	Task        TaskID
	OldStatus   TaskStatus
	NewStatus   TaskStatus
	PartIndex   PartIndex
	Kept        bool // a reply was kept for the task's next question
	Nothing     bool // a blank part: nothing was stored
	Policy      Overrides
}
