package dedup

import (
	"strings"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/attached"
)

// Of is the hint for a command whose key is owned by an event.
func Of(c conversation.Command, owner conversation.Event) *conversation.Duplicate {
	d := &conversation.Duplicate{Seq: owner.Seq, Task: owner.Task}
	var stored string
	switch b := owner.Body.(type) {
	case conversation.MessageAccepted:
		d.Message, stored = b.Message, attached.Fingerprint(b.Text, b.Files)
	case conversation.PartialResponse:
		d.Message, stored = b.Message, b.DedupText()
	case conversation.Response:
		d.Message, stored = b.Message, b.DedupText()
	case conversation.TaskCancelling:
		stored = b.DedupText()
	}
	text := fingerprint(AsStored(c))
	if _, say := c.(conversation.Say); !say { // replies are stored without outer white space
		stored, text = strings.TrimSpace(stored), strings.TrimSpace(text)
	}
	d.SameText = stored == text
	return d
}

// AsStored is a client's command with its texts as they are stored: what is not UTF-8
// is replaced. A session that was loaded knows no other bytes, so it must not have
// any while it lives.
func AsStored(c conversation.Command) conversation.Command {
	valid := func(texts ...*string) {
		for _, text := range texts {
			*text = strings.ToValidUTF8(*text, "\uFFFD")
		}
	}
	command := c
	switch c := c.(type) {
	case conversation.Create:
		valid(&c.Title)
		return c
	case conversation.Update:
		if c.Title != nil {
			title := *c.Title
			valid(&title)
			c.Title = &title
		}
		return c
	case conversation.Say:
		if utf8.ValidString(c.Text) && utf8.ValidString(string(c.InReplyTo)) {
			return command // as nearly all: no copy
		}
		valid(&c.Text, (*string)(&c.InReplyTo))
		return c
	case conversation.Answer:
		valid(&c.Text)
		return c
	case conversation.Reply:
		valid(&c.Text)
		return c
	case conversation.Edit:
		valid(&c.Text)
		return c
	case conversation.AddPart:
		valid(&c.Text, &c.Source)
		return c
	case conversation.Cancel:
		valid(&c.Reason)
		return c
	case conversation.Close:
		valid(&c.Reason)
		return c
	case conversation.RuntimeSays:
		valid(&c.Error)
		return c
	case conversation.Tell:
		valid(&c.Objective)
		return c
	default:
		return c
	}
}

// fingerprint is the text by which a second delivery of a command is known.
func fingerprint(c conversation.Command) string {
	switch c := c.(type) {
	case conversation.Say:
		return attached.Fingerprint(c.Text, c.Files)
	case conversation.Answer:
		return c.Text
	case conversation.Reply:
		return c.Text
	case conversation.AddPart:
		return c.DedupText()
	case conversation.Cancel:
		return c.DedupText()
	default:
		return ""
	}
}

// ClientKey is the key that a command's client id makes; ok is false for a command
// without one.
func ClientKey(c conversation.Command) (key conversation.Key, ok bool) {
	switch c := c.(type) {
	case conversation.Say:
		key = conversation.Key{Author: c.Author, Client: c.ClientMsgID}
	case conversation.Answer:
		key = conversation.Key{Author: c.Author, Client: c.ClientMsgID}
	case conversation.Reply:
		key = conversation.Key{Author: c.Author, Client: c.ClientMsgID}
	case conversation.AddPart:
		if c.Source == "" {
			key = conversation.Key{Author: c.Author, Client: c.ClientMsgID}
		}
	case conversation.Cancel:
		key = conversation.Key{Author: c.Author, Client: c.ClientMsgID}
	}
	return key, key.Client != ""
}

// With is the command with the store's hint, if there is one. A command that has no key
// is returned as it is.
func With(c conversation.Command, d *conversation.Duplicate) conversation.Command {
	if d == nil {
		return c
	}
	switch c := c.(type) {
	case conversation.Say:
		c.Duplicate = d
		return c
	case conversation.Answer:
		c.Duplicate = d
		return c
	case conversation.Reply:
		c.Duplicate = d
		return c
	case conversation.AddPart:
		c.Duplicate = d
		return c
	case conversation.Cancel:
		c.Duplicate = d
		return c
	default:
		return c
	}
}
