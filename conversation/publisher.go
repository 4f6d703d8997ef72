package conversation

// Publisher is shown what has become durable, and what need not be. The epoch is that of
// the session's writer: what comes with an older one than was seen before is of a writer
// that another one has replaced, and is not shown.
type Publisher interface {
	// Publish hands on durable events, in order. It never blocks.
	Publish(key SessionKey, epoch Epoch, events []Event)
	// Show hands on an ephemeral thing; after is the last durable seq.
	Show(key SessionKey, epoch Epoch, after Seq, e Ephemeral)
	// Stored says how far a session's log reaches when it comes into memory. If the process
	// that stored an event ended before it published it, the event is never published:
	// followers read it from the log.
	Stored(key SessionKey, epoch Epoch, head Seq)
	// Audience says that it has changed who may read a root session, and those below it:
	// now.Reads is asked of all who follow them. It comes behind the commit that changed it, and
	// before that commit's events.
	Audience(root SessionKey, epoch Epoch, now Summary)
	// Gone says that a session was erased.
	Gone(key SessionKey, reason string)
}
