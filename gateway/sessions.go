package gateway

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"parley/conversation"
	"parley/metrics"
)

// Sessions is what the gateway needs of the engine. Everything that a client
// asks for goes through it; actors.Engine fits it.
//
// Errors are *conversation.Error where a client may see them; the reads of the
// store return its errors (conversation.ErrNotFound and so on). A session that
// "as" may not see answers not_found.
type Sessions interface {
	// Create opens a root session; on one that exists it changes nothing.
	Create(key conversation.SessionKey, c conversation.Create, done func(created bool, err error))
	// Tell gives a session a command. done is called exactly once, after all that
	// the answer depends on is durable and before the events of its commit are
	// published; it must not block.
	Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error))
	// View shows a session as of its durable head.
	View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error))
	// Erase deletes a session and everything below it.
	Erase(ctx context.Context, key conversation.SessionKey, as conversation.UserID) error

	// Records, Summary, Sessions, Task and Tasks read what is stored, for whoever
	// asks: the gateway checks who may see it.
	Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error]
	Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error)
	Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error]
	Task(ctx context.Context, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error)
	Tasks(ctx context.Context, f conversation.TaskFilter) iter.Seq2[conversation.TaskRow, error]

	// Ready says why the engine cannot work now; nil = it can.
	Ready() error
}

// core is what every part of the gateway works with.
type core struct {
	cfg      Config
	sessions Sessions
	hub      *Hub
	auth     Authenticator
	log      *slog.Logger
	m        *metrics.Gateway
	now      func() time.Time
}

// refusal turns any error of the engine or its store into one that a client may
// see. Foreign errors are logged here, because nobody else sees them.
func (c *core) refusal(err error) *conversation.Error {
	var e *conversation.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, conversation.ErrNotFound):
		e = errNoSession
	case errors.Is(err, conversation.ErrFull):
		e = &conversation.Error{Code: conversation.StorageFull, Message: "the server's storage is full", Err: err}
	case errors.Is(err, conversation.ErrTooNew), errors.Is(err, conversation.ErrClosed), errors.Is(err, conversation.ErrFenced):
		e = &conversation.Error{Code: conversation.Unavailable, Message: "the session cannot be served here at the moment", Err: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e = &conversation.Error{Code: conversation.Timeout, Message: "it took too long", Err: err}
	default:
		e = conversation.AsError(err)
	}
	if e.Err != nil || e.Code == conversation.Internal {
		c.log.Error("request failed", "code", string(e.Code), "error", err)
	}
	return e
}

var errNoSession = &conversation.Error{Code: conversation.NotFound, Message: "there is no such session"}

// maxSessionID bounds a session id: sixteen characters and a few levels of "/call".
const maxSessionID = 128

// sessionKey checks the spelling of a session's id. What cannot be one does not exist.
func sessionKey(tenant conversation.TenantID, id string) (conversation.SessionKey, *conversation.Error) {
	if id == "" {
		return conversation.SessionKey{}, conversation.Errorf(conversation.BadRequest, "session is missing")
	}
	if len(id) > maxSessionID || id[0] == '/' || id[len(id)-1] == '/' {
		return conversation.SessionKey{}, errNoSession
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '/':
		default:
			return conversation.SessionKey{}, errNoSession
		}
	}
	return conversation.SessionKey{Tenant: tenant, Session: conversation.SessionID(id)}, nil
}

// writable refuses commands to a delegation's session: a client may only read it.
func writable(key conversation.SessionKey) *conversation.Error {
	if key.Session.Depth() > 0 {
		return conversation.Errorf(conversation.Forbidden, "the session of a delegation can only be read")
	}
	return nil
}

// visible is the summary of a session that p may see; of a sub-session it is the
// root that decides.
func (c *core) visible(ctx context.Context, p *Principal, key conversation.SessionKey) (conversation.Summary, error) {
	root := conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()}
	s, err := c.sessions.Summary(ctx, root)
	if err != nil {
		return s, err
	}
	if s.Owner != p.User && s.Access != conversation.AccessTenant {
		return s, errNoSession
	}
	if root != key {
		return c.sessions.Summary(ctx, key)
	}
	return s, nil
}
