package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/attached"
	"parley/conversation/member"
	"parley/gateway/attach"
	"parley/gateway/fanout"
	"parley/gateway/feed"
	"parley/gateway/find"
	"parley/gateway/list"
	"parley/gateway/protocol"
	"parley/metrics"
)

// Services holds what every way in works with.
type Services struct {
	Limits      protocol.Limits
	Times       Times
	Node        conversation.NodeID
	Version     string
	Model       string // the default model's label, shown in hello
	Offer       protocol.Offer
	Sessions    Sessions
	Hub         *fanout.Hub
	Files       *attach.Files // what is attached to messages; nil = nothing can be
	Feeds       *feed.Feeds   // what happens in chats of platforms; nil = there are none
	Find        *find.Finder
	Lists       *list.Board // who watches a list of sessions; nil = that is not possible
	Cursors     *Cursors
	Auth        Authenticator
	Connections *Connections
	Log         *slog.Logger
	Requests    *RequestLog // nil = requests have no lines in the log
	Metrics     *metrics.Gateway
	Backup      Backup               // nil = there is no route for it
	Audit       Audit                // what administrators do
	Inlets      map[string]Inlet     // of the channels that take requests, by name
	Members     func() []member.Peer // of the cluster, as this node knows them; nil = it is alone
	Proxies     Proxies              // those whose X-Forwarded-For counts; see ClientAddress
	Now         func() time.Time
	Alive       context.Context // ends when all connections have ended
	Serving     context.Context // ends when the server begins to go away: who waits for something is answered then
}

// Times are the gateway's waits.
type Times struct {
	Hello        time.Duration `key:"gateway.hello_timeout" min:"1ms"`   // how long a connection may be without hello
	Heartbeat    time.Duration `key:"gateway.heartbeat" min:"1ms"`       // without traffic, how often the server speaks up
	ReadDeadline time.Duration `key:"gateway.read_deadline" min:"1ms"`   // silence of a client that ends its connection
	Write        time.Duration `key:"gateway.write_timeout" min:"1ms"`   // a write blocked for longer ends its connection
	Close        time.Duration `key:"gateway.close_timeout" min:"1ms"`   // how long the server waits for the answer to its close frame
	Request      time.Duration `key:"gateway.request_timeout" min:"1ms"` // an HTTP request, or the wait for an engine's answer
	WaitMax      time.Duration `key:"gateway.wait_max" min:"1ms"`        // the longest ?wait=
	Comment      time.Duration `key:"gateway.sse_comment" min:"1ms"`     // SSE: how often a comment is sent on a silent stream
	DrainSpread  time.Duration `key:"gateway.drain_spread" min:"0s"`     // clients are asked to come back within this time, each at another moment
	Drain        time.Duration // Run's own drain when its context ends
}

// DefaultTimes are those of a configuration that says nothing.
func DefaultTimes() Times {
	return Times{
		Hello: 5 * time.Second, Heartbeat: 25 * time.Second, ReadDeadline: 35 * time.Second,
		Write: 10 * time.Second, Close: 2 * time.Second, Request: 30 * time.Second, WaitMax: 5 * time.Minute,
		Comment: 20 * time.Second, DrainSpread: 5 * time.Second, Drain: 10 * time.Second,
	}
}

// ErrDraining refuses a request while the server drains; a client may come back
// after a second, to another server or to this one after its restart.
var ErrDraining = &conversation.Error{Code: conversation.Unavailable, Message: "the server is going away", RetryAfter: 1e9}

// Refusal turns any error of the engine or its store into one that a client may
// see. Errors that are not the engine's are logged here; the client does not get their text.
func (s *Services) Refusal(err error) *conversation.Error {
	var e *conversation.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, conversation.ErrNotFound):
		e = ErrNoSession
	case errors.Is(err, conversation.ErrDamaged):
		e = &conversation.Error{Code: conversation.Internal, Message: "what is stored of this cannot be read; trying again does not help, the operator of the server has to look at it", Err: err, Final: true}
	case errors.Is(err, conversation.ErrFull):
		e = &conversation.Error{Code: conversation.StorageFull, Message: "the server's storage is full", Err: err}
	case errors.Is(err, conversation.ErrTooNew), errors.Is(err, conversation.ErrClosed), errors.Is(err, conversation.ErrFenced):
		e = &conversation.Error{Code: conversation.Unavailable, Message: "the session cannot be served here at the moment", Err: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e = &conversation.Error{Code: conversation.Timeout, Message: "it took too long", Err: err}
	default:
		e = conversation.AsError(err)
	}
	if (e.Err != nil || e.Code == conversation.Internal) && !errors.Is(err, context.Canceled) { // who has gone away is no fault
		s.Log.Error("request failed", "code", string(e.Code), "error", err)
	}
	return e
}

// ErrNoSession answers for a session that does not exist, and for one that the user
// may not see.
var ErrNoSession = &conversation.Error{Code: conversation.NotFound, Message: "there is no such session"}

// ErrNoChats answers for the feed of chats where there is none.
var ErrNoChats = &conversation.Error{Code: conversation.NotFound, Message: "there are no chats here"}

// maxSessionID bounds a session id: sixteen characters and a few levels of "/call".
const maxSessionID = 128

// Key is the session that p names. What a delegation is asked, does and answers is what
// tools are told and answer: without read:tools its session is not there.
func (p *Principal) Key(id string) (conversation.SessionKey, *conversation.Error) {
	key, bad := SessionKey(p.Tenant, id)
	if bad == nil && key.Session.Depth() > 0 && !p.May(ScopeReadTools) {
		bad = ErrNoSession
	}
	return key, bad
}

// SessionKey checks the spelling of a session's id. A badly spelled id is answered as not found.
func SessionKey(tenant conversation.TenantID, id string) (conversation.SessionKey, *conversation.Error) {
	if id == "" {
		return conversation.SessionKey{}, conversation.Errorf(conversation.BadRequest, "session is missing")
	}
	if len(id) > maxSessionID || id[0] == '/' || id[len(id)-1] == '/' {
		return conversation.SessionKey{}, ErrNoSession
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '/':
		default:
			return conversation.SessionKey{}, ErrNoSession
		}
	}
	return conversation.SessionKey{Tenant: tenant, Session: conversation.SessionID(id)}, nil
}

// Writable refuses commands to a delegation's session: a client may only read it.
func Writable(key conversation.SessionKey) *conversation.Error {
	if key.Session.Depth() > 0 {
		return conversation.Errorf(conversation.Forbidden, "the session of a delegation can only be read")
	}
	return nil
}

// Visible is the summary of a session that p may read; of a sub-session it is the
// root that decides.
func (s *Services) Visible(ctx context.Context, p *Principal, key conversation.SessionKey) (conversation.Summary, error) {
	root := conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()}
	row, err := s.Sessions.Summary(ctx, root)
	if err != nil {
		return row, err
	}
	if !p.sees(row) && !p.serves(row) {
		return row, ErrNoSession
	}
	if root != key {
		return s.Sessions.Summary(ctx, key)
	}
	return row, nil
}

// Unseen is what p is told in place of a refusal that was given before the session was
// asked: that it is not there, if p may not see it. Nothing else may be said of it then.
func (s *Services) Unseen(ctx context.Context, p *Principal, key conversation.SessionKey, refusal error) error {
	switch conversation.AsError(refusal).Code {
	case conversation.BadRequest, conversation.InvalidJSON, conversation.TooLarge, conversation.UnsupportedMedia, conversation.Forbidden, conversation.Conflict:
	default: // of the server, not of the session
		return refusal
	}
	if _, err := s.Visible(ctx, p, key); err != nil {
		return err
	}
	return refusal
}

// ReadsAs is the user as whom the engine lets p read a session: p's own, or "",
// who sees everything, for a runtime in a session of runtimes. Whether p's own
// user may see it is left to the engine.
func (s *Services) ReadsAs(ctx context.Context, p *Principal, key conversation.SessionKey) (conversation.UserID, error) {
	if !p.May(ScopeRuntime) {
		return p.User, nil
	}
	row, err := s.Visible(ctx, p, key)
	if err != nil || p.sees(row) {
		return p.User, err
	}
	return "", nil
}

// WritesAs is the user as whom the engine lets a runtime write to a session: any
// session of runtimes in its tenant is its business. Of the others it may write to
// those that it may see as a user, where what it says is kept apart.
func (s *Services) WritesAs(ctx context.Context, p *Principal, key conversation.SessionKey) (conversation.UserID, error) {
	row, err := s.Visible(ctx, p, key)
	if err != nil || !p.serves(row) {
		return p.User, err
	}
	return "", nil
}

// NewSessionKey is a key for a new session: random, or the same one for the same
// client_session_id, so that a repeated create finds what the first one made. When
// that one was erased, Create gives the key of the next.
func NewSessionKey(who *Principal, clientID string) conversation.SessionKey {
	var bits [10]byte
	if clientID == "" {
		_, _ = rand.Read(bits[:]) // never fails
	} else {
		sum := sha256.Sum256([]byte(string(who.Tenant) + "\x00" + string(who.User) + "\x00" + clientID))
		copy(bits[:], sum[:])
	}
	id := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(bits[:]))
	return conversation.SessionKey{Tenant: who.Tenant, Session: conversation.SessionID(id)}
}

// Stack is the stack of the calling goroutine, for the log line of a panic.
func Stack() string { return string(debug.Stack()) }

// OverLimit is true when n uses up a limit; 0 = no limit.
func OverLimit(n, limit int) bool { return limit > 0 && n >= limit }

// Attached are the files that a message names, which its session must have.
func (s *Services) Attached(key conversation.SessionKey, names []protocol.NamedFile) ([]attached.File, error) {
	if len(names) == 0 {
		return nil, nil // as nearly always: no timer
	}
	ctx, cancel := context.WithTimeout(s.Alive, s.Times.Request)
	defer cancel()
	return s.Files.Named(ctx, key, names)
}

// Uploads says why a principal may upload no files to a session; nil = it may.
func (s *Services) Uploads(ctx context.Context, p *Principal, key conversation.SessionKey) error {
	row, err := s.Visible(ctx, p, key)
	switch {
	case err != nil:
		return err
	case !row.Role(p.User).May(access.Write):
		return conversation.Errorf(conversation.Forbidden, "you may not write to this session")
	case row.Closed:
		return conversation.Errorf(conversation.SessionIsClosed, "the session is closed")
	}
	return nil
}
