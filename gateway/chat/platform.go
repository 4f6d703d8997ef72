package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
)

// Platform is one chat platform, as an adapter below gateway/ speaks with it. All methods but
// Run may be called from any goroutine, and at the same time. A Platform knows nothing of
// sessions: it turns what comes into Updates, and sends what it is given.
type Platform interface {
	// Traits say what the platform is able to do. They do not change.
	Traits() Traits
	// Run receives until ctx ends. It begins by asking the platform who the bot is. What comes
	// is given to d, in the platform's order within one chat; the platform is told that it was
	// received only after done was called with nil. An error is a *Failure where the reason is
	// known; Run is started again after a pause, longer each time.
	Run(ctx context.Context, d Desk) error
	// Send posts one message. An error that is a *Failure says what became of it; after any
	// other error the outcome is unknown.
	Send(ctx context.Context, to Address, m Outgoing) (Posted, error)
	// Close takes the choices off a message that was sent with some, and says beneath it
	// what was chosen; "" = nothing was. Platforms without buttons do nothing.
	Close(ctx context.Context, to Address, id MessageName, text, chosen string) error
	// Typing shows that an answer is being made. It ends by itself.
	Typing(ctx context.Context, to Address) error
	// React puts a reaction to somebody's message, in place of the one before.
	React(ctx context.Context, to Address, id MessageName, r Reaction) error
	// Find looks for a message that was perhaps sent, by its Outgoing.Nonce or else its text,
	// among those since then. known is false where the platform has no history for bots, or
	// did not let us read it.
	Find(ctx context.Context, to Address, m Outgoing, since time.Time) (p Posted, found, known bool, err error)
	// Check says what is wrong with the credentials and the settings at the platform, for
	// doctor: one sentence each, with what to do. It sends nothing to any chat.
	Check(ctx context.Context) []Finding
}

// Finding is one line of doctor.
type Finding struct {
	OK   bool
	Text string
}

// Traits say what a platform is able to do.
type Traits struct {
	Channel chats.Channel
	Via     conversation.Via
	// Limit is how long an encoded text may be, in the units of Measure.
	Limit   int
	Measure func(encoded string) int
	// Encode makes of plain text what the platform shows as that plain text; where it names one
	// of people with an @, it becomes a mention of that person. Nothing else in text
	// becomes a mention, a link to everybody, or formatting.
	Encode func(text string, people []Person) string
	// Buttons is how many choices a message may have as buttons; 0 = none. Label bounds their
	// text, in characters.
	Buttons, Label int
	TypingEvery    time.Duration // how often Typing is to be repeated; 0 = there is none
	Reactions      bool
	Threads        bool // answers go into the thread of their message, or reply to it
	// Prefix is what stands before the name of a command in help: "/", "/parley ".
	Prefix string
}

// Address is where to send: the platform's own, as JSON. It is kept in the chat's row.
type Address = json.RawMessage

// MessageName is the platform's name for a message, unique within a chat.
type MessageName string

// Person is somebody who has spoken in a chat.
type Person struct {
	ID     string `json:"id"`               // the platform's
	Name   string `json:"name,omitempty"`   // what is shown
	Handle string `json:"handle,omitempty"` // what others write behind an @; "" = none
}

// UpdateKind says what has happened on the platform.
type UpdateKind uint8

// The kinds of updates.
const (
	Said    UpdateKind = iota + 1 // a message, or a command of the platform as its text ("/ask …")
	Edited                        // Text is the new one of the message Name
	Deleted                       // the message Name
	Pressed                       // a button: Token
	Left                          // the bot is not in the chat any more
)

var updateKinds = [...]string{"", "message", "edit", "deletion", "button", "left"}

func (k UpdateKind) String() string { return updateKinds[min(int(k), len(updateKinds)-1)] }

// Update is one thing that comes from a platform.
type Update struct {
	Kind      UpdateKind
	Chat      string      // the platform's chat and thread, as they stand in the chat's key behind "NAME:"
	Allowed   string      // the chat's id for allow_chats; "" = Chat
	To        Address     // where answers go
	Workspace string      // of Slack and Discord; "" = there is none
	Group     bool        // several people may read it
	Title     string      // what the chat is called on the platform; "" = not known
	From      Person      // who; of Deleted, "" = the platform does not say
	Name      MessageName // of the message; of a command or a press: a name that is the same when it comes again
	Text      string      // plain, the bot's own mention taken off
	Addressed bool        // the bot is meant: mentioned, replied to, in its thread, or by a command
	Command   bool        // Text is a command of the platform's own, never free text
	ReplyTo   MessageName // the message that it replies to; "" = none
	Files     []File
	Token     string // Pressed: of the Choice
	At        time.Time
	// Reply answers only who has said this, where the platform can do so (an ephemeral answer to
	// a command or a press); nil = it is sent to the chat. It may fail when it comes late.
	Reply func(ctx context.Context, text string) error
}

// File is what was attached to a message.
type File struct {
	Name  string // "" = none
	Type  string // a media type, or a word like "voice message"; "" = not known
	Bytes int64  // 0 = not known
}

// Desk takes what comes from a platform.
type Desk interface {
	// Take takes an update. done is called once, perhaps before Take returns: with nil when
	// everything that follows from it is durable, or nothing does; with an error when it is to
	// be delivered again. Take blocks while too many wait.
	Take(ctx context.Context, u Update, done func(error))
	// Known lists the chats of the channel with the newest message that was taken from each,
	// for platforms that have to be asked for what was missed.
	Known(ctx context.Context) iter.Seq2[KnownChat, error]
}

// KnownChat is a chat that has spoken with the bot.
type KnownChat struct {
	Chat string // as in Update
	To   Address
	Last MessageName // "" = none
}

// Outgoing is one message for a platform.
type Outgoing struct {
	Text    string      // encoded
	ReplyTo MessageName // "" = none
	Choices []Choice
	Nonce   string // at most 25 characters, of this message alone and the same whenever it is tried
}

// Choice is a button.
type Choice struct {
	Label string
	Token string // at most 64 bytes; comes back in Update.Token
}

// Posted is a message that the platform has taken.
type Posted struct {
	Name MessageName
}

// Reaction says with a picture what would be noise as a text.
type Reaction uint8

// The reactions.
const (
	Accepted Reaction = iota + 1 // 👀
	Answered                     // ✅
	NoReaction
)

// Trouble says why a request to a platform has failed.
type Trouble uint8

// The troubles.
const (
	Later       Trouble = iota + 1 // not done; may be tried again, after Failure.After
	Unreachable                    // the chat is gone, closed to the bot, or the bot is blocked in it
	Unfit                          // this message will never be taken
	Credentials                    // the bot's credentials are not accepted, or lack a right
)

func (t Trouble) String() string {
	switch t {
	case Later:
		return "later"
	case Unreachable:
		return "unreachable"
	case Unfit:
		return "unfit"
	case Credentials:
		return "credentials"
	}
	return "unknown"
}

// Failure is an error after which it is certain that nothing was done.
type Failure struct {
	Trouble Trouble
	After   time.Duration // with Later: not before; 0 = it was not said
	Text    string        // a sentence without secrets
}

func (f *Failure) Error() string { return fmt.Sprintf("%s (%s)", f.Text, f.Trouble) }
