package move

import (
	"context"
	"errors"
	"iter"
	"time"

	"parley/conversation"
	"parley/conversation/blobs"
	"parley/conversation/chats"
)

// Installation is a store with what the engine has no use for, but who carries all of it
// to another one. Nobody else may write to it.
type Installation interface {
	conversation.Store

	// Everything lists all sessions that have a summary, sub-sessions too, each root before
	// what is below it.
	Everything(ctx context.Context) iter.Seq2[conversation.Summary, error]

	// Awaits is what a session waits for.
	Awaits(ctx context.Context, key conversation.SessionKey) (Awaited, error)

	// Attached lists what is attached to messages of a session, and what waits to be.
	Attached(ctx context.Context, key conversation.SessionKey) iter.Seq2[blobs.Stored, error]

	// Blobs reads and writes what is attached.
	Blobs() blobs.Store

	// ReadCursors lists how far the users of a session have read.
	ReadCursors(ctx context.Context, key conversation.SessionKey) iter.Seq2[conversation.Cursor, error]

	// Tombstones lists the erased sessions.
	Tombstones(ctx context.Context) iter.Seq2[Tombstone, error]

	// Bury makes sessions that are not there erased ones. What is erased already stays as it is.
	Bury(ctx context.Context, all []Tombstone) error

	// Chats reads the feeds.
	Chats() chats.Store

	// ChatRows lists what channels remember, of all tenants.
	ChatRows(ctx context.Context) iter.Seq2[chats.Row, error]

	// Feeds lists how far the feeds of all tenants go.
	Feeds(ctx context.Context) iter.Seq2[FeedEnd, error]

	// PutRows writes rows as they are, with their revisions. One that is there already stays,
	// and has to be the same: else ErrOther.
	PutRows(ctx context.Context, rows []chats.Row) error

	// PutFeed writes how far a feed goes, and entries of it with their numbers. What is there
	// already stays, and has to be the same: else ErrOther.
	PutFeed(ctx context.Context, end FeedEnd, entries []chats.Entry) error

	// Adopt makes log the identity of a store that holds nothing; ErrOccupied if it holds
	// anything. A store that has this identity already stays as it is.
	Adopt(ctx context.Context, log conversation.LogID) error
}

// FeedEnd is how far the feed of a tenant goes.
type FeedEnd struct {
	Tenant conversation.TenantID `json:"tenant"`
	Last   chats.Number          `json:"last"`
}

// Awaited is what a session waits for: a time and an outside runtime.
type Awaited struct {
	WakeAt time.Time               // zero = nothing to do
	Claim  *conversation.Claimable // nil = nothing
}

// Tombstone is an erased session.
type Tombstone struct {
	Key    conversation.SessionKey
	Epoch  conversation.Epoch
	Erased time.Time // zero = not known
}

// What In refuses. Nothing was written by the step that found it.
var (
	ErrOccupied = errors.New("the store has sessions of its own; a file is read into an empty one, or into one that has begun to read the same file")
	ErrDiffers  = errors.New("the store has this session with other content: it was written to since, or comes from elsewhere")
	ErrMore     = errors.New("the store has this session, and the file has not: it was used since it was begun to be filled")
	ErrChanged  = errors.New("the store is not what it was when the file was begun, or another version of the program has begun it")
	ErrOther    = errors.New("the store has other chats or another feed than the file: it was written to since, or comes from elsewhere")
	ErrDamaged  = errors.New("the file is damaged")
	ErrCut      = errors.New("the file is not whole: it ends too early")
	ErrNewer    = errors.New("the file was written by a newer version of this program")
)

// Totals is what a file holds, or what of it has been carried so far.
type Totals struct {
	Sessions int `json:"sessions"`
	Erased   int `json:"erased"`
	Records  int `json:"records"`
	Files    int `json:"files,omitempty"` // that are attached to messages
	Chats    int `json:"chats,omitempty"`
	Entries  int `json:"entries,omitempty"` // of feeds
	Skipped  int `json:"-"`                 // of Sessions: they were there already, and equal
}
