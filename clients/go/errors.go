package parley

import (
	"errors"
	"fmt"
	"time"

	"parley/clients/go/internal/refusal"
)

// A Code says which kind of refusal an [*Error] is, the same over the socket and HTTP.
type Code string

// The codes of protocol v1. A newer server may have more.
const (
	BadRequest           Code = "bad_request"
	InvalidJSON          Code = "invalid_json"
	UnknownType          Code = "unknown_type"
	Unauthenticated      Code = "unauthenticated"
	TokenExpired         Code = "token_expired"
	Forbidden            Code = "forbidden"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed"
	QuestionNotOpen      Code = "question_closed"
	TaskNotAwaiting      Code = "task_not_awaiting"
	SessionBusy          Code = "session_busy"
	Conflict             Code = "conflict"
	SessionIsClosed      Code = "session_closed"
	TooLarge             Code = "too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	UpgradeRequired      Code = "upgrade_required"
	InboxFull            Code = "inbox_full"
	RateLimited          Code = "rate_limited"
	Internal             Code = "internal"
	Overloaded           Code = "overloaded"
	Unavailable          Code = "unavailable"
	Timeout              Code = "timeout"
	StorageFull          Code = "storage_full"
)

// An Error is a refusal of the server: a code for the program, a sentence for people.
type Error struct {
	Code       Code
	Message    string
	Retryable  bool          // the same may succeed later
	RetryAfter time.Duration // after this long; 0 = not said
	Status     int           // of HTTP; 0 over the socket
	TaskStatus string        // with task_not_awaiting: what it is
	NextPart   *int          // to a runtime that left a gap
	Generation int           // to a runtime whose lease is over
}

func (e *Error) Error() string { return fmt.Sprintf("parley: %s (%s)", e.Message, e.Code) }

// CodeOf is the code of the refusal in err; "" if there is none.
func CodeOf(err error) Code {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// A CloseError is the end of a connection by the server.
type CloseError struct {
	Code   int
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("parley: the server has closed the connection: %s (%d)", e.Reason, e.Code)
}

// Reconnect says whether a client may come back by itself.
func (e *CloseError) Reconnect() bool { return !final[e.Code] }

// final are the close codes after which a client must not come back: it would be
// refused again, or what it sends is wrong. Codes that are not known come back.
var final = map[int]bool{
	1002: true, 1003: true, 1007: true, 1009: true,
	4500: true, 4501: true, 4502: true, 4503: true, 4504: true,
}

// Errors of this package.
var (
	// ErrClosed is what commands get after Close.
	ErrClosed = errors.New("parley: the client is closed")
	// ErrLost is what a command gets that must not be sent twice, when the connection
	// ends before its answer. It may have taken effect.
	ErrLost = errors.New("parley: the connection ended before the answer; it is not known whether the command took effect")

	errSilent   = errors.New("parley: the server is silent")
	errNoAnswer = errors.New("parley: the server does not answer a command")
	errGaps     = errors.New("parley: the events have a gap that does not close")
)

// refusedBy is a refusal of a frame or an answer of HTTP as an error.
func refusedBy(r *refusal.Refusal) *Error {
	return &Error{
		Code: Code(r.Code), Message: r.Message, Retryable: r.Retryable, RetryAfter: time.Duration(r.RetryAfterMS) * time.Millisecond,
		Status: r.Status, TaskStatus: r.TaskStatus, NextPart: r.NextPart, Generation: r.Generation,
	}
}
