package conversation

import (
	"strings"
	"unicode/utf8"
)

// A command of a client takes effect once. The store's keys say whether the first
// delivery is there; a session remembers the last ones by itself.

// Duplicate is the hint that the store already knows the key that a command
// brings: what the first delivery has become. It is needed only for keys that the
// session has forgotten.
type Duplicate struct {
	Message  MessageID // "" for a cancel
	Seq      Seq       // of the event that owns the key
	Task     TaskID
	SameText bool // the first delivery said the same; if not, the id is used twice, which is the client's mistake
}

// DuplicateOf is the hint for a command whose key is owned by an event.
func DuplicateOf(c Command, owner Event) *Duplicate {
	d := &Duplicate{Seq: owner.Seq, Task: owner.Task}
	var stored string
	switch b := owner.Body.(type) {
	case MessageAccepted:
		d.Message, stored = b.Message, b.Text
	case PartialResponse:
		d.Message, stored = b.Message, b.DedupText()
	case Response:
		d.Message, stored = b.Message, b.DedupText()
	case TaskCancelling:
		stored = b.DedupText()
	}
	text := fingerprint(AsStored(c))
	if _, say := c.(Say); !say { // replies are stored without outer white space
		stored, text = strings.TrimSpace(stored), strings.TrimSpace(text)
	}
	d.SameText = stored == text
	return d
}

// AsStored is a client's command with its texts as they are stored: what is not UTF-8
// is replaced. A session that was loaded knows no other bytes, so it must not have
// any while it lives.
func AsStored(c Command) Command {
	valid := func(texts ...*string) {
		for _, text := range texts {
			*text = strings.ToValidUTF8(*text, "\uFFFD")
		}
	}
	command := c
	switch c := c.(type) {
	case Create:
		valid(&c.Title)
		return c
	case Update:
		if c.Title != nil {
			title := *c.Title
			valid(&title)
			c.Title = &title
		}
		return c
	case Say:
		if utf8.ValidString(c.Text) && utf8.ValidString(string(c.InReplyTo)) {
			return command // as nearly all: no copy
		}
		valid(&c.Text, (*string)(&c.InReplyTo))
		return c
	case Answer:
		valid(&c.Text)
		return c
	case Reply:
		valid(&c.Text)
		return c
	case Edit:
		valid(&c.Text)
		return c
	case AddPart:
		valid(&c.Text, &c.Source)
		return c
	case Cancel:
		valid(&c.Reason)
		return c
	case Close:
		valid(&c.Reason)
		return c
	case RuntimeSays:
		valid(&c.Error)
		return c
	case Tell:
		valid(&c.Objective)
		return c
	default:
		return c
	}
}

// fingerprint is the text by which a second delivery of a command is known.
func fingerprint(c Command) string {
	switch c := c.(type) {
	case Say:
		return c.Text
	case Answer:
		return c.Text
	case Reply:
		return c.Text
	case AddPart:
		return c.DedupText()
	case Cancel:
		return c.DedupText()
	default:
		return ""
	}
}

// ClientKey is the key that a command's client id makes; ok is false for a command
// without one.
func ClientKey(c Command) (key Key, ok bool) {
	switch c := c.(type) {
	case Say:
		key = Key{Author: c.Author, Client: c.ClientMsgID}
	case Answer:
		key = Key{Author: c.Author, Client: c.ClientMsgID}
	case Reply:
		key = Key{Author: c.Author, Client: c.ClientMsgID}
	case AddPart:
		if c.Source == "" {
			key = Key{Author: c.Author, Client: c.ClientMsgID}
		}
	case Cancel:
		key = Key{Author: c.Author, Client: c.ClientMsgID}
	}
	return key, key.Client != ""
}

// WithDuplicate is the command with the store's hint. A command that has no key is
// returned as it is.
func WithDuplicate(c Command, d *Duplicate) Command {
	switch c := c.(type) {
	case Say:
		c.Duplicate = d
		return c
	case Answer:
		c.Duplicate = d
		return c
	case Reply:
		c.Duplicate = d
		return c
	case AddPart:
		c.Duplicate = d
		return c
	case Cancel:
		c.Duplicate = d
		return c
	default:
		return c
	}
}
