package conversation

import (
	"strconv"
	"strings"
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

// SessionKey names a session in stores and registries: ids of different
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

// RuntimeName names one process of an outside runtime (at most 128 bytes): no two
// that run at the same time share one.
type RuntimeName string

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

// NodeID names a process that serves sessions. It is for logs and for people; no
// rule depends on it.
type NodeID string

// Incarnation counts the starts of a node, from 1.
type Incarnation uint64

// Member is one run of a node: a node that starts again is another member.
type Member struct {
	Node        NodeID
	Incarnation Incarnation
}

func (m Member) String() string {
	return string(m.Node) + "#" + strconv.FormatUint(uint64(m.Incarnation), 10)
}

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

// SourceID and PartIndex together are the key of a part. The source is the id of
// the task's trigger message, or "ext:<id>" for the parts of an outside runtime.
type SourceID string

// StepNumber counts the steps of a session from 1.
type StepNumber uint32

// Attempt names one attempt of a step; the zero value is none.
type Attempt struct {
	Step StepNumber
	N    int // from 1
}

// DraftID names the streamed text of one item of one attempt:
// "<step>.<attempt>.<item>".
type DraftID string

// Draft forms the id of a draft.
func Draft(step StepNumber, attempt, item int) DraftID {
	return DraftID(strconv.Itoa(int(step)) + "." + strconv.Itoa(attempt) + "." + strconv.Itoa(item))
}

// Of is true for the drafts of an attempt.
func (id DraftID) Of(a Attempt) bool {
	step, rest, _ := strings.Cut(string(id), ".")
	attempt, _, _ := strings.Cut(rest, ".")
	return step == strconv.Itoa(int(a.Step)) && attempt == strconv.Itoa(a.N)
}

// Next is the draft of the next item of the same attempt.
func (id DraftID) Next() DraftID {
	dot := strings.LastIndexByte(string(id), '.')
	item, _ := strconv.Atoi(string(id[dot+1:]))
	return id[:dot+1] + DraftID(strconv.Itoa(item+1))
}

// Ordinal reads the number of an id such as "m12-<session>"; 0 when it is none.
func Ordinal(id string, letter byte) uint32 {
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
