package relay

// Meter counts what a relay does. Its methods are called from any goroutine, also with a lock
// held: they must not block, nor call the relay.
type Meter interface {
	// Follows says how many sessions clients of this node follow at other nodes (there), and how
	// many other nodes follow here. It is told every Interval.
	Follows(there, here int)
	// Renewal is one message that tells an owner what is followed, when its end is known.
	Renewal(outcome string)
	// Gap is one session of which something may have been missed, and is looked for.
	Gap(of string)
	// Message is one message, "in" or "out".
	Message(direction string, bytes int)
	// Dropped is one message, or one piece of text, that is not shown or not sent.
	Dropped(reason string)
}

// What becomes of a renewal.
const (
	renewalAnswered = "answered"
	renewalLost     = "lost"     // no answer came within forget
	renewalNotSent  = "not_sent" // nobody is there, or too much waits
)

// Of what there are gaps.
const (
	gapOfEvents = "events" // the store is asked
	gapOfText   = "text"   // the text that streams is read anew
)

// Why something is dropped.
const (
	droppedNotSent    = "not_sent"   // nobody is there, or too much waits
	droppedUnreadable = "unreadable" // rubbish, or of another version
	droppedLease      = "lease"      // this node's own lease is over
	droppedStranger   = "stranger"   // of a session, or by a node, that is not followed
	droppedReplaced   = "replaced"   // of a writer that another one has replaced
	droppedSilent     = "silent"     // by a node that has not answered for a lease
)

// nobodyCounts is for relays without a Meter.
type nobodyCounts struct{}

func (nobodyCounts) Follows(int, int)    {}
func (nobodyCounts) Renewal(string)      {}
func (nobodyCounts) Gap(string)          {}
func (nobodyCounts) Message(string, int) {}
func (nobodyCounts) Dropped(string)      {}
