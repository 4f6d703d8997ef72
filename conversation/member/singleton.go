package member

import (
	"context"
	"errors"

	"parley/conversation"
)

// Singletons says which member has what only one may have at a time, by a name: a program
// that must not run twice, or the one long poll of a bot. It is kept beside a Table,
// and judged by the same rows and the same clock. Its methods may be called from any
// goroutine; errors are as those of a Table.
type Singletons interface {
	// Take gives a singleton to a member, unless another member has it that is in the list
	// and not dead. It returns whose it is then. The error is ErrDeposed if who is not in the list,
	// and ErrLeaseOver if its lease has run out there.
	Take(ctx context.Context, name string, who conversation.Member) (conversation.Member, error)

	// Give ends that a member has a singleton. One that is not its is no error.
	Give(ctx context.Context, name string, who conversation.Member) error
}

// ErrLeaseOver says that a member's lease is over: what it alone may do, others may begin.
var ErrLeaseOver = errors.New("this node's lease is over")

// How a request to the one that runs a singleton may end without an answer.
var (
	// ErrNotRunning says that no node runs the singleton now: nothing was done, and the
	// request may be sent again.
	ErrNotRunning = errors.New("no node runs it at the moment")
	// ErrUnanswered says that the answer was lost, with the node or on the way: what was
	// asked for may have been done.
	ErrUnanswered = errors.New("the node that runs it gave no answer")
)
