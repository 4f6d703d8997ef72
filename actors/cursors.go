package actors

import (
	"time"

	"parley/conversation"
)

// cursors are read cursors that wait for a commit: they are stored with the next
// one, or alone when they are due. Most sessions have none, so nil is empty.
type cursors struct {
	seqs    map[conversation.UserID]conversation.Seq
	waiters []*envelope
	due     time.Time
}

// add gathers cursors, and the command that has brought them. The first ones are
// due after wait.
func (c *cursors) add(more []conversation.Cursor, t *envelope, wait time.Duration) *cursors {
	if c == nil {
		c = &cursors{seqs: map[conversation.UserID]conversation.Seq{}, due: time.Now().Add(wait)}
	}
	for _, cursor := range more {
		c.seqs[cursor.User] = max(c.seqs[cursor.User], cursor.Seq)
	}
	c.waiters = append(c.waiters, t)
	return c
}

// waiting is how many commands wait for the cursors to be stored.
func (c *cursors) waiting() int {
	if c == nil {
		return 0
	}
	return len(c.waiters)
}

// addTo puts the cursors, and the commands that wait for them, into a batch.
func (c *cursors) addTo(b *batch) {
	if c == nil {
		return
	}
	for user, seq := range c.seqs {
		b.commit.Cursors = append(b.commit.Cursors, conversation.Cursor{User: user, Seq: seq})
	}
	b.waiters = append(b.waiters, c.waiters...)
}

// storeCursors commits the cursors that no other commit has taken along.
func (s *session) storeCursors() {
	s.cursors.addTo(s.batch())
	s.cursors = nil
	s.flush()
}
