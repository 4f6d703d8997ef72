package mcp

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/service"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// host is what a host has said of itself. In older versions of the protocol it says so once, and
// its MCP session id, which it sends with each request, is this, sealed for its user: so every node
// knows it, and the process after this one.
type host struct {
	Version string `json:"v"`
	Form    bool   `json:"f,omitempty"` // it can ask its user something
	Nonce   string `json:"n"`           // no other MCP session has it; "" = there is no session
}

// sealedHosts is what MCP session ids are sealed for.
const sealedHosts = "mcp.session"

func (h host) seal(by service.ListCursors) string {
	b, err := json.Marshal(h)
	if err != nil {
		return ""
	}
	return by.Hide(string(b))
}

func unseal(by service.ListCursors, id string) (h host, ok bool) {
	text, err := by.Show(id)
	if err != nil || json.Unmarshal([]byte(text), &h) != nil || h.Nonce == "" {
		return host{}, false
	}
	return h, true
}

// initialized is the id of the MCP session that a response to initialize begins; "" if it was refused.
func (m *way) initialized(who *service.Principal, r *jsonrpc.Request, response *jsonrpc.Response) string {
	var said struct {
		Capabilities struct {
			Elicitation *sdk.ElicitationCapabilities `json:"elicitation"`
		} `json:"capabilities"`
	}
	var agreed struct {
		Version string `json:"protocolVersion"`
	}
	if response.Error != nil || json.Unmarshal(response.Result, &agreed) != nil || json.Unmarshal(r.Params, &said) != nil {
		return ""
	}
	return host{Version: agreed.Version, Form: asksByForm(said.Capabilities.Elicitation), Nonce: rand.Text()}.seal(m.Cursors.For(who, sealedHosts))
}

// asksByForm is true for a host that shows its user forms; one that does not say how it asks does.
func asksByForm(c *sdk.ElicitationCapabilities) bool {
	return c != nil && (c.Form != nil || c.URL == nil)
}

// state is what the SDK keeps of a host in a session of its own.
func (h host) state() *sdk.ServerSessionState {
	p := &sdk.InitializeParams{ProtocolVersion: h.Version, Capabilities: &sdk.ClientCapabilities{}}
	if h.Form {
		p.Capabilities.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}
	}
	return &sdk.ServerSessionState{InitializeParams: p, InitializedParams: &sdk.InitializedParams{}}
}

// cursor is where a host stands in a stream: the id of an event. It is not sealed: it names what
// the host may know, and whether it may go on with it is asked as always.
type cursor struct {
	// Of an answer:

	Request json.RawMessage           `json:"q,omitempty"` // the id of its request
	Message conversation.MessageID    `json:"m,omitempty"`
	Task    conversation.TaskID       `json:"t,omitempty"`
	At      exchange.Number           `json:"a,omitempty"`
	Token   json.RawMessage           `json:"p,omitempty"` // that its progress is told under
	Until   int64                     `json:"u,omitempty"` // when the wait ends, in seconds
	Forms   string                    `json:"x,omitempty"` // the ids of its forms begin with it
	Asked   []conversation.QuestionID `json:"e,omitempty"` // the forms that the user has not answered

	// Of the stream of what is subscribed to: the sessions, and what the host was told of.

	Watched map[conversation.SessionID]conversation.Seq `json:"w,omitempty"`
}

// Longer ids of requests, tokens and lists are left out of an event's id, which a host sends back in
// a header: then its stream cannot be gone on with, or not with all that it was.
const (
	maxID      = 64
	maxAsked   = 8
	maxWatched = 16
	maxCursor  = 2048
)

func (c cursor) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(text string) (c cursor, ok bool) {
	if len(text) > maxCursor {
		return c, false
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &c) != nil {
		return cursor{}, false
	}
	if c.Task == "" {
		return c, c.Request == nil && len(c.Watched) <= maxWatched
	}
	_, named := c.Task.Session()
	return c, named && isID(c.Request) && (c.Token == nil || isID(c.Token)) && len(c.Asked) <= maxAsked && c.Watched == nil
}

// isID is true for JSON that the id of a request, or of its progress, may be: a text or a number.
// Nothing else goes into a stream as it was brought.
func isID(b json.RawMessage) bool {
	if len(b) == 0 || len(b) > maxID {
		return false
	}
	var v any
	if json.Unmarshal(b, &v) != nil {
		return false
	}
	switch v.(type) {
	case string, float64:
		return true
	}
	return false
}

// id is the request that the cursor's stream answers.
func (c cursor) id() (jsonrpc.ID, error) {
	var raw any
	if err := json.Unmarshal(c.Request, &raw); err != nil {
		return jsonrpc.ID{}, err
	}
	return jsonrpc.MakeID(raw)
}

// rawID is the id of a request as JSON.
func rawID(id jsonrpc.ID) json.RawMessage {
	b, err := json.Marshal(id.Raw())
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
