package claims

import (
	"context"
	"fmt"

	"parley/conversation"
)

// given is a message that a session has handed out.
type given struct {
	key     conversation.SessionKey
	receipt conversation.Receipt
}

// read adds their texts. One that cannot be read is left out: its runtime is handed it
// again by the next claim. An error says that this is so for all of them.
func (d *Desk) read(ctx context.Context, all []given) (out []conversation.HandedOut, err error) {
	for _, g := range all {
		text, failed := d.text(ctx, g.key, g.receipt.Said)
		if failed != nil {
			err = failed
			continue
		}
		out = append(out, conversation.HandedOut{
			Key: g.key, Message: g.receipt.Message, Author: g.receipt.Author, AuthorName: g.receipt.AuthorName, Text: text,
			Generation: g.receipt.Generation, Until: g.receipt.Until, NextPart: g.receipt.NextPart,
		})
	}
	if len(out) > 0 {
		err = nil
	}
	return out, err
}

// text is that of the event which brought a message, or changed it last.
func (d *Desk) text(ctx context.Context, key conversation.SessionKey, seq conversation.Seq) (string, error) {
	event, err := d.o.Event(ctx, key, seq)
	if err != nil {
		return "", fmt.Errorf("the text of a message of %s: %w", key, err)
	}
	switch b := event.Body.(type) {
	case conversation.MessageAccepted:
		return b.Text, nil
	case conversation.MessageEdited:
		return b.Text, nil
	default:
		return "", conversation.Errorf(conversation.Internal, "event %d of the session has no message", seq)
	}
}

// Offer is what a desk was told of a session: that something may be claimed.
type Offer bool

// Tell tells a desk what may be claimed in a session, as its last commit has stored it.
// Nothing is said of a session that has never had anything.
func (o *Offer) Tell(d *Desk, key conversation.SessionKey, c *conversation.Claimable) {
	if c == nil && !bool(*o) {
		return
	}
	*o = c != nil
	d.Set(key, c)
	if d.o.Told != nil {
		d.o.Told(key, c)
	}
}
