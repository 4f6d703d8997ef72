package mail

import (
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// Counting makes mailboxes that tell depth, when a message which counts was worked off, how
// many such messages wait then.
func Counting(depth interface{ Observe(float64) }, counts func(message any) bool) actor.MailboxProducer {
	return func() actor.Mailbox { return actor.UnboundedLockfree(&counter{depth: depth, counts: counts})() }
}

// counter is of one mailbox.
type counter struct {
	depth   interface{ Observe(float64) }
	counts  func(any) bool
	waiting atomic.Int64
}

// MessagePosted implements actor.MailboxMiddleware.
func (c *counter) MessagePosted(m any) {
	if c.counts(m) {
		c.waiting.Add(1)
	}
}

// MessageReceived implements actor.MailboxMiddleware. The library calls it behind the message.
func (c *counter) MessageReceived(m any) {
	if c.counts(m) {
		c.depth.Observe(float64(c.waiting.Add(-1)))
	}
}

// MailboxStarted implements actor.MailboxMiddleware.
func (c *counter) MailboxStarted() {}

// MailboxEmpty implements actor.MailboxMiddleware.
func (c *counter) MailboxEmpty() {}
