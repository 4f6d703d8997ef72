package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Store keeps sessions: one ordered log of records each, with the keys, rows
// and indexes that belong to it, committed together by one writer at a time.
//
// Errors are the Err… values below, *DuplicateError, the context's error, or
// something else; for Commit "something else" means that the outcome is unknown
// (see Commit).
type Store interface {
	// LogID is the identity of this store's logs. It changes when a backup is restored.
	LogID() LogID

	// Acquire makes the caller the only writer of the session: the epoch is
	// raised, and every Commit with an older one fails with ErrFenced from then
	// on. Durable when it returns.
	//
	// With how.Create an absent session is made (an erased one is not:
	// ErrNotFound); without it an absent session is ErrNotFound. With
	// how.IfEpoch ≠ 0 it succeeds only if the epoch is that one, else ErrFenced.
	Acquire(ctx context.Context, key SessionKey, how AcquireHow) (Head, error)

	// Commit appends one record and everything that goes with it, all or
	// nothing, durable when it returns nil.
	//
	// Epoch must be the acquired one (ErrFenced) and After the last seq
	// (ErrConflict). A key that exists already fails the whole commit with
	// *DuplicateError. ErrFull: below a disk watermark. ErrClosed. After any of
	// these nothing was written. After any other error the outcome is unknown:
	// Acquire with IfEpoch, then compare Head.LastCommit with the commit's ID.
	Commit(ctx context.Context, key SessionKey, c Commit) error

	// Room is ErrFull while a Commit with this Inner would be refused for want of
	// space. It does not block, and promises nothing about the next moment.
	Room(inner bool) error

	// Head reads the head without acquiring. ErrNotFound.
	Head(ctx context.Context, key SessionKey) (Head, error)

	// Find looks keys up; the result has one Seq for each key, 0 if absent.
	Find(ctx context.Context, key SessionKey, keys []Key) ([]Seq, error)

	// Records iterates over stored records in order. An absent session has none.
	// It ends with an error value, so that a broken block never looks like a
	// short history. ErrTooNew: a record of a version that this program does not know.
	Records(ctx context.Context, key SessionKey, r Range) iter.Seq2[Record, error]

	// Summary reads one session's list entry. ErrNotFound.
	Summary(ctx context.Context, key SessionKey) (Summary, error)

	// Sessions lists root sessions of a tenant, newest activity first; oldest
	// first for all tenants with Page.Oldest (the sweeper).
	Sessions(ctx context.Context, p Page) iter.Seq2[Summary, error]

	// Task reads one task's row. ErrNotFound.
	Task(ctx context.Context, key SessionKey, task TaskID) (TaskRow, error)

	// Tasks lists rows of root sessions' tasks, newest first.
	Tasks(ctx context.Context, f TaskFilter) iter.Seq2[TaskRow, error]

	// Due lists the sessions with something to do by then, the longest due first.
	Due(ctx context.Context, until time.Time) iter.Seq2[SessionKey, error]

	// Delete erases a session and its sub-sessions. A tombstone keeps the epoch,
	// so that a writer of before is fenced. ErrNotFound.
	Delete(ctx context.Context, key SessionKey) error

	// Close releases the store. Idempotent.
	Close() error
}

// The errors of a Store after which nothing was written.
var (
	ErrFenced   = errors.New("another writer has acquired the session")
	ErrConflict = errors.New("the session's last sequence is not the expected one")
	ErrFull     = errors.New("storage is full")
	ErrNotFound = errors.New("no such session")
	ErrTooNew   = errors.New("written by a newer version")
	ErrClosed   = errors.New("the store is closed")
)

// DuplicateError says which key of a commit was already there, and where.
type DuplicateError struct {
	Key Key
	Seq Seq
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%s is stored already, at seq %d", e.Key, e.Seq)
}

// AcquireHow says on what terms a session is acquired.
type AcquireHow struct {
	Create  bool
	IfEpoch Epoch // 0 = whatever the epoch is
}

// Head is where a session's log ends.
type Head struct {
	Epoch      Epoch
	Last       Seq
	LastCommit CommitID
	Snapshot   []byte // the machine's state as of SnapshotAt; nil = none
	SnapshotAt Seq
}

// Commit is one atomic write.
type Commit struct {
	Epoch    Epoch
	After    Seq // the last seq before this commit; the first of Events is After+1
	ID       CommitID
	Events   []Event // may be empty: cursors or a snapshot alone
	Keys     []KeyAt
	Tasks    []TaskRow
	Cursors  []Cursor // a cursor never moves back
	Snapshot []byte   // as of the last of Events; nil = none
	Summary  Summary
	WakeAt   time.Time // zero = nothing to do
	Inner    bool      // results, answers and cancels: allowed down to the hard disk watermark
}

// Key is what makes a write happen once: a part's (source, index), or a
// message's (author, client id).
type Key struct {
	Source SourceID // a part's key if not ""
	Part   PartIndex
	Author UserID
	Client ClientMsgID
}

func (k Key) String() string {
	if k.Source != "" {
		return fmt.Sprintf("part (%s, %d)", k.Source, k.Part)
	}
	return fmt.Sprintf("message (%s, %s)", k.Author, k.Client)
}

// KeyAt is a key and the event that owns it.
type KeyAt struct {
	Key Key
	Seq Seq
}

// Cursor is how far a user has read.
type Cursor struct {
	User UserID
	Seq  Seq
}

// Record is what one commit stored.
type Record struct {
	ID     CommitID
	Events []Event // never empty
}

// Range selects records: those that hold an event with After < seq, and, if
// Before ≠ 0, seq < Before. Records are whole: the first and the last may hold
// events outside of the range.
type Range struct {
	After, Before Seq
	Limit         int // records; 0 = all
	Reverse       bool
}

// Summary is a session's entry in lists.
type Summary struct {
	Key       SessionKey
	Title     string
	Agent     AgentName
	Owner     UserID
	Access    Access
	Closed    bool
	CreatedAt time.Time
	Activity  time.Time // of the last commit with a message or part
	Last      Seq
	Open      int // tasks that have not ended
	Awaiting  int // tasks AWAITING_RESPONSE
	Seen      Seq // filled on reading: the cursor of Page.For
}

// Page selects sessions.
type Page struct {
	Tenant TenantID // ignored with Oldest
	For    UserID   // whose read cursors to fill in; "" = nobody's
	Oldest bool
	Cursor string // opaque; Summary.Cursor of the last one seen
	Limit  int    // 0 = all
}

// PageCursor is the cursor that continues a list after s.
func (s Summary) PageCursor() string {
	return fmt.Sprintf("%d.%s", s.Activity.UnixMilli(), s.Key.Session)
}

// TaskRow is a task's entry in lists: what can be read without its log.
type TaskRow struct {
	Key       SessionKey
	Task      TaskID
	Status    TaskStatus
	Agent     AgentName
	Owner     UserID
	Trigger   MessageID
	CreatedAt time.Time
	UpdatedAt time.Time
	First     Seq // the event that created it
	Last      Seq // the last event of its status
	Error     *Failure
}

// TaskFilter selects task rows.
type TaskFilter struct {
	Tenant  TenantID
	Session SessionID  // "" = all root sessions
	Status  TaskStatus // 0 = any
	Cursor  string     // TaskRow.PageCursor of the last one seen
	Limit   int
}

// PageCursor is the cursor that continues a list after r.
func (r TaskRow) PageCursor() string {
	return fmt.Sprintf("%d.%s", r.CreatedAt.UnixMilli(), r.Task)
}

// Publisher is shown what has become durable, and what need not be.
type Publisher interface {
	// Publish hands on durable events, in order. It never blocks.
	Publish(key SessionKey, events []Event)
	// Show hands on an ephemeral thing; after is the last durable seq.
	Show(key SessionKey, after Seq, e Ephemeral)
	// Stored says how far a session's log reaches when it comes into memory. What
	// of it was not published, because whoever stored it ended before, will not be:
	// followers read it from the log.
	Stored(key SessionKey, head Seq)
	// Gone says that a session was erased.
	Gone(key SessionKey, reason string)
}

// Usage counts what a model call cost.
type Usage struct {
	InputTokens  int
	OutputTokens int
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
	// Opaque is what the provider wants to be given back before the item in the
	// next steps of the same task, such as signed reasoning. It is stored, shown to
	// nobody, and only for the model that OpaqueBy names.
	Opaque   string
	OpaqueBy string
}

// ModelAnswer is a whole answer.
type ModelAnswer struct {
	Model      string // who answered, when that is not the Model's own Label: a fallback
	ResponseID string // the provider's id, opaque
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

// ModelError is a failure that an adapter understood.
type ModelError struct {
	Model      string // who failed, when that is not the Model's own Label
	Failure    Failure
	Permanent  bool // asking again would fail the same way
	RetryAfter time.Duration
	Usage      *Usage
	Err        error // for the log
}

func (e *ModelError) Error() string { return e.Failure.Message }
func (e *ModelError) Unwrap() error { return e.Err }

// Request is everything that a model is shown.
type Request struct {
	Session SessionID
	Task    TaskID
	Agent   AgentName
	Depth   int // 0 for the session that a user talks to
	System  string
	Step    StepNumber
	Attempt int
	WrapUp  bool          // the last answer of a task at its step limit; no tools
	Stream  bool          // deltas are wanted
	Entries []Entry       // the transcript; shared with the engine: read only
	Last    []Entry       // what is generated anew for each request and comes behind the transcript
	Open    []OpenMessage // messages that the task has read and that are not resolved
	Running []RunningCall // calls without a result yet, oldest first
	Tools   []ToolSpec
}

// All is everything that the model is shown: the transcript, then the generated
// last entries.
func (r *Request) All() []Entry { return slices.Concat(r.Entries, r.Last) }

// Role is who speaks in an Entry.
type Role uint8

// The roles.
const (
	RoleUser Role = iota + 1
	RoleAssistant
	RoleTool
)

// Entry is one entry of the transcript that a model is shown.
type Entry struct {
	Role       Role
	Task       TaskID
	Message    MessageID   // RoleUser: the message that it is, verbatim; "" for generated entries
	Text       string      // RoleUser, RoleTool
	ResponseID string      // RoleAssistant: the provider's id of the answer
	Items      []Item      // RoleAssistant
	CallID     string      // RoleTool: the provider's id of the call that it is the result of; RoleUser with Question: of the call that asked
	Question   QuestionID  // RoleUser, generated: the non-blocking question that it answers
	Delegation CallID      // RoleUser, generated: the delegation that finished
	Nudge      []MessageID // RoleUser, generated: the messages that a coverage nudge names
}

// OpenMessage is a line of the generated "Open messages" entry.
type OpenMessage struct {
	Ordinal int // from 1; inReplyTo and coverMessage may use it
	Message MessageID
	Excerpt string
}

// RunningCall is a call without a result yet.
type RunningCall struct {
	Call  CallID
	ID    string // the provider's call id
	Tool  string // the tool; "delegate" for delegations
	Agent AgentName
}

// ToolSpec describes a tool to the machine and to models.
type ToolSpec struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, an object
	Approval    bool            // a person must allow each call
	Idempotent  bool            // may run again with the same call id after a crash
	Timeout     time.Duration   // 0 = tools.timeout
}

// Tool acts on the world.
type Tool interface {
	Spec() ToolSpec
	// Check validates arguments without running anything; its error is shown to the model.
	Check(args json.RawMessage) error
	// Run runs once. An error is a result for the model (status error, or timeout
	// and cancelled when ctx ended); its text must be fit for a model and a client.
	Run(ctx context.Context, c ToolCall) (string, error)
}

// ToolCall is what a tool knows of the call.
type ToolCall struct {
	Key      SessionKey
	Call     CallID
	Args     json.RawMessage
	Progress func(note string, percent *int) // never nil; may be called from any goroutine
}
