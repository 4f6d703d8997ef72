package service

import (
	"context"
	"iter"

	"parley/conversation"
)

// Sessions is the engine as the gateway needs it. Everything that a client
// asks for goes through it; actors.Engine fits it.
//
// Errors are *conversation.Error where a client may see them; the reads of the
// store return its errors (conversation.ErrNotFound and so on). A session that
// "as" may not see answers not_found.
type Sessions interface {
	// Create opens a root session; on one that exists it changes nothing. Under the
	// key of an erased one the next session of its name is opened, or found: done
	// gets the key of the session.
	Create(key conversation.SessionKey, c conversation.Create, done func(key conversation.SessionKey, created bool, err error))
	// Tell gives a session a command. done is called exactly once, after all that
	// the answer depends on is durable and before the events of its commit are
	// published; it must not block.
	Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error))
	// View shows a session as of its durable head.
	View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error))
	// Erase deletes a session and everything below it.
	Erase(ctx context.Context, key conversation.SessionKey, as conversation.UserID) error

	// Claim hands messages that wait for an outside runtime to one, durably. If
	// there are none it waits for some, for ClaimRequest.Wait at most, and then
	// returns none; when ctx ends before that, it returns the context's error.
	Claim(ctx context.Context, r conversation.ClaimRequest) ([]conversation.HandedOut, error)

	// Records, Summary, Sessions, Task and Tasks read what is stored. They do not
	// check who asks: the gateway does.
	Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error]
	Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error)
	Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error]
	Task(ctx context.Context, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error)
	Tasks(ctx context.Context, f conversation.TaskFilter) iter.Seq2[conversation.TaskRow, error]

	// Ready says why the engine cannot work now; nil = it can.
	Ready() error
	// Health says why the engine cannot serve everything although it is Ready; nil =
	// it can.
	Health() error
}
