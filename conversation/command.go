package conversation

import (
	"encoding/json"
	"maps"
	"time"

	"parley/conversation/access"
	"parley/conversation/attached"
	"parley/conversation/listing"
)

// Command is an input to a session: what a person said, what a model answered,
// what a tool returned, that time has passed. Every command enters by the
// session's mailbox and by Decide; there is no other way in. The set is closed.
//
// Every command may be delivered twice, late, or after the thing that it speaks
// of has ended; Decide then changes nothing and says so.
//
//sumtype:decl
type Command interface {
	// Name is the command's label in metrics and logs.
	Name() string
	// Class tells the shell how to treat a command before it is decided.
	Class() Class
	isCommand()
}

// Class sorts commands for those who limit and schedule them. The zero value is a
// command that comes from the engine itself, or only asks.
type Class struct {
	// AddsWork: it brings something new when a client says it, so it is refused
	// while storage is short. Answers and cancels do not, and neither does what a
	// session says to another or to itself: running work hangs on them. Nor does what
	// takes away: who is to lose a right could keep it by filling the store.
	AddsWork bool
	// Stops: it ends something. It is never refused because others wait: what runs
	// would run on (N-06).
	Stops bool
	// Creates: an absent session may be made for it.
	Creates bool
	// MayStart: a task may be RUNNING after it that was not before, so a slot is
	// worth having at hand.
	MayStart bool
	// Bytes are those of the text that a client has written into it.
	Bytes int
	// Needs is the right that a user must have; the zero value is for what only the engine
	// and those whom it lets in without a user (runtimes) may say.
	Needs access.Right
}

// Overrides are the policies of one session that differ from the configuration:
// dotted key → JSON value. They are kept as they were said and take effect on top
// of the configuration of the day: a value that it does not allow any more has no
// effect, and a session with such a value can still be loaded. nil = none.
type Overrides map[string]json.RawMessage

// bytes is the size of what was said.
func (o Overrides) bytes() (n int) {
	for key, value := range o {
		n += len(key) + len(value)
	}
	return n
}

// With is o after a change, in a map of its own: null and nil take one away. nil = none is left.
func (o Overrides) With(changes Overrides) Overrides {
	next := make(Overrides, len(o)+len(changes))
	maps.Copy(next, o)
	for key, value := range changes {
		if value == nil || string(value) == "null" {
			delete(next, key)
		} else {
			next[key] = value
		}
	}
	if len(next) == 0 {
		return nil
	}
	return next
}

// Create opens a root session. On a session that exists already it changes
// nothing and answers as the first time.
type Create struct {
	Title  string
	Agent  AgentName // "" = coordinator
	Owner  UserID
	Access Access
	Policy Overrides
	Admin  bool // who says it may set policies above what the operator has configured
}

// Say is a message from a user, a channel, a runtime or a parent session.
type Say struct {
	Author      UserID
	AuthorName  string // what the author is called; "" = by the user id alone
	Via         Via
	ClientMsgID ClientMsgID
	Text        string
	InReplyTo   MessageID
	Files       []attached.File // what the session has of them was looked up: see package blobs
	Mode        Mode            // ModeDefault: the policy decides, and an open blocking question takes the message
	Duplicate   *Duplicate
	// TraceParent is the W3C's header of the client's own trace; "" = none. It is not stored.
	TraceParent string
}

// Answer answers an open question by its id.
type Answer struct {
	Author      UserID
	AuthorName  string
	Via         Via
	ClientMsgID ClientMsgID
	Question    QuestionID
	Text        string
	Duplicate   *Duplicate
}

// Reply answers the newest open question of a task, a blocking one first: the
// reply route of the tasks API.
type Reply struct {
	Author      UserID
	AuthorName  string
	Via         Via
	ClientMsgID ClientMsgID
	Task        TaskID
	Text        string
	Duplicate   *Duplicate
}

// Edit changes the text of a message that nothing has read yet.
type Edit struct {
	By      UserID
	Message MessageID
	Text    string
}

// Withdraw takes back a message that nothing has read yet.
type Withdraw struct {
	By      UserID
	Message MessageID
}

// Move puts a waiting message before another; Before "" = to the front.
type Move struct {
	By      UserID
	Message MessageID
	Before  MessageID
}

// Cancel ends a task early. Task "" = the running one. With a client's id it
// takes effect once: sent again after its task has ended, it must not end the next.
type Cancel struct {
	Task        TaskID
	By          CancelBy // ByUser or ByParent
	Author      UserID   // with ClientMsgID: who asks
	ClientMsgID ClientMsgID
	Reason      string
	Drop        bool // also the waiting messages accepted before
	Duplicate   *Duplicate
}

// Update changes what a session is called, who may do what in it, who answers and its policies.
type Update struct {
	By      UserID // who says it: anybody may end his own membership
	Title   *string
	Agent   AgentName // "" = as it is
	Access  *Access
	Policy  Overrides              // a nil value in it removes the override
	Members map[UserID]access.Role // access.None removes a member
	Admin   bool                   // who says it may set policies above what the operator has configured
	Unnamed bool                   // Title counts only while nobody has given one
}

// Close ends a session: it takes no more messages.
type Close struct{ Reason string }

// Seen moves a user's read cursor. It is stored but is no event.
type Seen struct {
	User UserID
	Seq  Seq
}

// Mark changes what a user has marked the session with, for himself alone. It is stored at
// once, but is no event.
type Mark struct {
	User UserID
	listing.Marking
}

// Clear makes tasks that begin from now on see nothing of what was before.
type Clear struct{ By UserID }

// AddPart is a part delivered by an outside runtime. A plain message, which has
// no source, is repeatable by its client's id alone.
type AddPart struct {
	Author      UserID
	Source      string // as the runtime calls it; "" = a plain message
	Index       PartIndex
	Indexed     bool        // the runtime named Index; without it and Final the part is the only one
	Generation  uint32      // of the hand-out that it answers; 0 = none
	ClientMsgID ClientMsgID // without Source
	Text        string      // with Final it may be blank: nothing is shown then
	Final       bool
	Duplicate   *Duplicate
	NextFree    PartIndex // the store's hint for a part that follows another one of a source that is kept apart (dedup.Follow)
}

// HandOut gives the message of a session's RUNNING outside task to a runtime, under
// a lease. The same runtime is given it again, as long as it has given no sign of
// life.
type HandOut struct{ Runtime RuntimeName }

// RuntimeSays is a runtime's word about a message that it was handed: read, alive
// or failed.
type RuntimeSays struct {
	Message    MessageID
	Status     RuntimeState
	Generation uint32
	Error      string // with RuntimeFailed: a sentence that clients may read
	Permanent  bool   // with RuntimeFailed: another runtime would fail the same way
}

// DedupText is the text by which a second delivery of this client id is recognised.
// Like that of a part it begins with a byte that no message's text has, so that
// a message under the same id never passes for a repetition.
func (c Cancel) DedupText() string { return saidToCancel(c.Reason, c.Drop) }

// DedupText is the text by which a second delivery of this client id is recognised.
func (c AddPart) DedupText() string { return saidAsPart(c.Text) }

func saidToCancel(reason string, drop bool) string {
	if drop {
		return "\xffcancel, drop " + reason
	}
	return "\xffcancel " + reason
}

func saidAsPart(text string) string { return "\xffpart " + text }

// Tell is the first message of a sub-session and creates it: the objective of a
// delegation. Sent again, it is answered with the result, or with every open question.
type Tell struct {
	Agent     AgentName
	Owner     UserID
	Access    Access
	Policy    Overrides // those of the parent
	Lifted    []string  // those of them that hold above what is configured
	Objective string
}

// Recovered is the first command after a session was loaded: it decides what
// becomes of what was open when its last owner lost it.
type Recovered struct {
	Cause  Cause   // why: CauseMoved if that owner lives; anything else means that its process ended
	Jitter float64 // in [0, 1): the shell's random draw for the back-off
}

// Tick says that the time of Standing.NextTick or WakeAt has come.
type Tick struct{}

// SlotGranted answers a WantSlot effect: Inputs.Slot is true with it.
type SlotGranted struct{}

// Drain parks the open step: its model call was stopped because the node goes away.
type Drain struct{}

// ModelAnswered is the answer of a model call.
type ModelAnswered struct {
	Step    StepNumber
	Attempt int
	Model   string
	Answer  ModelAnswer
	Took    time.Duration
	Shown   []OpenMessage // of the request; a session itself remembers only the beginning of a long message
}

// ModelFailed is the failure of a model call.
type ModelFailed struct {
	Step       StepNumber
	Attempt    int
	Model      string
	Failure    Failure // the sentence is shown to clients: no secrets, no internals
	Permanent  bool    // another attempt would fail the same way
	NothingRan bool    // of a model that acts: it has certainly done nothing
	RetryAfter time.Duration
	Jitter     float64 // in [0, 1): the shell's random draw for the back-off
	Usage      *Usage
	Took       time.Duration
}

// ModelStopped says that a model call which was told to stop has ended: nothing of
// it runs any more.
type ModelStopped struct {
	Step    StepNumber
	Attempt int
	Usage   *Usage
	Took    time.Duration
}

// Triaged is what the triage agent reports of the waiting messages, beside the
// moves that it has made.
type Triaged struct{ Report string }

// ToolDone is the end of a tool call, or of the forwarding of an amendment.
type ToolDone struct {
	Call   CallID
	Status CallStatus
	Result string
	Took   time.Duration
}

// ToolAsks says that a running tool asks the user. Exactly one AnswerTool follows,
// unless the call ends, or is told to stop, before.
type ToolAsks struct {
	Call    CallID
	Text    string
	Choices []string // none = any text
}

// ToolAskEnds says that a tool does not wait for the answer to its question any more.
type ToolAskEnds struct{ Call CallID }

// DelegationAsked says that a delegation has an open question. The question's
// id is the sub-session's own.
type DelegationAsked struct {
	Delegation CallID
	Question   QuestionID
	Text       string
	Choices    []string
	ExpiresAt  time.Time
	Default    *string
	Approval   *Approval
}

// DelegationQuestions says that a delegation works, and which questions it has
// open, by the sub-session's own ids: all of them.
type DelegationQuestions struct {
	Delegation CallID
	Open       []QuestionID
}

// DelegationQuestionClosed says that a delegation's question closed without an
// answer from here: it expired, or its task ended.
type DelegationQuestionClosed struct {
	Delegation CallID
	Question   QuestionID
	Reason     ClosedReason
	Default    *string // with QuestionExpired: the default that answered it
}

// DelegationDone is the end of a delegation.
type DelegationDone struct {
	Delegation CallID
	Status     CallStatus
	Summary    string
	Took       time.Duration
}

// Compacted brings the summary of the log up to Upto.
type Compacted struct {
	Upto         Seq
	Summary      string
	TokensBefore int
	TokensAfter  int
}
