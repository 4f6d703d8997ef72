package chats

import (
	"context"
	"errors"
	"iter"
	"time"

	"parley/conversation"
)

// Channel is the name of a channel as the configuration has it: "slack", "discord",
// "telegram".
type Channel string

// Chat names a chat within a tenant and all platforms: "telegram:42". It is also the
// client_session_id of the chat's session. "" = the channel itself, for what it has to
// remember of no chat.
type Chat string

// Revision counts the writes of a row, from 1; 0 = there is no row.
type Revision uint64

// Number counts the entries of one tenant's feed, from 1 and without gaps; that of an
// erased entry stays taken.
type Number uint64

// Key names a row.
type Key struct {
	Tenant  conversation.TenantID
	Channel Channel
	Chat    Chat
}

// Row is what a channel remembers of one chat.
type Row struct {
	Key
	Revision Revision               // as stored; for Save: the one that was read
	Session  conversation.SessionID // the root session with which the row is erased; "" = none
	Value    []byte                 // at most MaxValue bytes; Save with nil deletes the row
}

// MaxValue bounds the value of a row or an entry.
const MaxValue = 256 << 10

// Entry is one thing that has happened in a chat.
type Entry struct {
	Number  Number                 // given by Save
	At      time.Time              // given by the caller, kept in milliseconds
	Session conversation.SessionID // the root session with which the entry is erased; "" = none
	Value   []byte
}

// Feed says which entries of a tenant there are.
type Feed struct {
	First Number // the first one that is kept; Last+1 = none is
	Last  Number // the newest one that there ever was; 0 = none
}

// The errors of Save after which nothing was written. Where both are true it is ErrErased.
var (
	ErrStale  = errors.New("the row has changed since it was read")
	ErrErased = errors.New("the session of the row or entry has been erased")
)

// Store keeps rows and feeds. Its methods may be called from any goroutine. Errors are
// ErrStale, ErrErased, conversation.ErrFull, conversation.ErrClosed, that of Check, the
// context's, or something else; for Save the context's and "something else" mean that the
// outcome is unknown: Load says what it was.
type Store interface {
	// Load reads one row; an absent one has Revision 0 and no Value.
	Load(ctx context.Context, k Key) (Row, error)
	// Save writes rows, each one if its Revision is the stored one (ErrStale), with the next
	// Revision, and appends entries to the tenant's feed: all or nothing, durable when it
	// returns nil. All rows are the tenant's, and none comes twice (Check). What names an
	// erased session is refused (ErrErased), also when it is erased at the same moment; a
	// session that is not there yet may be named.
	Save(ctx context.Context, tenant conversation.TenantID, rows []Row, entries []Entry) error
	// Rows lists the rows of a channel, in the order of their chats, byte by byte. What is
	// saved meanwhile may be in it or not.
	Rows(ctx context.Context, tenant conversation.TenantID, channel Channel) iter.Seq2[Row, error]
	// Feed says which entries there are.
	Feed(ctx context.Context, tenant conversation.TenantID) (Feed, error)
	// Entries lists at most limit entries after a number, in order, and leaves out erased
	// ones. None with a limit of 0.
	Entries(ctx context.Context, tenant conversation.TenantID, after Number, limit int) ([]Entry, error)
	// Trim drops the entries through a number; it is no error if they are gone.
	Trim(ctx context.Context, tenant conversation.TenantID, through Number) error
}

// Check says what is wrong with what a Store is asked to save: a *conversation.Error. Each
// Store asks it first, and has written nothing then.
func Check(tenant conversation.TenantID, rows []Row, entries []Entry) error {
	seen := make(map[Key]bool, len(rows))
	for _, r := range rows {
		switch {
		case r.Tenant != tenant:
			return conversation.Errorf(conversation.BadRequest, "the row of chat %s is another tenant's", r.Chat)
		case seen[r.Key]:
			return conversation.Errorf(conversation.BadRequest, "the row of chat %s comes twice", r.Chat)
		case r.Session.Depth() > 0:
			return conversation.Errorf(conversation.BadRequest, "the row of chat %s names the sub-session %s", r.Chat, r.Session)
		case len(r.Value) > MaxValue:
			return conversation.Errorf(conversation.TooLarge, "the row of chat %s has %d bytes, which are more than %d", r.Chat, len(r.Value), MaxValue)
		}
		seen[r.Key] = true
	}
	for _, e := range entries {
		switch {
		case e.Session.Depth() > 0:
			return conversation.Errorf(conversation.BadRequest, "an entry names the sub-session %s", e.Session)
		case len(e.Value) > MaxValue:
			return conversation.Errorf(conversation.TooLarge, "an entry has %d bytes, which are more than %d", len(e.Value), MaxValue)
		}
	}
	return nil
}
