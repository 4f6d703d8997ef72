package conversation

import (
	"slices"
	"time"

	"parley/conversation/access"
	"parley/conversation/attached"
)

// Event is something that happened in a session. Events are the only thing that
// changes a session, they are stored in order, and each one is shown to clients:
// there is no stored event that a client does not see, and no durable event of
// the protocol that is not stored.
type Event struct {
	Seq  Seq       // from 1, gapless in a session
	At   time.Time // milliseconds, UTC, never decreasing in a session
	Task TaskID    // the task that it belongs to; "" if none
	Body EventBody
}

// EventKind numbers the kinds of events. Stored: do not reorder, never reuse.
type EventKind uint8

// The kinds of events, in the order of docs/PROTOCOL.md.
const (
	KindSessionCreated EventKind = iota + 1
	KindSessionUpdated
	KindSessionClosed
	KindMessageAccepted
	KindMessageEdited
	KindMessageWithdrawn
	KindMessageMoved
	KindMessageResolved
	KindTaskStatus
	KindTaskCancelling
	KindStepStarted
	KindStepFinished
	KindPartialResponse
	KindResponse
	KindQuestion
	KindQuestionAnswered
	KindQuestionClosed
	KindToolStarted
	KindToolFinished
	KindDelegationStarted
	KindDelegationFinished
	KindCoverageNudge
	KindContextCompacted
	KindRuntimeStatus
	KindContextCleared
)

var kindNames = [...]string{
	"", "session_created", "session_updated", "session_closed",
	"message_accepted", "message_edited", "message_withdrawn", "message_moved", "message_resolved",
	"task_status", "task_cancelling", "step_started", "step_finished", "partial_response", "response",
	"question", "question_answered", "question_closed", "tool_started", "tool_finished",
	"delegation_started", "delegation_finished", "coverage_nudge", "context_compacted",
	"runtime_status", "context_cleared",
}

// EventKinds lists every kind, for tests that must cover them all.
func EventKinds() []EventKind {
	kinds := make([]EventKind, 0, len(kindNames)-1)
	for i := 1; i < len(kindNames); i++ {
		kinds = append(kinds, EventKind(i))
	}
	return kinds
}

// String is the event's "type" in the protocol.
func (k EventKind) String() string { return name(kindNames[:], int(k)) }

// EventBody is the content of an event. The set of bodies is closed. Fields under
// "private" are stored but are not part of the frame that clients get.
//
//sumtype:decl
type EventBody interface {
	Kind() EventKind
	isEvent()
}

// SessionCreated is the first event of every session.
type SessionCreated struct {
	Title  string
	Agent  AgentName
	Owner  UserID
	Access Access
	Policy Overrides // policies that differ from the configuration
	Lifted []string  // private: the keys of Policy that hold above what is configured: an administrator has said so
}

// SessionUpdated names what changed; nil fields did not.
type SessionUpdated struct {
	Title   *string
	Agent   AgentName // "" = as it was
	Access  *Access
	Policy  Overrides              // only the keys that changed; nil = none
	Lifted  []string               // private: those of them that hold above what is configured
	Members map[UserID]access.Role // only those that changed, access.None = not a member any more; nil = none
}

// ChangesAudience is true for events after which others may read the session.
func ChangesAudience(events []Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool {
		b, is := e.Body.(SessionUpdated)
		return is && (b.Access != nil || b.Members != nil)
	})
}

// SessionClosed closes a session: it takes no more messages. Running work
// goes on, and its log stays until it is erased.
type SessionClosed struct{ Reason string }

// MessageAccepted says that a message is the server's business from now on: it
// is stored, and exactly one MessageResolved will follow.
type MessageAccepted struct {
	Message     MessageID
	ClientMsgID ClientMsgID
	Author      UserID
	AuthorName  string // what the author is called; "" = by the user id alone
	Text        string
	Disposition Disposition
	Via         Via
	Mode        Mode       // what the author asked for; ModeDefault if nothing
	InReplyTo   MessageID  // the author's hint; "" if none
	Question    QuestionID // with Answered: the question that it answers
	Files       []attached.File

	// private

	NotBefore time.Time // collect: when its task may start; zero = at once
	Steer     bool      // a later steer message may join the task that it created
	Preempts  bool      // interrupt: its task goes before all others
	Deferred  bool      // a reply kept for the task's next question (reply.on_busy=queue)
}

// MessageEdited replaces the text of a message that nothing has read yet. Its id,
// its place and its client id stay: a repetition of the first text is still known.
type MessageEdited struct {
	Message MessageID
	Text    string
}

// MessageWithdrawn takes a message back that nothing has read yet. NewTrigger
// is the message that takes its place as the task's trigger, if it was that.
type MessageWithdrawn struct {
	Message    MessageID
	NewTrigger MessageID // "" = the task keeps its trigger, or ends
}

// MessageMoved puts a waiting message before another one; Before "" = to the front.
type MessageMoved struct {
	Message MessageID
	Before  MessageID

	// private

	Report string // of the triage agent, for the next step: then the message stands where it stood
}

// MessageResolved says what became of a message. Exactly one for each accepted
// message, in the commit that ends the matter; after it nothing refers to the
// message any more, except as the trigger of its task.
type MessageResolved struct {
	Message  MessageID
	How      Resolution
	Evidence Evidence   // with ResolvedAnswered: how it is known; 0 in logs of before it was kept
	Part     *PartIndex // the part that answered it
	Question QuestionID // the question that it was merged into
}

// TaskStatusChanged moves a task to another status. Without Old it creates a
// QUEUED task of leftover messages.
type TaskStatusChanged struct {
	Trigger  MessageID
	Old      TaskStatus // 0: the task is born with this event
	New      TaskStatus
	Messages []MessageID // leftovers: the messages of the new task, trigger first
	Reason   string
	Error    *Failure
}

// Failure is an error as events carry it.
type Failure struct {
	Code    Code
	Message string
}

// CancelBy says who ends a task early.
type CancelBy uint8

// The reasons for an early end. Stored: do not reorder.
const (
	ByUser CancelBy = iota + 1
	ByInterrupt
	ByError
	ByParent
)

var cancelByNames = [...]string{"", "user", "interrupt", "error", "parent"}

func (b CancelBy) String() string { return name(cancelByNames[:], int(b)) }

// TaskCancelling is the first phase of every end but COMPLETE: nothing new is
// started, open calls get the order to stop, and Until bounds the wait for it. A
// command with a client's id that finds its task in that phase says it again,
// with the same Until: the log keeps its id.
type TaskCancelling struct {
	By     CancelBy
	Until  time.Time
	Reason string

	// private

	Error       *Failure // with ByError: what the task will end with
	Drop        bool     // the waiting messages accepted before this end with the task
	Author      UserID   // who asked, if the client has a name for its command
	ClientMsgID ClientMsgID
}

// DedupText is that of the command; see Cancel.DedupText.
func (b TaskCancelling) DedupText() string { return saidToCancel(b.Reason, b.Drop) }

// Cause says why an attempt after the first was made. A cause that counts against
// a limit ends the task in ERROR when the limit is reached.
type Cause uint8

// The causes. Stored: do not reorder.
const (
	CauseError       Cause = iota + 1 // counts against retry.max_attempts
	CauseInterrupted                  // counts against retry.max_interrupted
	CauseDrain                        // counts against nothing
	CauseMoved                        // counts against retry.max_moved: the attempt's owner lives and lost the session
)

var causeNames = [...]string{"", "error", "interrupted", "drain", "moved"}

func (c Cause) String() string { return name(causeNames[:], int(c)) }

// StepStarted opens a step, or another attempt of it. A model call is in flight
// exactly while a step is open.
type StepStarted struct {
	Step      StepNumber
	Attempt   int // from 1
	Agent     AgentName
	Read      []MessageID // the messages that this step's model call newly sees, in order; the same in every attempt
	Cause     Cause       // 0 for the first attempt
	Error     *Failure    // of the attempt before
	Usage     *Usage      // of the attempt before
	NotBefore time.Time   // zero = at once

	// private

	WrapUp bool // the last step at task.max_steps: tools off, reads nothing new
}

// StepOutcome says how a step ended.
type StepOutcome uint8

// The outcomes. Stored: do not reorder.
const (
	StepOK StepOutcome = iota + 1
	StepError
	StepCancelled
	StepUnknown // it did not end in time, or was interrupted and may have acted: what it did is not known
)

var outcomeNames = [...]string{"", "ok", "error", "cancelled", "unknown"}

func (o StepOutcome) String() string { return name(outcomeNames[:], int(o)) }

// Decision is one thing that a step's answer asks for. The calls of the answer are the
// decisions: nothing else sorts them.
type Decision uint8

// The decisions. Stored: do not reorder.
const (
	DecisionAnswer Decision = iota + 1
	DecisionAsk
	DecisionDelegate
	DecisionTool
)

var decisionNames = [...]string{"", "ANSWER", "ASK", "DELEGATE", "TOOL"}

func (d Decision) String() string { return name(decisionNames[:], int(d)) }

// StepFinished closes a step: with the whole answer, or with the failure after
// which no attempt is left, or because its task was cancelled. Items, calls and
// what they resolve are in the same commit.
type StepFinished struct {
	Step      StepNumber
	Attempt   int
	Outcome   StepOutcome
	Decisions []Decision
	Model     string
	Usage     Usage
	Took      time.Duration // the attempt's model call; milliseconds in the frame
	Stop      StopReason    // why the answer ended before its end; 0 = it did not
	Error     *Failure

	// private

	ResponseID string       // the provider's id of the answer, opaque
	Items      []Item       // the answer as it came, in order
	Results    []CallResult // results that were known at once: "delivered", "question sent, continuing", …
}

// CallResult is a result that needed no call to run: the engine's own tools have
// theirs at once. It pairs a call of an answer, by the provider's call id, with a result text.
type CallResult struct {
	ID   string
	Text string
}

// ResponseKind marks a response that is not the model's final answer.
type ResponseKind uint8

// The kinds of responses. Stored: do not reorder.
const (
	ResponsePlain ResponseKind = iota
	ResponseError
	ResponseLimit
	ResponseEmpty
)

var responseKindNames = [...]string{"", "error", "limit", "empty"}

func (k ResponseKind) String() string { return name(responseKindNames[:], int(k)) }

// Part is the common content of PartialResponse and Response: one assistant
// message, keyed by (Source, Index). A part without Source is a plain message
// of an outside runtime and has no key.
//
// The parts of a source are numbered without gaps from 0, across all steps of its
// task; a reader that has one knows whether it has missed another.
type Part struct {
	Message   MessageID
	Source    SourceID
	Index     PartIndex
	Text      string
	InReplyTo MessageID // "" if none
	Guessed   bool      // nobody named InReplyTo: the engine guessed it, for display alone
	Cut       bool      // the text ended before its end: by a stop, or at the model's limit
	Draft     DraftID   // the streamed draft that it replaces; "" if none

	// private

	Author      UserID // of a plain message, if the runtime has a name for it
	ClientMsgID ClientMsgID
}

// DedupText is that of the command that a plain message came with; see AddPart.DedupText.
func (p Part) DedupText() string { return saidAsPart(p.Text) }

// PartialResponse shows a part while its task goes on.
type PartialResponse struct{ Part }

// Response shows the last part of a task that ends COMPLETE or in ERROR; a task that
// is cancelled, or has nothing to say, ends without one. After it the task shows
// nothing more.
type Response struct {
	Part
	ResponseKind ResponseKind
	Promoted     bool // the part was shown before; the same message id, source, index and text
}

// Asked is the event "question": a question is open from now on. It ends with
// QuestionAnswered or QuestionClosed, at the latest when its task is cancelled.
type Asked struct {
	Question   QuestionID
	Text       string
	Blocking   bool
	About      MessageID // the message that made the task ask; "" if none is known
	Choices    []string
	ExpiresAt  time.Time // zero = never
	Default    *string   // the answer if it expires
	Delegation CallID    // the delegation that asks; "" if the task itself does
	Approval   *Approval

	// private

	ModelCall string // the provider's id of the call that asked
	Call      CallID // the tool call that asks, and goes on with the answer; "" = a model asks
}

// Approval is a question about a tool call that waits to be allowed.
type Approval struct {
	Call CallID
	Tool string
	Args string // JSON
}

// QuestionAnswered closes a question with an answer.
type QuestionAnswered struct {
	Question QuestionID
	Message  MessageID // the message that answered; "" for a default
	Text     string
	By       string // the author, or "default"
}

// ClosedReason says why a question closed without an answer.
type ClosedReason uint8

// The reasons. Stored: do not reorder.
const (
	QuestionExpired ClosedReason = iota + 1
	QuestionSuperseded
	QuestionCancelled
)

var closedReasonNames = [...]string{"", "expired", "superseded", "cancelled"}

func (r ClosedReason) String() string { return name(closedReasonNames[:], int(r)) }

// QuestionClosed closes a question without an answer.
type QuestionClosed struct {
	Question QuestionID
	Reason   ClosedReason
}

// CallStatus says how a call ended. Only CallOK is a success; whatever the status,
// the model is shown a result.
type CallStatus uint8

// The statuses of calls. Stored: do not reorder.
const (
	CallOK CallStatus = iota + 1
	CallError
	CallTimeout
	CallCancelled
	CallDenied
	CallUnknown // started before a crash, outcome unknown
	CallFailed  // delegations: the other agent's task ended in ERROR
)

var callStatusNames = [...]string{"", "ok", "error", "timeout", "cancelled", "denied", "unknown", "failed"}

func (s CallStatus) String() string { return name(callStatusNames[:], int(s)) }

// ToolStarted is durable before the tool runs. One that the session's caller runs is
// followed by the question to it, in the same commit.
type ToolStarted struct {
	Call       CallID
	Tool       string
	Args       string    // JSON, whole; a frame shows at most 4 KiB of it
	Deadline   time.Time // zero = none: it waits for its caller
	Delegation CallID    // with a delegate's tool shown in the parent; "" otherwise
	Caller     bool      // the session's caller runs it: the question that names the call waits for the result

	// private

	ModelCall  string // the provider's call id
	Idempotent bool   // may run again with the same call id after a crash
}

// ToolFinished ends a tool call, exactly once. A result that comes after it is
// dropped.
type ToolFinished struct {
	Call    CallID
	Status  CallStatus
	Summary string // whole result; a frame shows at most 4 KiB of it
	Took    time.Duration
}

// DelegationStarted gives an objective to another agent, which works on it in a
// session of its own. It is durable before that session gets its objective. It ends with
// DelegationFinished: by its result, by Deadline, or with its task.
type DelegationStarted struct {
	Delegation CallID
	Agent      AgentName
	Objective  string
	Session    SessionID // the sub-session
	Deadline   time.Time

	// private

	ModelCall string // the provider's call id; several delegations may share it (delegateParallel)
}

// DelegationFinished ends a delegation: ok, failed, timeout or cancelled.
type DelegationFinished struct {
	Delegation CallID
	Status     CallStatus
	Summary    string
	Took       time.Duration
}

// NudgeForm says what a CoverageNudge asks for.
type NudgeForm uint8

// The forms. Stored: do not reorder.
const (
	NudgePlain    NudgeForm = iota // in old logs: an answer to each; with questions as NudgeQuestion
	NudgeClosing                   // what became of each, by calls alone: nothing else of the answer is shown
	NudgeAlone                     // an answer to the one message
	NudgeJudged                    // as NudgeClosing, asked of the model of receipts.judge
	NudgeQuestion                  // whether the messages answer the questions
)

var nudgeFormNames = [...]string{"", "closing", "alone", "judged", "question"}

func (f NudgeForm) String() string { return name(nudgeFormNames[:], int(f)) }

// CoverageNudge asks about messages that the model has read and not addressed, when it
// would finish its task otherwise. Each is asked about alone coverage.max_nudges times at
// most; then it ends unanswered.
type CoverageNudge struct {
	Messages  []MessageID
	Questions []QuestionID // open ones that Messages may answer: the model is to say so
	Nudge     int          // from 1, counts in the task
	Form      NudgeForm
}

// ContextCompacted says that the model's view of the log up to Upto is a summary.
// It changes what models are shown, never what clients see or what is stored.
type ContextCompacted struct {
	Upto         Seq
	TokensBefore int
	TokensAfter  int

	// private

	Summary string
}

// RuntimeState is what an outside runtime last did with a message.
type RuntimeState uint8

// The states. Stored: do not reorder.
const (
	RuntimeHandedOut RuntimeState = iota + 1 // by a claim: the runtime has the message, and a lease on it
	RuntimeRead                              // the runtime says that it has read it
	RuntimeAlive                             // the runtime says that it is at work
	RuntimeFailed                            // the runtime has given it up, or its lease ran out
)

var runtimeStateNames = [...]string{"", "handed_out", "read", "alive", "failed"}

func (s RuntimeState) String() string { return name(runtimeStateNames[:], int(s)) }

// ParseRuntimeState reads a status word of the protocol.
func ParseRuntimeState(s string) (RuntimeState, bool) {
	i, ok := index(runtimeStateNames[:], s)
	return RuntimeState(i), ok && i > 0
}

// LeaseRanOut is the error of a RuntimeFailed that no runtime has said: there was no
// sign of life of it for the length of its lease.
const LeaseRanOut = "the lease ran out: there was no sign of life"

// RuntimeStatus says how far an outside runtime is with a message. A hand-out
// begins a lease, which each sign of life prolongs.
type RuntimeStatus struct {
	Message    MessageID
	Status     RuntimeState
	Generation uint32      // of the hand-out, from 1 for each message
	Runtime    RuntimeName // the process that has it
	Until      time.Time   // when the lease ends; zero = never, or there is none any more
	Error      string      // with RuntimeFailed: a sentence; "" if none was given

	// private

	Permanent bool      // with RuntimeFailed: another runtime would fail the same way
	NotBefore time.Time // with RuntimeFailed: it is not handed out again before; zero = at once
}

// ContextCleared says that no model sees what was before: tasks that begin after it
// know nothing of it. The log stays.
type ContextCleared struct{ By UserID }
