package conversation

import (
	"time"

	"parley/conversation/listing"
)

// Inputs are handed to Decide with each command, because the
// machine has no clock and cannot see the rest of the node.
type Inputs struct {
	At   time.Time // the wall clock; it may be set back, a session's events are not
	Slot bool      // a task of this session may become RUNNING now; a sub-session needs none

	// Asking is the attempt whose model call the shell has under way; zero = none. A
	// step of which nothing runs ends at once when its task is cancelled.
	Asking Attempt
	// Shown are the texts of the open step that followers have been sent, in the
	// order of its items: what a stop keeps of it.
	Shown []DraftView
}

// Decided says everything that the shell must do about a command. It is the
// answer of Decide, and all that the shell need know of the session until the
// next one. The order of duties, which package conversation's documentation
// tells at length:
//
//  1. at once: Release is done, and the slot agrees with HoldsSlot;
//  2. Events, with Keys, Rows, Cursors, Summary and WakeAt, become durable in one
//     commit; several decisions may share it, in their order;
//  3. only then the sender gets Receipt or Err, followers get Events, and
//     Session.Durable hands out the effects that start something.
//
// If the commit fails, the session is thrown away: its memory is ahead of its
// log. The zero value says that nothing happened.
type Decided struct {
	// Err refuses the command: there are no events then. Receipt answers it
	// otherwise. Either may depend on events that are not durable yet, also when
	// this decision has none, so both wait for all that was decided before.
	Err     *Error
	Receipt Receipt

	Events  []Event   // what happened, already applied; numbered without gaps
	Keys    []KeyAt   // of Events: what the store must not hold yet
	Rows    []TaskRow // tasks whose status changed, as they are now; of one task the last row counts
	Cursors []Cursor  // read cursors: stored, but no events

	// Release only stops something, and is done at once: stopping too early
	// harms nothing, and a failed commit stops everything anyway.
	Release []Effect

	Summary Summary // the session's entry in lists, as of the last event
	Standing
}

// JustRead is true where nothing was decided but how far somebody has read: that may wait for
// a commit of something else.
func (d Decided) JustRead() bool {
	return len(d.Events) == 0 && len(d.Cursors) == 1 && d.Cursors[0].Marking == listing.Marking{}
}

// Standing is the state of a session's work after a command. It holds until the next one.
type Standing struct {
	Head      Seq        // the last event; 0 = the session does not exist
	WakeAt    time.Time  // when the session must be loaded if it is not; goes with each commit. Zero = nothing to do
	NextTick  time.Time  // when a loaded session needs a Tick; one in the past means at once. Zero = not at all
	Busy      bool       // something is open that only a loaded session can bring to its end: it must stay in memory
	HoldsSlot bool       // a root task is RUNNING: one of the node's slots is in use, whether it was asked for or not
	Claim     *Claimable // what an outside runtime may claim; goes with each commit. nil = nothing
	WantsSlot bool       // a task could start with a slot; a request for one is withdrawn when this is false
}

// Receipt is the positive answer to a command; which fields count depends on it.
// Message, Seq and Task name what the command has made, or what its first delivery
// made. OldStatus and NewStatus are of the task that an answer or a cancel speaks
// to; the commit that brings NewStatus may be a later one.
type Receipt struct {
	Message     MessageID
	Seq         Seq
	Duplicate   bool // the first delivery took effect; Disposition may be 0 then: see the event at Seq
	Disposition Disposition
	Task        TaskID
	OldStatus   TaskStatus
	NewStatus   TaskStatus
	PartIndex   PartIndex
	OtherText   bool      // with Duplicate: the stored part says something else
	Author      UserID    // of a hand-out: who wrote the message
	AuthorName  string    // of a hand-out: what that user is called
	Said        Seq       // of a hand-out: the event that has the message's text
	NextPart    PartIndex // of a hand-out: the index of the part that is expected next
	Generation  uint32    // of a hand-out, or of the lease that a runtime's word prolongs
	Until       time.Time // when that lease ends; zero = never
	Deferred    bool      // a reply was kept for the task's next question
	Ignored     bool      // a blank part: nothing was stored
	Policy      Overrides
}
