package mail

// DeadLetterOK is embedded in messages that may arrive when their receiver has
// ended, which is normal: the actor library then does not log a dead letter.
type DeadLetterOK struct{}

// IgnoreDeadLetterLogging tells the actor library.
func (DeadLetterOK) IgnoreDeadLetterLogging() {}
