package exchange

import (
	"strconv"
	"time"

	"parley/conversation"
)

// Number is where in a session's notes one stands: the number of something that a protocol has
// said of a note. Numbers only grow, and are the same whenever the note is made; between two of
// them there may be any distance. A number is below 2^53, so that a JSON number holds it, in
// sessions of up to 134 million events.
//
// It has three parts: the event's seq; which thing about that event it is, where what streams
// behind the event comes last; and how many code points of the text that is open were told, so
// that a client that comes back with its last number has said how much of it it was shown.
type Number uint64

// The parts of a number, in bits from below.
const (
	runeBits = 20
	slotBits = 6
	maxRunes = 1<<runeBits - 1 // longer texts go on under this number
)

// The slots of an event, in the order in which things are told. What a note has room for is
// how many events of a protocol it may become.
const (
	slotDropped  = 0  // 8
	slotEvent    = 8  // 16
	slotBegan    = 24 // 7
	slotWhole    = 31 // 1: all of a text that did not stream, while another one is open
	slotGrew     = 32 // 1
	slotEnded    = 33 // 16
	slotStreams  = 49 // 8: a text begins to stream
	slotStreamed = 57 // 1
	slotEnd      = 63
)

// MaxNumbers is how many events a protocol may make of one note; of TextDropped half as many, of
// TextBegan seven, of TextGrew one.
const MaxNumbers = 16

// NumberAfter is the number behind all that an event has brought, and all that streamed behind it.
func NumberAfter(seq conversation.Seq) Number { return place(seq, slotEnd, maxRunes) }

// NumberAt is the number behind all that an event has brought, and before what streams behind it:
// of who was told what is stored up to there, and no text that streams.
func NumberAt(seq conversation.Seq) Number { return place(seq, slotStreams-1, 0) }

func place(seq conversation.Seq, slot, runes int) Number {
	return (Number(seq)<<slotBits|Number(slot))<<runeBits | Number(min(runes, maxRunes))
}

// Seq is the event that the number belongs to.
func (p Number) Seq() conversation.Seq { return conversation.Seq(p >> (slotBits + runeBits)) }

func (p Number) slot() int  { return int(p>>runeBits) & (1<<slotBits - 1) }
func (p Number) runes() int { return int(p & maxRunes) }

// String is the number as text; ParseNumber reads it.
func (p Number) String() string { return strconv.FormatUint(uint64(p), 10) }

// ParseNumber reads a number that a client has brought back. false = it is none.
func ParseNumber(s string) (Number, bool) {
	n, err := strconv.ParseUint(s, 10, 53)
	return Number(n), err == nil
}

// Kind says what a note tells.
type Kind uint8

// The kinds of notes. Which fields of a Note are set is said with each.
const (
	Other        Kind = iota // Event: all that has no kind of its own
	Accepted                 // Event (MessageAccepted): somebody has said something
	Resolved                 // Event (MessageResolved): a receipt
	Status                   // Event (TaskStatusChanged)
	TextBegan                // Item: a text of the assistant begins, with the first of its draft or as a part
	TextGrew                 // Item, Delta
	TextEnded                // Item: the part is stored, and Text is all of it
	TextDropped              // Item: what was shown of the text counts no more
	TextFinal                // Item: a text that had ended before is the last one of its task
	Asked                    // Question: something is asked, an approval, or the caller's own tool is to run
	Closed                   // Event (QuestionAnswered or QuestionClosed), Question: as it was asked, nil = it was asked before the fold began
	CallBegan                // Call, Event: a tool or a delegation runs
	CallProgress             // Call: has a new note on how far it is; not stored
	CallEnded                // Call, Event
	Thinking                 // Task: a model is asked; not stored
	Synced                   // all that was stored when the follower began has been told
)

var kindNames = [...]string{"other", "accepted", "resolved", "status", "text_began", "text_grew", "text_ended", "text_dropped", "text_final",
	"asked", "closed", "call_began", "call_progress", "call_ended", "thinking", "synced"}

func (k Kind) String() string { return kindNames[k] }

// Note is one thing that a session has to tell. What its pointers show belongs to the fold, and
// may change with the next note.
type Note struct {
	Kind  Kind
	At    Number // of its first number; of TextGrew that of its last code point
	Own   bool   // false: it has no number of its own, and At is the one before it
	Task  conversation.TaskID
	Time  time.Time           // of the event; zero for what is not stored
	Event *conversation.Event // nil for what is not stored
	Seen  int                 // so many of its numbers a client that comes back was told before

	Item     *Item
	Delta    string
	Question *conversation.QuestionView
	Call     *CallState
}

// Number is that of the i-th event of a protocol which the note becomes, from 0.
func (n *Note) Number(i int) Number { return n.At + Number(i)<<runeBits }

// Item is one text of the assistant.
type Item struct {
	// ID is the same whenever the item is shown: live, again, or of the log.
	ID    string
	Draft conversation.DraftID // "" = it was not streamed
	Runes int                  // code points of it that were told

	shown []byte // that, while it streams; nil of a text that is taken up in its middle

	// Once it has ended:

	Text  string
	Part  conversation.Part
	Final bool // it is the last one of its task
	Kind  conversation.ResponseKind
}

// ItemID is the ID of the item that a part ends.
func ItemID(task conversation.TaskID, p conversation.Part) string {
	if p.Draft != "" && task != "" {
		return draftItem(task, p.Draft)
	}
	return string(p.Message)
}

func draftItem(task conversation.TaskID, d conversation.DraftID) string {
	return string(d) + "-" + string(task)
}

// CallState is a tool's call or a delegation.
type CallState struct {
	ID      conversation.CallID
	Tool    string                 // "" of a delegation
	Agent   conversation.AgentName // "" of a tool
	Args    string                 // of a tool: JSON; of a delegation: its objective. Redacted where the reader may not see it
	Session conversation.SessionID // of a delegation
	Callers bool                   // the tool is the caller's own: it waits for its result
	Begun   time.Time

	Note    string // of CallProgress
	Percent *int

	Ended  bool
	Status conversation.CallStatus
	Result string // redacted likewise
}
