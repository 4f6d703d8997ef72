package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// way is the MCP server over the sessions of a server.
type way struct {
	*exchange.Exchange
	schemas *sdk.SchemaCache
	secret  []byte // of the ids of MCP sessions
}

// idle is how long an MCP session of an older protocol is kept without a request. Nothing of a
// conversation is lost with it.
const idle = 15 * time.Minute

// Register adds the route.
func Register(x *exchange.Exchange, r fiber.Router) {
	m := &way{Exchange: x, schemas: sdk.NewSchemaCache(), secret: []byte(rand.Text())}
	h := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server { return m.server(principalOf(r.Context())) }, &sdk.StreamableHTTPOptions{
		Logger: slog.New(slog.DiscardHandler), SessionTimeout: idle,
		DisableLocalhostProtection: true, // Host and Origin are checked before, for all routes
	})
	signed := x.Authenticated(service.ScopeChat)
	for _, method := range []string{fiber.MethodPost, fiber.MethodGet, fiber.MethodDelete} {
		r.Add(method, "/mcp", x.Named("/mcp"), problems(x), signed, func(c *fiber.Ctx) error {
			if id := c.Get(sessionHeader); id != "" && !m.made(id, door.Principal(c)) {
				return errNoMCPSession
			}
			return m.serve(c, h)
		})
	}
}

const sessionHeader = "Mcp-Session-Id"

// errNoMCPSession answers for the id of an MCP session that this server has not made for who asks:
// the host begins another one then.
var errNoMCPSession = &conversation.Error{Code: conversation.NotFound, Message: "there is no such MCP session: initialize again"}

// problems answers with errors as JSON-RPC says them, with the status of HTTP: the request has not
// come to the SDK.
func problems(x *exchange.Exchange) fiber.Handler {
	return func(c *fiber.Ctx) error {
		err := c.Next()
		if err == nil {
			return nil
		}
		e, status := x.Refused(err)
		door.SetRefusal(c, status, e.RetryAfter)
		return c.JSON(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{
			"code": -32000, "message": e.Message, "data": map[string]string{"code": string(e.Code)},
		}})
	}
}

// sessionID is the id of a new MCP session, which says whose it is: no one else's requests are
// taken for it.
func (m *way) sessionID(who *service.Principal) string {
	text := rand.Text()
	return text + "." + m.sign(text, who)
}

func (m *way) sign(text string, who *service.Principal) string {
	mac := hmac.New(sha256.New, m.secret)
	b, err := json.Marshal([]string{text, string(who.Tenant), string(who.User)})
	if err != nil {
		panic(err) // texts can always be said
	}
	mac.Write(b)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

func (m *way) made(id string, who *service.Principal) bool {
	text, mac, _ := strings.Cut(id, ".")
	return hmac.Equal([]byte(mac), []byte(m.sign(text, who)))
}

// server is the SDK's server for one host.
func (m *way) server(who *service.Principal) *sdk.Server {
	if who == nil {
		return nil
	}
	subscriptions := newSubscriptions(m, who)
	s := sdk.NewServer(&sdk.Implementation{Name: "parley", Title: "parley", Version: m.Version}, &sdk.ServerOptions{
		Instructions: "Sessions are conversations with agents. send_message says something in one and waits for the answer; a session goes on when you are away, and others may speak in it. " +
			"What an agent asks is answered by the tool answer.",
		Logger: slog.New(slog.DiscardHandler), SchemaCache: m.schemas, GetSessionID: func() string { return m.sessionID(who) },
		Capabilities:     &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{Subscribe: true}},
		SubscribeHandler: subscriptions.subscribe, UnsubscribeHandler: subscriptions.unsubscribe,
	})
	subscriptions.server = s
	s.AddReceivingMiddleware(m.survive)
	t := tools{m, who}
	t.add(s)
	r := resources{m, who}
	r.add(s)
	return s
}

// survive keeps a panic of one request from ending the process: the SDK has no such thing, and
// runs each in a goroutine of its own.
func (m *way) survive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				m.Metrics.Panics.Inc()
				m.Log.Error("panic", "where", "mcp", "panic", p, "stack", service.Stack())
				err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "something went wrong on the server"}
			}
		}()
		return next(ctx, method, req)
	}
}

// invalid is an error of the protocol, for requests that have no result to say it in.
func invalid(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}
