package conversation

import (
	"context"
	"iter"
	"slices"
	"time"

	"parley/conversation/attached"
	"parley/conversation/author"
)

// Usage counts what a model call cost, in tokens as its provider counts them.
type Usage struct {
	InputTokens  int
	OutputTokens int
	CachedTokens int  // of InputTokens, those that the provider had in its cache
	Estimated    bool // counted by us, not by the provider
}

// ItemKind tells the items of a model's answer apart.
type ItemKind uint8

// The kinds of items. Stored: do not reorder.
const (
	ItemText ItemKind = iota + 1
	ItemCall
)

var itemKindNames = [...]string{"", "text", "call"}

func (k ItemKind) String() string { return name(itemKindNames[:], int(k)) }

// Item is one output item of a model's answer.
type Item struct {
	Kind     ItemKind
	ID       string // the provider's id of the item; for a call it pairs the result
	Text     string // ItemText
	Tool     string // ItemCall
	Args     string // ItemCall: JSON
	Streamed bool   // deltas of it were shown
	// Opaque is returned to the provider, as it wants, with the item in the
	// next steps of the same task, such as signed reasoning. It is stored, shown to
	// no client, and only for the model that OpaqueBy names.
	Opaque      string
	OpaqueBy    string
	OpaqueStays bool // it is returned in later tasks, too
}

// StopReason says why an answer is not what was asked for: it ended before its end, or
// the model refused.
type StopReason uint8

// The reasons. Stored: do not reorder.
const (
	StopLength   StopReason = iota + 1 // at the limit of tokens
	StopFiltered                       // the provider held back the rest
	StopRefused                        // the model itself said no; its words are whole
)

var stopReasonNames = [...]string{"", "length", "filtered", "refused"}

func (r StopReason) String() string { return name(stopReasonNames[:], int(r)) }

// ModelAnswer is a whole answer.
type ModelAnswer struct {
	Model      string     // who answered, when that is not the Model's own Label: a fallback
	Stop       StopReason // 0 = it ended by itself
	ResponseID string     // the provider's id, opaque
	Items      []Item
	Usage      Usage
}

// Output is one piece of a model's streaming answer: at most one of the fields
// but Item is set. With none of them it is a sign of life.
type Output struct {
	Item  int          // which output item Delta and Call belong to, from 0
	Delta string       // more text of the item
	Done  *ModelAnswer // the terminal piece: the whole answer; a stream that ends without it was cut
}

// Model answers requests. An implementation holds no state of a conversation.
type Model interface {
	// Label names the backend and model for events, hello and metrics: "scripted".
	Label() string
	// Stream asks once. The sequence ends after the piece with Done, or with an
	// error; a *ModelError says what kind. It stops when ctx ends or the caller breaks.
	Stream(ctx context.Context, r Request) iter.Seq2[Output, error]
}

// ModelError is a failure that an adapter understood. The code Forbidden says that the
// provider has withheld the whole answer by its filter, or that the model refused.
type ModelError struct {
	Model      string // who failed, when that is not the Model's own Label
	Failure    Failure
	Permanent  bool // asking again would fail the same way
	NothingRan bool // of a model that acts: it has certainly done nothing
	RetryAfter time.Duration
	Usage      *Usage
	Err        error // for the log
}

func (e *ModelError) Error() string { return e.Failure.Message }
func (e *ModelError) Unwrap() error { return e.Err }

// Request is everything that a model is shown for one attempt of a step. It is the
// same for every attempt. It belongs to the model until Stream ends, but its
// entries are shared with the engine.
type Request struct {
	Session SessionID
	Task    TaskID
	Agent   AgentName
	Depth   int // 0 for the session that a user talks to
	System  string
	Step    StepNumber // 0 = beside the steps: a summary, a report of triage
	Attempt int
	// TraceParent goes to the provider as the W3C's header; "" = the task has no trace.
	TraceParent string

	WrapUp bool // the last answer of a task at its step limit; no tools
	// MustCall: the answer must consist of calls of Tools, which hold the engine's own alone. A wire that can
	// says so to its provider (tool_choice required). No text of such an answer is shown.
	MustCall bool
	Stream   bool          // deltas are wanted
	Entries  []Entry       // the transcript; shared with the engine: read only
	Own      int           // the place from which Entries may be of this task; those before are of others
	Counted  Counts        // of Entries; zero = they were not counted. Who shows other entries takes Own and Counted away
	Last     []Entry       // what is generated anew for each request and comes behind the transcript
	Named    bool          // what users said begins with a line that says who, see package author
	Note     string        // the engine's word at the end of all: no turn of its own, but appended to the last entry; "" = none
	Open     []OpenMessage // messages that the task has read and that are not resolved
	Running  []RunningCall // calls without a result yet, oldest first
	Tools    []ToolSpec
	// Forbidden are, in a step with fewer tools (a wrap-up, a nudge), those of the steps
	// before, which this one may not call: for wires that refuse a transcript with calls whose tools are not described.
	Forbidden []ToolSpec
	// File reads what is attached to an entry; nil = nothing can be read.
	File func(ctx context.Context, f attached.File) ([]byte, error)
	// Waits, unless it is nil, is told by a model that acts that it waits at a limit of its
	// own, Waits(true), and that it goes on, Waits(false). If the latter is false, the step
	// was put off meanwhile, as one that was never asked, and the model must do nothing.
	Waits func(bool) bool
}

// All is everything that the model is shown: the transcript, then the generated
// last entries.
func (r *Request) All() []Entry { return slices.Concat(r.Entries, r.Last) }

// EntryRole says who speaks in an Entry, as providers tell them apart. The engine's own
// words to a model come as RoleUser, in square brackets.
type EntryRole uint8

// The roles.
const (
	RoleUser EntryRole = iota + 1
	RoleAssistant
	RoleTool
)

// Entry is one entry of the transcript that a model is shown.
type Entry struct {
	Role       EntryRole
	Task       TaskID
	Message    MessageID       // RoleUser: the message that it is, verbatim; "" for generated entries
	Text       string          // RoleUser, RoleTool
	ResponseID string          // RoleAssistant: the provider's id of the answer
	Items      []Item          // RoleAssistant
	CallID     string          // RoleTool: the provider's id of the call that it is the result of; RoleUser with Question: of the call that asked
	Question   QuestionID      // RoleUser, generated: the non-blocking question that it answers
	Delegation CallID          // RoleUser, generated: the delegation that finished
	Nudge      []MessageID     // RoleUser, generated: the messages that a coverage nudge names
	Pinned     bool            // RoleUser: the original request, or the summary; it is never left out
	Files      []attached.File // RoleUser, RoleTool: what is attached to the message or the answer
	FileTokens int             // of Files as a model is given them, estimated (FileTokens)
	Pictures   []Picture       // of Files, those that this model is shown, in order; no transcript has any
	Free       bool            // RoleUser: it came by a chat platform, and nothing in it is meant for the model's program
}

// Picture is a file that a model sees.
type Picture struct {
	Type string // as attached.File has it
	Body []byte
}

// OpenMessage is a line of the note "Open messages".
type OpenMessage struct {
	Ordinal int // from 1; inReplyTo and coverMessage may use it
	Message MessageID
	Excerpt string
	Text    string // whole
}

// RunningCall is a call without a result yet.
type RunningCall struct {
	Call  CallID
	ID    string // the provider's call id
	Tool  string // the tool; "delegate" for delegations
	Agent AgentName
}

// TranscriptWindow is the least number of the newest events that a rebuilt
// transcript is fed with.
const TranscriptWindow = 1000

// TranscriptRanges are the parts of a log that a transcript is rebuilt from, in
// the order in which they are fed to it. There are few of them, however long the
// log is and whatever waits in it.
type TranscriptRanges struct {
	Voices  author.Voices // for Transcript.Hear
	Cleared Seq           // the last clear, for Transcript.Clear; 0 = there was none
	Origin  *Range        // of the original request, from accepted to read, for Transcript.Pin; nil: it is in the others
	Own     []Range       // where the events of tasks are that must be whole, for Transcript.AddOwn
	Tasks   []TaskID      // those tasks
	After   Seq           // all that follows is for Transcript.Add
}

// A call's result begins with one of these, after "error: ", where a limit has
// refused it.
const (
	TooManyTools       = "too many tools at once"
	TooManyDelegations = "too many delegations at once"
)

// The results of the engine's own tools, known at once: ResultDelivered that of respondToUser (D-09),
// ResultCovered that of coverMessage.
const (
	ResultDelivered = "delivered"
	ResultCovered   = "covered"
)

// NoResult is the result of a call that has none yet and needs none in this
// request: its task waits while another one is shown. Models compare with it.
const NoResult = "no result yet"

// SummaryAsk starts the last entry of a request for a summary.
const SummaryAsk = "[summarise the conversation above"
