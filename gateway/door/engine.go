package door

import (
	"context"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// Deadline is a context for one request.
func (d *HTTP) Deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(d.Alive, d.Times.Request)
}

type result struct {
	receipt conversation.Receipt
	err     error
}

// Tell gives a session a command and waits for the answer.
func (d *HTTP) Tell(ctx context.Context, key conversation.SessionKey, as conversation.UserID, cmd conversation.Command) (conversation.Receipt, error) {
	answer := make(chan result, 1)
	d.Sessions.Tell(key, as, cmd, func(r conversation.Receipt, err error) { answer <- result{r, err} })
	select {
	case t := <-answer:
		return t.receipt, t.err
	case <-ctx.Done():
		return conversation.Receipt{}, ErrNoAnswer
	}
}

// ErrNoAnswer says that an engine took longer than gateway.request_timeout.
var ErrNoAnswer = &conversation.Error{Code: conversation.Timeout, Message: "the session did not answer in time; the command may still take effect"}

// View asks for a session's state and waits for it.
func (d *HTTP) View(ctx context.Context, key conversation.SessionKey, as conversation.UserID) (conversation.View, error) {
	type seen struct {
		view conversation.View
		err  error
	}
	answer := make(chan seen, 1)
	d.Sessions.View(key, as, func(v conversation.View, err error) { answer <- seen{v, err} })
	select {
	case a := <-answer:
		return a.view, a.err
	case <-ctx.Done():
		return conversation.View{}, ErrNoAnswer
	}
}

// Say gives a session a message and completes the receipt of a repetition.
func (d *HTTP) Say(ctx context.Context, key conversation.SessionKey, say conversation.Say) (conversation.Receipt, error) {
	r, err := d.Tell(ctx, key, say.Author, say)
	if err == nil && r.Disposition == 0 {
		err = d.Complete(ctx, key, &r)
	}
	return r, err
}

// Open makes a session, or finds the one that the same request has made.
func (d *HTTP) Open(who *service.Principal, c protocol.Create) (conversation.SessionKey, bool, error) {
	key := service.NewSessionKey(who, c.ClientID)
	c.Create.Owner = who.User
	type made struct {
		key     conversation.SessionKey
		created bool
		err     error
	}
	answer := make(chan made, 1)
	d.Sessions.Create(key, c.Create, func(key conversation.SessionKey, created bool, err error) { answer <- made{key, created, err} })
	ctx, cancel := d.Deadline()
	defer cancel()
	select {
	case m := <-answer:
		return m.key, m.created, m.err
	case <-ctx.Done():
		return key, false, ErrNoAnswer
	}
}
