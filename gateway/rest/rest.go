package rest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// API is the HTTP side of the protocol.
type API struct {
	*service.Services
	page     *page
	gatherer prometheus.Gatherer // what /metrics shows; nil = no /metrics
	router   fiber.Router
	streams  atomic.Int64 // open SSE streams
}

// New makes the routes. page is the web page; gatherer is what /metrics shows, nil =
// no /metrics.
func New(s *service.Services, page *page, gatherer prometheus.Gatherer) *API {
	return &API{Services: s, page: page, gatherer: gatherer}
}

// Register is the protocol's table of routes. With admin they include /metrics
// and pprof.
func (s *API) Register(router fiber.Router, admin bool) {
	s.router = router
	s.route(fiber.MethodGet, "/livez", s.livez)
	s.route(fiber.MethodGet, "/readyz", s.readyz)
	s.route(fiber.MethodGet, "/version", s.version)
	s.documents()

	chat, runtime := s.authenticated(service.ScopeChat), s.authenticated(service.ScopeRuntime)
	s.route(fiber.MethodPost, "/api/sessions", chat, s.createSession)
	s.route(fiber.MethodGet, "/api/sessions", chat, s.listSessions)
	s.route(fiber.MethodGet, "/api/sessions/:id", chat, s.readSession)
	s.route(fiber.MethodPatch, "/api/sessions/:id", chat, s.patchSession)
	s.route(fiber.MethodDelete, "/api/sessions/:id", chat, s.deleteSession)
	s.route(fiber.MethodPost, "/api/sessions/:id/messages", chat, s.postMessage)
	s.route(fiber.MethodGet, "/api/sessions/:id/messages", chat, s.listMessages)
	s.route(fiber.MethodPatch, "/api/sessions/:id/messages/:message", chat, s.editMessage)
	s.route(fiber.MethodDelete, "/api/sessions/:id/messages/:message", chat, s.withdrawMessage)
	s.route(fiber.MethodPost, "/api/sessions/:id/parts", runtime, s.postPart)
	s.route(fiber.MethodGet, "/api/sessions/:id/events", chat, s.listEvents)
	s.route(fiber.MethodGet, "/api/sessions/:id/stream", chat, s.stream)
	s.route(fiber.MethodGet, "/api/sessions/:id/calls/:call", chat, s.readCall)
	s.route(fiber.MethodPost, "/api/sessions/:id/cancel", chat, s.cancelSession)
	s.route(fiber.MethodGet, "/api/sessions/:id/questions", chat, s.listQuestions)
	s.route(fiber.MethodPost, "/api/sessions/:id/questions/:question/answer", chat, s.postAnswer)
	s.route(fiber.MethodPost, "/api/tasks", chat, s.postTask)
	s.route(fiber.MethodGet, "/api/tasks", chat, s.listTasks)
	s.route(fiber.MethodGet, "/api/tasks/:taskId", chat, s.readTask)
	s.route(fiber.MethodPost, "/api/tasks/:taskId/reply", chat, s.postReply)
	s.route(fiber.MethodPost, "/api/tasks/:taskId/cancel", chat, s.cancelTask)

	if s.gatherer != nil && admin {
		s.administration()
	}
	if len(s.page.files) > 0 {
		s.route(fiber.MethodGet, "/", s.index)
		s.route(fiber.MethodGet, "/assets/*", s.asset)
	}
}

// route registers a handler under its name in the metrics. GET answers HEAD too.
func (s *API) route(method, path string, handlers ...fiber.Handler) {
	chain := append([]fiber.Handler{s.Named(path)}, handlers...)
	if method == fiber.MethodGet {
		s.router.Get(path, chain...)
		return
	}
	s.router.Add(method, path, chain...)
}

// Named gives a route its name in the metrics.
func (s *API) Named(path string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		c.Locals(localRoute, path)
		return c.Next()
	}
}

const localRoute = "route"

// ReadTooLarge times body_bytes is read of a request that is too large. The HTTP
// library closes the connection of one that is larger still, and then most
// clients, which go on writing, do not get to read why.
const ReadTooLarge = 4

// Observe is around every request: it names it, times it, survives its panic and
// turns its error into a problem.
func (s *API) Observe(c *fiber.Ctx) (err error) {
	start := s.Now()
	id := c.Get(fiber.HeaderXRequestID)
	if !fitRequestID(id) {
		id = rand.Text()[:16]
	}
	c.Locals(localRequestID, id)
	c.Set(fiber.HeaderXRequestID, id)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
	c.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; frame-ancestors 'none'")
	c.Set(fiber.HeaderCacheControl, "no-store")
	defer func() {
		if r := recover(); r != nil {
			s.Metrics.Panics.Inc()
			s.Log.Error("panic", "where", c.Method()+" "+c.Path(), "request_id", id, "panic", r, "stack", service.Stack())
			err = s.Problem(c, conversation.Errorf(conversation.Internal, "something went wrong on the server"))
		}
		route, _ := c.Locals(localRoute).(string)
		if route == "" {
			route = "other"
		}
		method := c.Method()
		switch method {
		case "GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS":
		default:
			method = "other"
		}
		s.Metrics.Requests.WithLabelValues(route, method, strconv.Itoa(c.Response().StatusCode()/100)+"xx").Inc()
		s.Metrics.RequestSeconds.WithLabelValues(route, method).Observe(s.Now().Sub(start).Seconds())
	}()
	if len(c.Request().Body()) > s.Limits.BodyBytes {
		return s.Problem(c, fiber.ErrRequestEntityTooLarge)
	}
	if failed := c.Next(); failed != nil {
		return s.Problem(c, failed)
	}
	return nil
}

// fitRequestID is true for an id that may be repeated in headers and logs.
func fitRequestID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' || id[i] == '"' || id[i] == '\\' {
			return false
		}
	}
	return true
}

// Problem answers a request with an error, as application/problem+json.
func (s *API) Problem(c *fiber.Ctx, err error) error {
	var e *conversation.Error
	var library *fiber.Error
	status := 0
	if errors.As(err, &library) {
		code, sentence := protocol.CodeOf(library.Code)
		e, status = &conversation.Error{Code: code, Message: sentence}, library.Code
	} else {
		e = s.Refusal(err)
		status = protocol.StatusOf(e.Code)
	}
	if e.RetryAfter > 0 {
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	} else if status == fiber.StatusTooManyRequests || status == fiber.StatusServiceUnavailable {
		c.Set(fiber.HeaderRetryAfter, "1")
	}
	if status == fiber.StatusUnauthorized {
		c.Set(fiber.HeaderWWWAuthenticate, "Bearer")
	}
	if status == fiber.StatusUpgradeRequired {
		c.Set(fiber.HeaderUpgrade, "websocket")
		c.Set(fiber.HeaderConnection, "Upgrade")
	}
	id, _ := c.Locals(localRequestID).(string)
	if id == "" { // refused by the library before it came to us
		id = rand.Text()[:16]
		c.Set(fiber.HeaderXRequestID, id)
	}
	c.Status(status)
	c.Set(fiber.HeaderContentType, "application/problem+json")
	return c.Send(protocol.AppendProblem(nil, e, status, c.Path(), id))
}

// reply answers a request with a JSON object.
func reply(c *fiber.Ctx, status int, data func(o *protocol.Object)) error {
	scratch := protocol.GetBuffer()
	defer protocol.PutBuffer(scratch)
	o := protocol.NewObject((*scratch)[:0])
	data(&o)
	*scratch = o.Close()
	c.Status(status)
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(append([]byte(nil), *scratch...))
}

// items answers a request with a list. An empty cursor is the end of it.
func items(c *fiber.Ctx, list []byte, next string) error {
	return reply(c, fiber.StatusOK, func(o *protocol.Object) {
		o.Key("items")
		o.Bytes = append(o.Bytes, '[')
		o.Bytes = append(o.Bytes, list...)
		o.Bytes = append(o.Bytes, ']')
		o.Key("next_cursor")
		if next == "" {
			o.Bytes = append(o.Bytes, "null"...)
		} else {
			o.Bytes = protocol.AppendString(o.Bytes, next)
		}
	})
}

// body is a request's JSON; nil if there is none. Compressed bodies are refused:
// what they become is bounded by nothing.
func body(c *fiber.Ctx) ([]byte, error) {
	b := c.Request().Body()
	if len(b) == 0 {
		return nil, nil
	}
	kind, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType))
	if err != nil || kind != fiber.MIMEApplicationJSON {
		return nil, conversation.Errorf(conversation.UnsupportedMedia, "the body must be application/json")
	}
	if encoding := c.Get(fiber.HeaderContentEncoding); encoding != "" && encoding != "identity" {
		return nil, conversation.Errorf(conversation.UnsupportedMedia, "the body must not be compressed")
	}
	if !utf8.Valid(b) {
		return nil, conversation.Errorf(conversation.InvalidJSON, "the body is not valid UTF-8")
	}
	return b, nil
}

// readBody reads the members of a body, which must be an object if there is one.
func readBody(c *fiber.Ctx, visit func(m protocol.Member) error) error {
	b, err := body(c)
	if err != nil || b == nil {
		return err
	}
	if err := protocol.ReadObject(b, visit); err != nil {
		return protocol.BadInput(err, "the body")
	}
	return nil
}

// asError keeps a nil *conversation.Error from becoming a non-nil error.
func asError(e *conversation.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// param is a part of the path, unescaped: the id of a sub-session holds "%2F".
func param(c *fiber.Ctx, name string) (string, error) {
	v, err := url.PathUnescape(c.Params(name))
	if err != nil || !utf8.ValidString(v) {
		return "", conversation.Errorf(conversation.NotFound, "there is nothing here")
	}
	return v, nil
}

// sessionOf is the session that a request names.
func sessionOf(c *fiber.Ctx) (conversation.SessionKey, error) {
	id, err := param(c, "id")
	if err != nil {
		return conversation.SessionKey{}, err
	}
	key, bad := service.SessionKey(principal(c).Tenant, id)
	return key, asError(bad)
}

// writableSession is the session that a request wants to change.
func writableSession(c *fiber.Ctx) (conversation.SessionKey, error) {
	key, err := sessionOf(c)
	if err == nil {
		err = asError(service.Writable(key))
	}
	return key, err
}

// paging is what a list request may say.
func paging(c *fiber.Ctx) (limit int, cursor string, err error) {
	limit = 50
	if q := c.Query("limit"); q != "" {
		limit, err = strconv.Atoi(q)
		if err != nil || limit < 1 {
			return 0, "", conversation.Errorf(conversation.BadRequest, "limit must be a whole number of at least 1")
		}
	}
	return min(limit, 200), c.Query("cursor"), nil
}

// activityCursor checks the cursor of a list that is ordered by time: what
// Summary.PageCursor and TaskRow.PageCursor make.
func activityCursor(cursor string) error {
	ms, id, ok := strings.Cut(cursor, ".")
	if _, err := strconv.ParseInt(ms, 10, 64); cursor != "" && (!ok || err != nil || id == "") {
		return conversation.Errorf(conversation.BadRequest, "cursor must be a next_cursor of this list")
	}
	return nil
}

// sequence reads a seq of the query or a header; ok is false when there is none.
func sequence(value, name string) (seq conversation.Seq, ok bool, err error) {
	if value == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(value, 10, 53)
	if err != nil {
		return 0, false, conversation.Errorf(conversation.BadRequest, "%s must be a whole number of at least 0", name)
	}
	return conversation.Seq(n), true, nil
}

// idempotencyKey is the request's Idempotency-Key as a client id; "" if there is
// none. The route is part of it, so that one key may be used on several.
func idempotencyKey(c *fiber.Ctx, route string) (conversation.ClientMsgID, error) {
	key := c.Get("Idempotency-Key")
	if key == "" {
		return "", nil
	}
	if len(key) > 255 {
		return "", conversation.Errorf(conversation.BadRequest, "Idempotency-Key must be at most 255 bytes")
	}
	if route != "" {
		key = route + ":" + key
	}
	if len(key) > protocol.MaxClientMsgID {
		sum := sha256.Sum256([]byte(key))
		key = "sha256:" + hex.EncodeToString(sum[:])
	}
	return conversation.ClientMsgID(key), nil
}

// clientMsgID is how the client calls its message: in the body, by its
// Idempotency-Key, or not at all (then nobody can repeat it).
func clientMsgID(c *fiber.Ctx, given, route string) (conversation.ClientMsgID, error) {
	if given != "" {
		return conversation.ClientMsgID(given), nil
	}
	key, err := idempotencyKey(c, route)
	if err == nil && key == "" {
		key = conversation.ClientMsgID("srv-" + rand.Text())
	}
	return key, err
}

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
