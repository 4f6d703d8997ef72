package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// way is the MCP server over the sessions of a server.
type way struct {
	*exchange.Exchange
	server  *sdk.Server
	calls   *calls
	watches *watches
}

const path = "/mcp"

// Register adds the routes.
func Register(x *exchange.Exchange, r fiber.Router) {
	m := newWay(x)
	chat := x.Authenticated(service.ScopeChat)
	for method, do := range map[string]fiber.Handler{fiber.MethodPost: m.post, fiber.MethodGet: m.get, fiber.MethodDelete: m.remove} {
		r.Add(method, path, x.Named(path), m.problems, chat, do)
	}
}

func newWay(x *exchange.Exchange) *way {
	m := &way{Exchange: x, calls: newCalls(), watches: newWatches()}
	version := ""
	if x.HTTP != nil {
		version = x.Version
	}
	m.server = sdk.NewServer(&sdk.Implementation{Name: "parley", Title: "parley", Version: version}, &sdk.ServerOptions{
		Instructions: "Sessions are conversations with agents. send_message says something in one and waits for the answer; a session goes on when you are away, and others may speak in it. " +
			"What an agent asks is answered by the tool answer.",
		Logger:           slog.New(slog.DiscardHandler),
		Capabilities:     &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{Subscribe: true}},
		SubscribeHandler: m.subscribe, UnsubscribeHandler: m.unsubscribe,
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	m.server.AddReceivingMiddleware(m.survive, m.listed)
	m.addTools()
	m.addResources()
	return m
}

// The headers of the protocol.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerEvent   = "Last-Event-ID"
)

const methodListen = "subscriptions/listen"

// Versions of the protocol from which on something is different.
const (
	versionOldest  = "2025-03-26" // of hosts that do not say which they speak
	versionPrimes  = "2025-11-25" // a stream may begin with an event that has an id and nothing else
	versionNoState = "2026-07-28" // no MCP sessions: each request says what the host can do
)

// Codes of the protocol's own errors.
const (
	codeHeaderMismatch = sdk.CodeHeaderMismatch
	codeUnsupported    = sdk.CodeUnsupportedProtocolVersion
	codeMissing        = sdk.CodeMissingRequiredClientCapabilities
	codeOther          = -32000
)

// errNoMCPSession answers for an MCP session id that no server of these sessions has made for who
// asks: the host begins another one then.
var errNoMCPSession = &conversation.Error{Code: conversation.NotFound, Message: "there is no such MCP session: initialize again"}

// problems answers with errors as JSON-RPC says them, with the status of HTTP: the request has not
// come to the SDK.
func (m *way) problems(c *fiber.Ctx) error {
	err := c.Next()
	if err == nil {
		return nil
	}
	var wire *wireError
	if errors.As(err, &wire) {
		return respond(c, wire.status, &jsonrpc.Response{ID: wire.id, Error: &wire.wire})
	}
	e, status := m.Refused(err)
	door.SetRefusal(c, status, e.RetryAfter)
	o := protocol.NewObject(nil)
	o.Raw("jsonrpc", `"2.0"`)
	o.Raw("id", "null")
	o.Key("error")
	in := protocol.NewObject(o.Bytes)
	in.Int("code", codeOther)
	in.Text("message", e.Message)
	in.Raw("data", string(errorData(e)))
	o.Bytes = in.Close()
	c.Status(status).Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(o.Close())
}

// errorData is what an error of ours says besides, as the data of one of JSON-RPC.
func errorData(e *conversation.Error) []byte {
	o := protocol.NewObject(nil)
	o.Text("code", string(e.Code))
	if e.RetryAfter > 0 {
		o.Int("retry_after_ms", e.RetryAfter.Milliseconds())
	}
	return o.Close()
}

// wireError is an error of JSON-RPC with a status of HTTP.
type wireError struct {
	wire   jsonrpc.Error
	status int
	id     jsonrpc.ID
}

func (e *wireError) Error() string { return e.wire.Message }

func refuse(id jsonrpc.ID, status int, code int64, sentence string) error {
	return &wireError{jsonrpc.Error{Code: code, Message: sentence}, status, id}
}

func respond(c *fiber.Ctx, status int, r *jsonrpc.Response) error {
	b, err := jsonrpc.EncodeMessage(r)
	if err != nil {
		return err
	}
	c.Status(status).Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(b)
}

// hostOf is what is known of the host that makes a request.
func (m *way) hostOf(c *fiber.Ctx, who *service.Principal) (host, error) {
	h := host{}
	if id := c.Get(headerSession); id != "" {
		known, ok := unseal(m.Cursors.For(who, sealedHosts), id)
		if !ok {
			return h, errNoMCPSession
		}
		h = known
	}
	if v := c.Get(headerVersion); v != "" {
		if !slices.Contains(sdk.SupportedProtocolVersions(), v) {
			return h, unsupported(v)
		}
		h.Version = v
	}
	if h.Version == "" {
		h.Version = versionOldest
	}
	return h, nil
}

func unsupported(version string) error {
	data, err := json.Marshal(sdk.UnsupportedProtocolVersionData{Supported: sdk.SupportedProtocolVersions(), Requested: version})
	if err != nil {
		return err
	}
	return &wireError{wire: jsonrpc.Error{Code: codeUnsupported, Message: "this version of the protocol is not supported", Data: data}, status: fiber.StatusBadRequest}
}

// post takes one message of a host.
func (m *way) post(c *fiber.Ctx) error {
	who := door.Principal(c)
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	h, err := m.hostOf(c, who)
	if err != nil {
		return err
	}
	msg, err := readMessage(bytes.Clone(b)) // a stream outlives the request
	if err != nil {
		return err
	}
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		if err := m.responded(who, msg); err != nil {
			return err
		}
		return c.SendStatus(fiber.StatusAccepted)
	case *jsonrpc.Request:
		if err := checkHeaders(c.Get, h.Version, msg); err != nil {
			return err
		}
		if !msg.IsCall() {
			m.notified(h, msg)
			return c.SendStatus(fiber.StatusAccepted)
		}
		return m.called(c, &call{way: m, who: who, host: h, id: msg.ID, trace: c.Get(service.TraceHeader)}, msg)
	}
	return refuse(jsonrpc.ID{}, fiber.StatusBadRequest, jsonrpc.CodeInvalidRequest, "this is no message of JSON-RPC")
}

// readMessage reads the body of a POST. Several messages at once are refused: the protocol has
// had them in one version only.
func readMessage(b []byte) (jsonrpc.Message, error) {
	if len(b) == 0 {
		return nil, refuse(jsonrpc.ID{}, fiber.StatusBadRequest, jsonrpc.CodeParseError, "the body must be a message of JSON-RPC")
	}
	if trimmed := bytes.TrimLeft(b, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		return nil, refuse(jsonrpc.ID{}, fiber.StatusBadRequest, jsonrpc.CodeInvalidRequest, "batches are not supported: send one message")
	}
	msg, err := jsonrpc.DecodeMessage(b)
	if err != nil {
		code := int64(jsonrpc.CodeInvalidRequest)
		if !json.Valid(b) {
			code = jsonrpc.CodeParseError
		}
		return nil, refuse(jsonrpc.ID{}, fiber.StatusBadRequest, code, "the body is no message of JSON-RPC")
	}
	return msg, nil
}

// named are the members of params that a header repeats.
type named struct {
	Name string `json:"name"`
	URI  string `json:"uri"`
	Meta struct {
		Version string `json:"io.modelcontextprotocol/protocolVersion"`
	} `json:"_meta"`
}

// checkHeaders holds the headers that repeat what a request says against it, in the versions that
// have them: what stands between host and server goes by the headers.
func checkHeaders(header func(string, ...string) string, version string, r *jsonrpc.Request) error {
	var n named
	_ = json.Unmarshal(r.Params, &n) // what is not there does not match
	if r.IsCall() && n.Meta.Version >= versionNoState && n.Meta.Version != header(headerVersion) {
		return refuse(r.ID, fiber.StatusBadRequest, codeHeaderMismatch, headerVersion+" must be the protocolVersion in _meta of the request")
	}
	if version < versionNoState {
		return nil
	}
	if header(headerMethod) != r.Method {
		return refuse(r.ID, fiber.StatusBadRequest, codeHeaderMismatch, headerMethod+" must be the method of the request")
	}
	if !r.IsCall() {
		return nil
	}
	if n.Meta.Version == "" {
		return refuse(r.ID, fiber.StatusBadRequest, jsonrpc.CodeInvalidParams, "_meta must say io.modelcontextprotocol/protocolVersion")
	}
	want := n.Name
	switch r.Method {
	case "resources/read":
		want = n.URI
	case "tools/call", "prompts/get":
	default:
		return nil
	}
	if header(headerName) != want {
		return refuse(r.ID, fiber.StatusBadRequest, codeHeaderMismatch, headerName+" must be what the request names")
	}
	return nil
}

// called answers a request: at once, or with a stream where the answer may take long.
func (m *way) called(c *fiber.Ctx, k *call, r *jsonrpc.Request) error {
	if takesLong(r) && acceptsEvents(c.Get(fiber.HeaderAccept)) {
		free, err := m.StreamSlot(c, k.who)
		if err != nil {
			return err
		}
		m.stream(c, k.who, free, func(s *stream) {
			k.ctx, k.stream = s.ctx, s
			k.deadline = m.Now().Add(m.Times.WaitMax)
			m.serve(k, r)
		})
		return nil
	}
	ctx, cancel := m.Deadline()
	defer cancel()
	k.ctx = ctx
	response, err := m.run(k, r)
	if err != nil {
		return err
	}
	if r.Method == "initialize" {
		if id := m.initialized(k.who, r, response); id != "" {
			c.Set(headerSession, id)
		}
	}
	return respond(c, statusOf(k.host.Version, response), response)
}

// statusOf is the status of HTTP for a response: 200, but for some errors of the newest version.
func statusOf(version string, r *jsonrpc.Response) int {
	var e *jsonrpc.Error
	if version < versionNoState || !errors.As(r.Error, &e) {
		return fiber.StatusOK
	}
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return fiber.StatusNotFound
	case jsonrpc.CodeInvalidParams, codeUnsupported, codeMissing:
		return fiber.StatusBadRequest
	}
	return fiber.StatusOK
}

// takesLong is true for a request whose answer waits for something.
func takesLong(r *jsonrpc.Request) bool {
	switch r.Method {
	case methodListen:
		return true
	case "tools/call":
		var call struct {
			Name      string `json:"name"`
			Arguments struct {
				Wait *float64 `json:"wait_seconds"`
			} `json:"arguments"`
		}
		_ = json.Unmarshal(r.Params, &call) // the tool itself refuses what is wrong
		return (call.Name == toolSend || call.Name == toolAnswer) && (call.Arguments.Wait == nil || *call.Arguments.Wait > 0)
	}
	return false
}

// acceptsEvents is true for a client that takes server-sent events. The protocol wants it of every
// host; one that does not is answered without waiting.
func acceptsEvents(accept string) bool {
	if accept == "" {
		return true
	}
	for kind := range strings.SplitSeq(accept, ",") {
		kind, _, _ = strings.Cut(kind, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case door.EventStream, "text/*", "*/*":
			return true
		}
	}
	return false
}

// notified takes a notification. That a host waits no more for a call ends the wait, and nothing
// else: to stop the work is a tool.
func (m *way) notified(h host, r *jsonrpc.Request) {
	if r.Method != "notifications/cancelled" || h.Nonce == "" {
		return
	}
	var params struct {
		ID any `json:"requestId"`
	}
	if json.Unmarshal(r.Params, &params) != nil {
		return
	}
	if id, err := jsonrpc.MakeID(params.ID); err == nil && id.IsValid() {
		m.calls.cancel(callID{h.Nonce, id})
	}
}

// get is the stream on which a host of an older version hears of what it has subscribed to, or
// the rest of one that was cut off.
func (m *way) get(c *fiber.Ctx) error {
	who := door.Principal(c)
	if !acceptsEvents(c.Get(fiber.HeaderAccept)) {
		return refuse(jsonrpc.ID{}, fiber.StatusNotAcceptable, codeOther, "Accept must name text/event-stream")
	}
	h, err := m.hostOf(c, who)
	if err != nil {
		return err
	}
	if h.Version >= versionNoState {
		c.Set(fiber.HeaderAllow, fiber.MethodPost)
		return refuse(jsonrpc.ID{}, fiber.StatusMethodNotAllowed, codeOther, "this version of the protocol has no such stream: subscriptions/listen is one")
	}
	var from cursor
	if id := c.Get(headerEvent); id != "" {
		var ok bool
		if from, ok = readCursor(id); !ok {
			return refuse(jsonrpc.ID{}, fiber.StatusBadRequest, codeOther, headerEvent+" is not the id of an event of this server")
		}
	}
	if from.Task == "" && h.Nonce == "" {
		return refuse(jsonrpc.ID{}, fiber.StatusBadRequest, codeOther, headerSession+" is missing")
	}
	free, err := m.StreamSlot(c, who)
	if err != nil {
		return err
	}
	m.stream(c, who, free, func(s *stream) {
		if from.Task != "" {
			m.resume(s, who, h, from)
			return
		}
		m.hear(s, who, h, from)
	})
	return nil
}

// remove ends an MCP session. Its id stays good, but nothing is known under it any more.
func (m *way) remove(c *fiber.Ctx) error {
	h, err := m.hostOf(c, door.Principal(c))
	if err != nil {
		return err
	}
	if h.Nonce == "" {
		return refuse(jsonrpc.ID{}, fiber.StatusBadRequest, codeOther, headerSession+" is missing")
	}
	m.watches.drop(h.Nonce)
	return c.SendStatus(fiber.StatusNoContent)
}
