package search

import (
	"context"
	"math"
	"time"

	"parley/conversation"
)

// Said is a message or a part that can be found.
type Said struct {
	Message conversation.MessageID
	Seq     conversation.Seq // where it stands in the log
	At      time.Time
	Text    conversation.Seq // the event that has its text: Seq, or that of its last edit
	Folded  string
}

// Change is what an event does to what can be found.
type Change struct {
	Message conversation.MessageID
	What    Deed
	Text    string // of Speaks and Rewords
}

// Deed is the way in which an event changes what can be found.
type Deed uint8

// The deeds.
const (
	Nothing Deed = iota
	Speaks       // a message or a part comes
	Rewords      // a message has another text now
	Unsays       // a message is taken back
)

// Of says what an event does to what can be found.
func Of(e conversation.Event) Change {
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		return Change{b.Message, Speaks, b.Text}
	case conversation.MessageEdited:
		return Change{b.Message, Rewords, b.Text}
	case conversation.MessageWithdrawn:
		return Change{b.Message, Unsays, ""}
	case conversation.PartialResponse:
		return Change{b.Message, Speaks, b.Text}
	case conversation.Response:
		if !b.Promoted { // else it was shown before
			return Change{b.Message, Speaks, b.Text}
		}
	}
	return Change{}
}

// Place is a place in what is kept of a session: before it stands what is newer.
type Place struct {
	At  int64 // milliseconds
	Seq conversation.Seq
}

// Newest is before everything.
var Newest = Place{math.MaxInt64, math.MaxInt64}

// Place is where something that was said stands.
func (s Said) Place() Place { return Place{s.At.UnixMilli(), s.Seq} }

// Behind is true for a place that comes later than another one, so for what is older.
func (p Place) Behind(o Place) bool { return p.At < o.At || p.At == o.At && p.Seq < o.Seq }

// Index keeps what can be found of sessions. Its methods may be called from any goroutine.
// Errors are conversation.ErrClosed, the context's, or something else.
type Index interface {
	// Said lists what is kept of a session behind a place and has all words of a query, the
	// newest first, at most n of it. through is the seq up to which the log is kept, 0 = nothing
	// is: an erased session has nothing, in the same step in which it is erased.
	Said(ctx context.Context, key conversation.SessionKey, q Query, behind Place, n int) (all []Said, through conversation.Seq, err error)
	// Keep takes what the log of a root session says behind from. It does nothing, and is no
	// error, where another seq than from is what through was, and where the session is gone. It
	// need not be durable when it returns; but what is durable of it is all of one news.
	Keep(ctx context.Context, key conversation.SessionKey, from conversation.Seq, news News) error
}
