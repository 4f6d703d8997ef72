// Package conversation holds the words of parley and the rules by which a
// session lives: a pure machine that turns commands into events and effects.
//
// Nothing here reads a clock, draws a random number, starts a goroutine or does
// I/O: time, free slots and hints about duplicates arrive with each command.
// The package imports the standard library only.
package conversation

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// TenantID names the owner of sessions. It comes only from a credential.
type TenantID string

// UserID names who speaks. It comes only from a credential.
type UserID string

// SessionID names one conversation. A root session's id is opaque; the id of a
// sub-session is "<root>/<call>", one more "/<call>" for each level of depth.
type SessionID string

// Root is the session at the top of the tree that id belongs to.
func (id SessionID) Root() SessionID {
	root, _, _ := strings.Cut(string(id), "/")
	return SessionID(root)
}

// Parent is the session one level up, and the call that made this one; ok is
// false for a root session.
func (id SessionID) Parent() (parent SessionID, call CallID, ok bool) {
	i := strings.LastIndexByte(string(id), '/')
	if i < 0 {
		return "", "", false
	}
	return id[:i], CallID(id[i+1:]), true
}

// Depth is 0 for a root session, 1 for its delegations, and so on.
func (id SessionID) Depth() int { return strings.Count(string(id), "/") }

// SessionKey is what a store and a registry know a session by: ids of different
// tenants never meet.
type SessionKey struct {
	Tenant  TenantID
	Session SessionID
}

func (k SessionKey) String() string { return string(k.Tenant) + "/" + string(k.Session) }

// MessageID is the server's name of a message or of a part: "m12-<session>" for
// what was said to the session, "p3-<session>" for what the session said. It is
// unique in the whole server because the session's id is in it.
type MessageID string

// ClientMsgID is the author's own name of a message (at most 128 bytes). A
// message takes effect once for each (session, author, ClientMsgID).
type ClientMsgID string

// TaskID names one run of the decision loop: "t4-<session>".
type TaskID string

// Session is the session that the task belongs to; ok is false when id is not
// the id of a task.
func (id TaskID) Session() (session SessionID, ok bool) {
	n, rest, found := strings.Cut(string(id), "-")
	if !found || len(n) < 2 || n[0] != 't' || rest == "" {
		return "", false
	}
	if _, err := strconv.ParseUint(n[1:], 10, 32); err != nil {
		return "", false
	}
	return SessionID(rest), true
}

// QuestionID names a question within its session: "q2", or "d1.q2" in the log
// of the session whose delegation d1 asked it.
type QuestionID string

// CallID names a call within its session: "c5" for a tool, "d1" for a delegation.
type CallID string

// AgentName names a profile of the configuration.
type AgentName string

// NodeID names a process that serves sessions.
type NodeID string

// LogID is the identity of a stored log. It changes when a backup is restored,
// so that a client's cursor into another history is noticed.
type LogID string

// CommitID names one commit, so that a commit whose outcome was not seen can be
// recognised.
type CommitID string

// Seq numbers the events of one session from 1 without gaps. 0 is "before the first".
type Seq uint64

// Epoch is the writer's fence: each acquisition of a session raises it.
type Epoch uint64

// PartIndex orders the parts of one source, from 0.
type PartIndex uint32

// SourceID is what a part is keyed by, together with its PartIndex: the id of
// the task's trigger message, or "ext:<id>" for the parts of an outside runtime.
type SourceID string

// StepNumber counts the steps of a session from 1.
type StepNumber uint32

// DraftID names the streamed text of one item of one attempt:
// "<step>.<attempt>.<item>".
type DraftID string

// Draft forms the id of a draft.
func Draft(step StepNumber, attempt, item int) DraftID {
	return DraftID(strconv.Itoa(int(step)) + "." + strconv.Itoa(attempt) + "." + strconv.Itoa(item))
}

// ordinal reads the number of an id such as "m12-<session>"; 0 when it is none.
func ordinal(id string, letter byte) uint32 {
	if len(id) < 2 || id[0] != letter {
		return 0
	}
	digits, _, _ := strings.Cut(id[1:], "-")
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// Via is the door that a message came through.
type Via uint8

// The doors. Stored: do not reorder.
const (
	ViaWebSocket Via = iota + 1
	ViaHTTP
	ViaSlack
	ViaDiscord
	ViaTelegram
	ViaOpenAI
	ViaRuntime
	ViaDelegation
)

var viaNames = [...]string{"", "websocket", "http", "slack", "discord", "telegram", "openai", "runtime", "delegation"}

func (v Via) String() string { return name(viaNames[:], int(v)) }

// Mode is what a message does that arrives while a task runs (policy inbox.mode).
type Mode uint8

// The modes. Stored: do not reorder. ModeDefault leaves the choice to the
// session's policy, then the channel's, then the configuration.
const (
	ModeDefault Mode = iota
	ModeSteer
	ModeQueue
	ModeCollect
	ModeInterrupt
	ModeReject
)

var modeNames = [...]string{"", "steer", "queue", "collect", "interrupt", "reject"}

func (m Mode) String() string { return name(modeNames[:], int(m)) }

// ParseMode reads a mode's name; "" is ModeDefault.
func ParseMode(s string) (Mode, bool) {
	i, ok := index(modeNames[:], s)
	return Mode(i), ok
}

// UnmarshalText reads what String writes; "" is ModeDefault.
func (m *Mode) UnmarshalText(text []byte) error {
	mode, ok := ParseMode(string(text))
	if !ok {
		return fmt.Errorf("%q is no mode", text)
	}
	*m = mode
	return nil
}

// Disposition is what an accepted message did at once.
type Disposition uint8

// The dispositions. Stored: do not reorder.
const (
	Started  Disposition = iota + 1 // its own task, RUNNING in the same commit
	Queued                          // its own task, QUEUED
	Joined                          // belongs to a task that was there
	Answered                        // taken as the answer to a question
)

var dispositionNames = [...]string{"", "started", "queued", "joined", "answered"}

func (d Disposition) String() string { return name(dispositionNames[:], int(d)) }

// Resolution is what became of a message; each accepted message gets exactly one.
type Resolution uint8

// The resolutions. Stored: do not reorder.
const (
	ResolvedAnswered Resolution = iota + 1
	ResolvedMerged
	ResolvedDismissed
	ResolvedWithdrawn
	ResolvedCancelled
	ResolvedFailed
	ResolvedUnanswered
)

var resolutionNames = [...]string{"", "answered", "merged", "dismissed", "withdrawn", "cancelled", "failed", "unanswered"}

func (r Resolution) String() string { return name(resolutionNames[:], int(r)) }

// TaskStatus is the phase of a task.
type TaskStatus uint8

// The statuses. Stored: do not reorder.
const (
	TaskQueued TaskStatus = iota + 1
	TaskRunning
	TaskAwaiting
	TaskComplete
	TaskError
	TaskCancelled
)

var statusNames = [...]string{"", "QUEUED", "RUNNING", "AWAITING_RESPONSE", "COMPLETE", "ERROR", "CANCELLED"}

func (s TaskStatus) String() string { return name(statusNames[:], int(s)) }

// Ended is true for the three statuses that a task never leaves.
func (s TaskStatus) Ended() bool { return s >= TaskComplete }

// ParseTaskStatus reads a status word of the protocol.
func ParseTaskStatus(s string) (TaskStatus, bool) {
	i, ok := index(statusNames[:], s)
	return TaskStatus(i), ok && i > 0
}

// Access says who of the tenant may see a session.
type Access uint8

// The access levels. Stored: do not reorder.
const (
	AccessPrivate Access = iota // its owner only
	AccessTenant                // every user of the tenant
)

var accessNames = [...]string{"private", "tenant"}

func (a Access) String() string { return name(accessNames[:], int(a)) }

// ParseAccess reads an access level; "" is AccessPrivate.
func ParseAccess(s string) (Access, bool) {
	if s == "" {
		return AccessPrivate, true
	}
	i, ok := index(accessNames[:], s)
	return Access(i), ok
}

// CutMiddle keeps the head and the tail of a text of more than limit bytes, whole
// code points of it, and says between them how much is missing.
func CutMiddle(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	mark := fmt.Sprintf("\n[… %d bytes left out …]\n", len(text)-limit)
	keep := max(limit-len(mark), 0)
	head, tail := keep*3/4, keep-keep*3/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	from := len(text) - tail
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return text[:head] + mark + text[from:]
}

// Excerpt shortens text to at most n code points for a list, a log line or an
// "open messages" entry, and marks the cut.
func Excerpt(text string, n int) string {
	count := 0
	for i := range text {
		if count == n {
			return text[:i] + "…"
		}
		count++
	}
	return text
}

// stamp is the precision of every stored time: milliseconds, UTC.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func name(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return "unknown(" + strconv.Itoa(i) + ")"
	}
	return names[i]
}

func index(names []string, s string) (int, bool) {
	for i, n := range names {
		if n == s {
			return i, true
		}
	}
	return 0, false
}
