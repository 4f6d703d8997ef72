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

// NextPart asks the store for the index that the next part of a source may have, where a
// part wants to follow the part before. It is the one behind before, if that is stored.
// Else it is one that is free, and whose part before is stored: the next one of a source
// without gaps. A log of before gaps were refused may have some; there it is behind one
// of the pieces. The error is that of find.
func NextPart(before conversation.Key, find func([]conversation.Key) ([]conversation.Seq, error)) (conversation.PartIndex, error) {
	seqs, err := find([]conversation.Key{before})
	if err != nil || seqs[0] != 0 {
		return before.Part + 1, err
	}
	// All parts below low are taken for stored, and high is free. A round asks for parts
	// that are ever farther from low, so a short source costs one.
	low, high := uint64(0), uint64(before.Part)
	for low < high {
		var keys []conversation.Key
		for at, step := low, uint64(1); at < high; at, step = at+step, 2*step {
			keys = append(keys, conversation.Key{Source: before.Source, Part: conversation.PartIndex(at)})
		}
		if seqs, err = find(keys); err != nil {
			return 0, err
		}
		for i, key := range keys {
			if seqs[i] == 0 {
				high = uint64(key.Part)
				break
			}
			low = uint64(key.Part) + 1
		}
	}
	return conversation.PartIndex(low), nil
}

// Follow is the part with the hint of NextPart. Any other command is returned as it is.
func Follow(c conversation.Command, next conversation.PartIndex) conversation.Command {
	if part, ok := c.(conversation.AddPart); ok {
		part.NextFree = next
		return part
	}
	return c
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
