package search

import (
	"context"

	"parley/conversation"
)

// Guide is an Index that knows which sessions a search has to look at, without their heads.
// It knows it from Whole on, until Behind says that it does not any more.
type Guide interface {
	Index
	// Follow has the sessions noted whose logs go on from here on.
	Follow()
	// Whole says that all sessions that there were at Follow have been kept up to their logs,
	// or are noted as Unread.
	Whole()
	// Unread notes a session that cannot be kept, until its log goes on.
	Unread(key conversation.SessionKey)
	// Behind lists some sessions whose logs go on behind what is kept of them. whole is false
	// before Whole, and when there were too many to be noted: then Follow has to come again.
	Behind(ctx context.Context, most int) (all []conversation.SessionKey, whole bool, err error)
	// Where begins a search in the sessions of a tenant that a user may read, in the order of the
	// list from a cursor of it on. ok is false where it is not known which ones to look at.
	Where(ctx context.Context, tenant conversation.TenantID, user conversation.UserID, q Query, cursor string, most int) (w Where, ok bool, err error)
}

// Where is where a search has to look, as of its beginning.
type Where struct {
	Next string // the cursor behind all of them, "" = there are no more sessions
	// Some looks at the next n sessions, and lists those among them that a search cannot leave
	// out, which may be none.
	Some func(ctx context.Context, n int) ([]Candidate, error)
	// Left is the moment, in milliseconds, after which nothing was said in the sessions that
	// Some has not looked at; ok is false if there are none.
	Left func() (latest int64, ok bool)
}

// Candidate is a session that may have what is searched for, and that the user may be allowed
// to read: its Summary says so.
type Candidate struct {
	Session conversation.SessionID
	Latest  int64 // milliseconds: nothing was said in it later
	Kept    bool  // the index has it up to its last event; else the log may go on behind it
}
