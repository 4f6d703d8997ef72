package conversation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"parley/conversation/access"
	"parley/conversation/listing"
)

// Store keeps sessions: one ordered log of records each, with the keys, rows
// and indexes that belong to it, committed together by one writer at a time.
//
// It is three interfaces: who only reads logs asks for a Reader, who lists
// sessions and tasks for a Catalog. A Writer needs the epoch that Acquire gives,
// and only the owner of a session has one.
//
// Errors are the Err… values below, *DuplicateError, the context's error, or
// something else; for Commit "something else" means that the outcome is unknown
// (see Writer.Commit). All methods may be called from any goroutine.
type Store interface {
	Writer
	Reader
	Catalog

	// LogID is the identity of this store's logs. It changes when a backup is restored.
	LogID() LogID

	// Close releases the store. Idempotent. Calls after it, and calls that it
	// interrupts, fail with ErrClosed.
	Close() error
}

// Writer appends to the logs of sessions, as the only one who does.
type Writer interface {
	// Acquire makes the caller the only writer of the session: the epoch is
	// raised, and every Commit with an older one fails with ErrFenced from then
	// on. Durable when it returns.
	//
	// With how.Owner the session is that member's until Release: other members get
	// *OwnedError while the owner lives. A store of one process knows no owners.
	//
	// With how.Create an absent session is made (not an erased one, nor one whose
	// living.Before is not erased: ErrNotFound); without it an absent session is
	// ErrNotFound. With how.IfEpoch ≠ 0 it succeeds only if the epoch is that one,
	// else ErrFenced. With how.Lazy it may become durable with the epoch's first commit
	// only.
	Acquire(ctx context.Context, key SessionKey, how AcquireHow) (Head, error)

	// Commit appends one record and everything that goes with it, all or
	// nothing, durable when it returns nil.
	//
	// Epoch must be the acquired one (ErrFenced) and After the last seq
	// (ErrConflict). A key that exists already fails the whole commit with
	// *DuplicateError. ErrFull: below a disk watermark. ErrUnread, ErrDamaged:
	// what has to be read first could not be. ErrClosed. After any of these
	// nothing was written. After any other error the outcome is unknown: Acquire
	// with IfEpoch, then compare Head.LastCommit with the commit's ID.
	Commit(ctx context.Context, key SessionKey, c Commit) error

	// CommitAsync is Commit for a caller that must not wait: done is called once
	// with what Commit would have returned, from any goroutine, perhaps before
	// CommitAsync returns. done must not block and must not call the store. c belongs
	// to the store until then, and what it points to does not change.
	// A store joins the commits of many sessions that wait at the same time.
	CommitAsync(ctx context.Context, key SessionKey, c *Commit, done func(error))

	// Release gives up a session that was acquired with this epoch, so that the next owner
	// need not wait for the end of a lease. It does not block; done, unless it is nil, is
	// called once, from any goroutine, with nil also if the epoch is an old one.
	Release(ctx context.Context, key SessionKey, epoch Epoch, done func(error))

	// MayHold is false if no event of the session owns the key, for sure; true means
	// that Find has to be asked. A commit that is in flight counts when its done is
	// called, at the latest: until then its writer knows of it.
	// It reads nothing that can block: neither the disk nor what a commit holds.
	MayHold(key SessionKey, k Key) bool

	// Room is ErrFull while a Commit with this Inner would be refused for want of
	// space. It does not block, and promises nothing about the next moment.
	Room(inner bool) error
}

// Reader reads the logs of sessions, without a right to write to them.
type Reader interface {
	// Head reads the head without acquiring. ErrNotFound.
	Head(ctx context.Context, key SessionKey) (Head, error)

	// Find looks keys up; the result has one Seq for each key, 0 if absent.
	Find(ctx context.Context, key SessionKey, keys []Key) ([]Seq, error)

	// Records iterates over stored records in order. An absent session has none.
	// It ends with an error value, so that a broken block never looks like a
	// short history. ErrTooNew: a record of a version that this program does not
	// know. ErrDamaged, also of other methods: not the bytes that were written.
	Records(ctx context.Context, key SessionKey, r Range) iter.Seq2[Record, error]
}

// Catalog lists sessions and tasks, and erases sessions.
type Catalog interface {
	// Summary reads one session's list entry. ErrNotFound.
	Summary(ctx context.Context, key SessionKey) (Summary, error)

	// Sessions lists root sessions of a tenant, newest activity first; oldest
	// first for all tenants with Page.Oldest (the sweeper). Unreadable ones are left out.
	Sessions(ctx context.Context, p Page) iter.Seq2[Summary, error]

	// Task reads one task's row. ErrNotFound.
	Task(ctx context.Context, key SessionKey, task TaskID) (TaskRow, error)

	// Tasks lists rows of root sessions' tasks, newest first; unreadable ones as above.
	Tasks(ctx context.Context, f TaskFilter) iter.Seq2[TaskRow, error]

	// Due lists the sessions with something to do by then, the longest due first, but
	// not those that another living member than of owns.
	Due(ctx context.Context, until time.Time, of Member) iter.Seq2[SessionKey, error]

	// Claimable lists what outside runtimes may claim in the sessions of a tenant,
	// the oldest first. It takes time for what is in the list only.
	Claimable(ctx context.Context, tenant TenantID) iter.Seq2[ClaimableAt, error]

	// Delete erases a session and its sub-sessions. A tombstone keeps the epoch,
	// so that a writer of before is fenced. ErrNotFound.
	Delete(ctx context.Context, key SessionKey) error

	// Erased is true for a session that has been erased: no session of its id is
	// made any more. A store may forget that after a while, but not before it has
	// forgotten, or has never had, the session of living.Next.
	Erased(ctx context.Context, key SessionKey) (bool, error)
}

// The errors of a Store after which nothing was written.
var (
	ErrFenced   = errors.New("another writer has acquired the session")
	ErrConflict = errors.New("the session's last sequence is not the expected one")
	ErrFull     = errors.New("storage is full")
	ErrQuota    = fmt.Errorf("%w for this tenant", ErrFull) // it has stored as much as it may
	ErrNotFound = errors.New("no such session")
	ErrTooNew   = errors.New("written by a newer version")
	ErrUnread   = errors.New("what is stored could not be read now")
	ErrDamaged  = errors.New("what is stored is damaged")
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

// OwnedError refuses to give a session to another member while its owner lives.
type OwnedError struct{ By Member }

func (e *OwnedError) Error() string { return fmt.Sprintf("the session is owned by %s", e.By) }

// AcquireHow says on what terms a session is acquired.
type AcquireHow struct {
	Create  bool
	IfEpoch Epoch  // 0 = whatever the epoch is
	Owner   Member // zero = nobody's, in the store of one process

	// Lazy lets the store save the wait for the disk: a crash of the store may take
	// back an epoch in which nothing was committed. Only a store all of whose writers
	// end in that crash may make use of it; others would let an older one write again.
	Lazy bool
}

// Prior says whose a session was when it was acquired.
type Prior uint8

// The owners of before.
const (
	PriorNone    Prior = iota // nobody's: it is new or was released, or the store knows no owners
	PriorSame                 // the same member's
	PriorDead                 // a member's whose node has started again since: its process died
	PriorExpired              // a member's whose lease ran out: it may live all the same
)

// Head describes the end of a session's log.
type Head struct {
	Prior      Prior // filled by Acquire
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
	WakeAt   time.Time  // zero = nothing to do
	Claim    *Claimable // nil = nothing
	Inner    bool       // results, answers and cancels: allowed down to the hard disk watermark
}

// Claimable is the task of a session that waits for an outside runtime: no lease
// holds it, or its runtime has not said yet that the hand-out has reached it. There is
// at most one in a session. Like WakeAt, it goes with every commit and replaces what
// the one before said.
type Claimable struct {
	Task    TaskID
	Agent   AgentName   // of the session
	Since   time.Time   // when its message was accepted: it never changes, and the oldest goes first
	Runtime RuntimeName // it was handed to this one, and only this one may have it again; "" = any may have it
	From    time.Time   // not before; zero = at once
}

// ClaimableAt is what may be claimed and the session that has it.
type ClaimableAt struct {
	Key SessionKey
	Claimable
}

// Key makes a write happen once. It is a part's (source, index), or a
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

// Cursor says how far a user has read, and what he marks a session with. It is the user's
// own, is no event, and tells the machine nothing. A Seq moves forward or not at all: 0
// leaves it where it is. As a store reads it, it sets what is marked.
type Cursor struct {
	User UserID
	Seq  Seq
	listing.Marking
}

// Then is both cursors of one user as one.
func (c Cursor) Then(next Cursor) Cursor {
	return Cursor{c.User, max(c.Seq, next.Seq), c.Marking.Then(next.Marking)}
}

// Record holds the events of one commit: the unit in which logs are read. A commit
// without events leaves none.
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

// Summary is a session's entry in lists: what can be shown of it without reading
// its log. It goes with every commit.
type Summary struct {
	Key       SessionKey
	Title     string
	Agent     AgentName
	Owner     UserID
	Access    Access
	Members   map[UserID]access.Role // besides the owner; nil = none
	Closed    bool
	CreatedAt time.Time
	Activity  time.Time // of the last commit with a message or part
	Last      Seq
	Open      int // tasks that have not ended
	Awaiting  int // tasks AWAITING_RESPONSE
	listing.Work
	Seen  Seq           // filled on reading: the cursor of Page.For
	Marks listing.Marks // filled on reading: what Page.For has marked it with
}

// Role is what a user of the session's tenant is to it.
func (s Summary) Role(user UserID) access.Role {
	return access.Of(user, s.Owner, s.Access == AccessTenant, s.Members)
}

// Reads is true for a user of the session's tenant who may read it.
func (s Summary) Reads(user UserID) bool { return s.Role(user).May(access.Read) }

// Page selects sessions.
type Page struct {
	Tenant TenantID  // ignored with Oldest
	For    UserID    // whose read cursors to fill in; "" = none
	Only   SessionID // the row of this one alone, Cursor and Limit are ignored; "" = all
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

// Keys are the keys that a commit of events must bring.
func Keys(events []Event) []KeyAt {
	var keys []KeyAt
	client := func(seq Seq, author UserID, id ClientMsgID) {
		if id != "" {
			keys = append(keys, KeyAt{Key{Author: author, Client: id}, seq})
		}
	}
	part := func(seq Seq, p Part) {
		if p.Source != "" {
			keys = append(keys, KeyAt{Key{Source: p.Source, Part: p.Index}, seq})
		}
		client(seq, p.Author, p.ClientMsgID)
	}
	for _, e := range events {
		switch b := e.Body.(type) {
		case MessageAccepted:
			client(e.Seq, b.Author, b.ClientMsgID)
		case TaskCancelling:
			client(e.Seq, b.Author, b.ClientMsgID)
		case PartialResponse:
			part(e.Seq, b.Part)
		case Response:
			if !b.Promoted {
				part(e.Seq, b.Part)
			}
		}
	}
	return keys
}
