package verify

import (
	"fmt"

	"parley/conversation"
)

// How says how much is checked.
type How struct {
	// Keys are the keys that a commit of events brings; nil = the stored keys are
	// not compared with the events.
	Keys func([]conversation.Event) []conversation.KeyAt

	// Snapshot reads a snapshot and says as of which event it is; nil = snapshots
	// are not read. An error is no contradiction: a snapshot that cannot be used is
	// left out, as a server does, and counted.
	Snapshot func(conversation.SessionKey, []byte) (conversation.Seq, error)

	// Limit is how many problems are kept; the others are only counted. 0 = 20.
	Limit int
}

// Counts say how much is stored. A backup holds them, and a restore compares them:
// a new field is 0 in the backups of before.
type Counts struct {
	Sessions    int64 `json:"sessions"` // root sessions
	SubSessions int64 `json:"sub_sessions"`
	Records     int64 `json:"records"`
	Events      int64 `json:"events,omitempty"` // Count does not decode records and leaves it 0
	Keys        int64 `json:"keys"`             // of parts and client messages
	Tasks       int64 `json:"tasks"`
	Cursors     int64 `json:"cursors"`
	Snapshots   int64 `json:"snapshots"`
	Due         int64 `json:"due"`
	Tombstones  int64 `json:"tombstones"`
	Chats       int64 `json:"chats,omitempty"`   // of which channels remember something
	Entries     int64 `json:"entries,omitempty"` // of feeds
	Blobs       int64 `json:"blobs,omitempty"`   // attachments
}

// Problem is one contradiction.
type Problem struct {
	Rule     Rule
	Session  conversation.SessionKey // empty where it is not about one session
	Sentence string
}

func (p Problem) String() string {
	if p.Session.Session == "" {
		return p.Sentence
	}
	return fmt.Sprintf("session %s: %s", p.Session, p.Sentence)
}

// Rule says which of the rules a problem breaks.
type Rule string

// The rules.
const (
	RuleRead       Rule = "read"       // every block can be read
	RuleLevels     Rule = "levels"     // Pebble's own order of versions
	RuleHead       Rule = "head"       // each session has a head that can be read
	RuleRecords    Rule = "records"    // records 1 to last, without gap or overlap
	RuleKeys       Rule = "keys"       // keys of parts and messages belong to their events
	RuleSnapshot   Rule = "snapshot"   // a snapshot is not ahead of the log
	RuleTasks      Rule = "tasks"      // task rows and the list of all tasks
	RuleActivity   Rule = "activity"   // the list of sessions and the heads
	RuleDue        Rule = "due"        // the list of what is due and the heads
	RuleClaims     Rule = "claims"     // the list of what may be claimed and the heads
	RuleCursors    Rule = "cursors"    // nobody has read further than the log goes
	RuleTree       Rule = "tree"       // a sub-session has its root
	RuleTombstones Rule = "tombstones" // nothing is left of an erased session
	RuleChats      Rule = "chats"      // what channels remember, and the lists of it
	RuleBlobs      Rule = "blobs"      // what is attached to messages, and the lists of it
	RuleSearch     Rule = "search"     // what can be found, and the lists of who can find it
	RuleUnknown    Rule = "unknown"    // no key belongs to nothing
)

// Report is what Store has found.
type Report struct {
	Counts          Counts
	UnusedSnapshots int64 // that cannot be read by this program; their sessions are read from the log
	Problems        []Problem
	More            int64 // problems beyond Limit
}

// All is the number of problems.
func (r *Report) All() int64 { return int64(len(r.Problems)) + r.More }
