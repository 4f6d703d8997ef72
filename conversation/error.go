package conversation

import (
	"errors"
	"fmt"
	"time"

	"parley/conversation/access"
)

// Code is the part of an error that programs read; what they should do about it
// depends on nothing else. The same codes go over
// WebSocket and HTTP (docs/PROTOCOL.md).
type Code string

// The codes of protocol v1.
const (
	BadRequest          Code = "bad_request"
	InvalidJSON         Code = "invalid_json"
	UnknownType         Code = "unknown_type"
	Unauthenticated     Code = "unauthenticated"
	TokenExpired        Code = "token_expired"
	Forbidden           Code = "forbidden"
	NotFound            Code = "not_found"
	QuestionNotOpen     Code = "question_closed"
	TaskNotAwaiting     Code = "task_not_awaiting"
	SessionBusy         Code = "session_busy"
	SessionIsClosed     Code = "session_closed"
	Conflict            Code = "conflict"
	TooLarge            Code = "too_large"
	RateLimited         Code = "rate_limited"
	InboxFull           Code = "inbox_full"
	Overloaded          Code = "overloaded"
	StorageFull         Code = "storage_full"
	Timeout             Code = "timeout"
	Unavailable         Code = "unavailable"
	Internal            Code = "internal"
	MethodNotAllowed    Code = "method_not_allowed"
	UnsupportedMedia    Code = "unsupported_media_type"
	UpgradeRequired     Code = "upgrade_required"
	codeOfForeignErrors      = Internal
)

// Error is a refusal or failure that a client may see: a code for programs and
// a sentence for people. Err, if there is one, is for the log only.
type Error struct {
	Code       Code
	Message    string
	RetryAfter time.Duration // 0 = no advice
	TaskStatus TaskStatus    // what the task is instead, with TaskNotAwaiting, and for a runtime whose task has ended
	NextPart   *PartIndex    // for a runtime that left a gap: the index that is expected
	Generation uint32        // for a runtime whose hand-out is not the last one: the generation of that
	Final      bool          // trying again does not help, although with this Code it mostly does
	Err        error         // the cause; never shown to a client
}

func (e *Error) Error() string {
	if e.Err != nil {
		return string(e.Code) + ": " + e.Message + ": " + e.Err.Error()
	}
	return string(e.Code) + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable is true when the same request may succeed later without a change.
func (e *Error) Retryable() bool {
	if e.Final {
		return false
	}
	switch e.Code {
	case SessionBusy, RateLimited, InboxFull, Overloaded, StorageFull, Timeout, Unavailable, Internal:
		return true
	default:
		return false
	}
}

// Errorf makes an Error whose sentence may be shown to a client: it says what to do,
// in the words of the client, and holds no secret.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// AsError turns any error into one that may be shown: an *Error as it is,
// everything foreign as "internal" without its text.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: codeOfForeignErrors, Message: "something went wrong on the server", Err: err}
}

// Forbid refuses what a user's role in a session does not allow.
func Forbid(needs access.Right) *Error {
	return Errorf(Forbidden, "this needs the role %s in the session", needs.Role())
}
