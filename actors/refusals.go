package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
)

// These are the engine's refusals; the machine has its own. Each call makes a new
// error, because callers add a cause to it.

func errStopping() *conversation.Error {
	err := conversation.Errorf(conversation.Unavailable, "the server is restarting; please try again in a moment")
	err.RetryAfter = time.Second
	return err
}

func errUnreachable() *conversation.Error {
	err := conversation.Errorf(conversation.Unavailable, "the session cannot be reached right now; please try again in a moment")
	err.RetryAfter = time.Second
	return err
}

func errInternal(panicked any) *conversation.Error {
	return &conversation.Error{Code: conversation.Internal, Message: "something went wrong on the server", Err: fmt.Errorf("panic: %v", panicked)}
}

// errUnread answers a command whose session, or something of it, could not be read.
func errUnread(cause error) *conversation.Error {
	err := errUnreachable()
	switch {
	case errors.Is(cause, conversation.ErrTooNew):
		err.Message = "this session was written by a newer version of the server, which must serve it"
	case errors.Is(cause, conversation.ErrDamaged):
		err = conversation.Errorf(conversation.Internal, "what is stored of this session cannot be read; trying again does not help, the operator of the server has to look at it")
		err.Final = true
	case errors.Is(cause, conversation.ErrQuota):
		return errQuota()
	case errors.Is(cause, conversation.ErrFull):
		return errFull()
	case errors.Is(cause, context.Canceled), errors.Is(cause, conversation.ErrClosed):
		return errStopping()
	}
	err.Err = cause
	return err
}

func errFull() *conversation.Error {
	err := conversation.Errorf(conversation.StorageFull, "the server's storage is full; nothing was stored")
	err.RetryAfter = 10 * time.Second
	return err
}

func errQuota() *conversation.Error {
	return conversation.Errorf(conversation.StorageFull, "your organisation has stored as much as it may: erase sessions, or ask the operator for more; nothing was stored")
}

func errNotFound() *conversation.Error {
	return conversation.Errorf(conversation.NotFound, "there is no such session")
}

func errBusy() *conversation.Error {
	err := conversation.Errorf(conversation.Overloaded, "too many commands wait in this session; please try again in a moment")
	err.RetryAfter = time.Second
	return err
}
