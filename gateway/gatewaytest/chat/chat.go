package chat

import (
	"context"
	"strings"

	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
)

// Engine holds the methods that a platform calls; service.Sessions has them.
type Engine interface {
	fanout.Source
	Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error))
}

// Platform is the other side.
type Platform interface {
	// Post shows a line. The platform keeps seq with it, in one step: it is where
	// Run goes on after a restart.
	Post(ctx context.Context, seq conversation.Seq, line string) error
}

// Room is one session on one platform.
type Room struct {
	Engine   Engine
	Hub      *fanout.Hub
	Limits   protocol.Limits
	Platform Platform
	Session  conversation.SessionKey
	User     conversation.UserID // whom the platform speaks for
	Via      conversation.Via    // which platform it is
}

// Run posts all that happens after since until ctx ends or the session is erased
// (then the error is nil). since is the seq of the last post; 0 = from the start.
func (r *Room) Run(ctx context.Context, since conversation.Seq) error {
	sub, _, err := r.Hub.Subscribe(ctx, r.Engine, r.Limits, fanout.Options{Key: r.Session, As: r.User, Since: since, Values: true})
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		d, err := sub.Next(ctx)
		if err != nil || d.Gone {
			return err
		}
		for _, e := range d.Events {
			if line := lineOf(e); line != "" {
				if err := r.Platform.Post(ctx, e.Seq, line); err != nil {
					return err
				}
			}
		}
	}
}

// lineOf is an event as the platform shows it; "" = not at all.
func lineOf(e conversation.Event) string {
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		return "> " + b.Text
	case conversation.PartialResponse:
		return b.Text
	case conversation.Response:
		if b.Promoted { // posted before, as a part
			return ""
		}
		return b.Text
	case conversation.Asked:
		if len(b.Choices) > 0 {
			return "? " + b.Text + " [" + strings.Join(b.Choices, " | ") + "]"
		}
		return "? " + b.Text
	default:
		return ""
	}
}

// Say gives the session a message of the platform. id is the platform's own name
// for it: given twice, it is said once. answered is called when it is durable.
func (r *Room) Say(id, text string, answered func(conversation.Receipt, error)) {
	r.Engine.Tell(r.Session, r.User, conversation.Say{
		Author: r.User, Via: r.Via, ClientMsgID: conversation.ClientMsgID(id), Text: text,
	}, answered)
}
