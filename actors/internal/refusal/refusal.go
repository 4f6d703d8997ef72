package refusal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/actors/placement"
	"parley/conversation"
	"parley/conversation/member"
)

// Stopping answers what comes while the engine goes away.
func Stopping() *conversation.Error {
	err := conversation.Errorf(conversation.Unavailable, "the server is restarting; please try again in a moment")
	err.RetryAfter = time.Second
	return err
}

// Unreachable answers a command whose session is not in memory and was not brought there.
func Unreachable() *conversation.Error {
	err := conversation.Errorf(conversation.Unavailable, "the session cannot be reached right now; please try again in a moment")
	err.RetryAfter = time.Second
	return err
}

// Internal answers a command in which something panicked.
func Internal(panicked any) *conversation.Error {
	return &conversation.Error{Code: conversation.Internal, Message: "something went wrong on the server", Err: fmt.Errorf("panic: %v", panicked)}
}

// Unread answers a command whose session, or something of it, could not be read.
func Unread(cause error) *conversation.Error {
	err := Unreachable()
	switch {
	case errors.Is(cause, conversation.ErrTooNew):
		err.Message = "this session was written by a newer version of the server, which must serve it"
	case errors.Is(cause, conversation.ErrDamaged):
		err = conversation.Errorf(conversation.Internal, "what is stored of this session cannot be read; trying again does not help, the operator of the server has to look at it")
		err.Final = true
	case errors.Is(cause, conversation.ErrQuota):
		return Quota()
	case errors.Is(cause, conversation.ErrFull):
		return Full()
	case errors.Is(cause, context.Canceled), errors.Is(cause, conversation.ErrClosed):
		return Stopping()
	}
	err.Err = cause
	return err
}

// Full answers work for which the disk has no room.
func Full() *conversation.Error {
	err := conversation.Errorf(conversation.StorageFull, "the server's storage is full; nothing was stored")
	err.RetryAfter = 10 * time.Second
	return err
}

// Quota answers work of a tenant that has stored too much.
func Quota() *conversation.Error {
	return conversation.Errorf(conversation.StorageFull, "your organisation has stored as much as it may: erase sessions, or ask the operator for more; nothing was stored")
}

// NotFound answers for a session that is not there, and for one that the user may not see.
func NotFound() *conversation.Error {
	return conversation.Errorf(conversation.NotFound, "there is no such session")
}

// Busy answers a command for which too many others wait.
func Busy() *conversation.Error {
	err := conversation.Errorf(conversation.Overloaded, "too many commands wait in this session; please try again in a moment")
	err.RetryAfter = time.Second
	return err
}

// Suspended answers while the node's lease is over.
func Suspended() *conversation.Error {
	err := conversation.Errorf(conversation.Unavailable, "the server has lost its database for the moment; please try again soon")
	err.RetryAfter = time.Second
	return err
}

// Elsewhere answers a command whose session is another member's, as the store says.
func Elsewhere(owner conversation.Member) *conversation.Error {
	err := Unreachable()
	err.Err = &placement.ElsewhereError{At: owner, Owns: true}
	return err
}

// IsElsewhere is true for a refusal because the session is another node's.
func IsElsewhere(err error) bool {
	var where *placement.ElsewhereError
	return errors.As(err, &where)
}

// Owned answers a command whose session the store has refused to give, because a member has it
// that lives; false if err is another one. A member of another cluster cannot be asked.
func Owned(err error) (*conversation.Error, bool) {
	var owned *conversation.OwnedError
	switch {
	case !errors.As(err, &owned):
		return nil, false
	case errors.Is(err, member.ErrOtherCluster):
		e := conversation.Errorf(conversation.Unavailable, "another cluster (cluster.name) that uses the same database has this session: ask there, or tell the operator")
		e.RetryAfter, e.Err = 10*time.Second, err
		return e, true
	default:
		return Elsewhere(owned.By), true
	}
}

// Upgrading answers what an older node of the cluster could not read.
func Upgrading() *conversation.Error {
	err := conversation.Errorf(conversation.Unavailable, "the server is being upgraded; please try again when that is done")
	err.RetryAfter = 10 * time.Second
	return err
}
