package rest

import (
	"context"

	"parley/conversation"
)

// deadline is a context for one request.
func (s *API) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.Alive, s.Times.Request)
}

type result struct {
	receipt conversation.Receipt
	err     error
}

// tell gives a session a command and waits for the answer.
func (s *API) tell(ctx context.Context, key conversation.SessionKey, as conversation.UserID, cmd conversation.Command) (conversation.Receipt, error) {
	answer := make(chan result, 1)
	s.Sessions.Tell(key, as, cmd, func(r conversation.Receipt, err error) { answer <- result{r, err} })
	select {
	case t := <-answer:
		return t.receipt, t.err
	case <-ctx.Done():
		return conversation.Receipt{}, errNoAnswer
	}
}

var errNoAnswer = &conversation.Error{Code: conversation.Timeout, Message: "the session did not answer in time; the command may still take effect"}

// view asks for a session's state and waits for it.
func (s *API) view(ctx context.Context, key conversation.SessionKey, as conversation.UserID) (conversation.View, error) {
	type seen struct {
		view conversation.View
		err  error
	}
	answer := make(chan seen, 1)
	s.Sessions.View(key, as, func(v conversation.View, err error) { answer <- seen{v, err} })
	select {
	case a := <-answer:
		return a.view, a.err
	case <-ctx.Done():
		return conversation.View{}, errNoAnswer
	}
}
