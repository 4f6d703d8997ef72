package conversation

// A command of a client takes effect once. The store's keys say whether the first
// delivery is there; a session remembers the last ones by itself. See package dedup.

// Duplicate is the hint that the store already knows the key that a command
// brings: what the first delivery has become. It is needed only for keys that the
// session has forgotten.
type Duplicate struct {
	Message  MessageID // "" for a cancel
	Seq      Seq       // of the event that owns the key
	Task     TaskID
	SameText bool // the first delivery said the same; if not, the id is used twice, which is the client's mistake
}
