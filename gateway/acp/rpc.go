package acp

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"
)

// message is one JSON-RPC message of the client.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // nil = none; may be null
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *fault          `json:"error"`
}

// fault is an error of JSON-RPC.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`

	data *conversation.Error
}

// The codes of errors.
const (
	parseError      = -32700
	invalidRequest  = -32600
	methodNotFound  = -32601
	invalidParams   = -32602
	internalError   = -32603
	authRequired    = -32000
	resourceMissing = -32002
)

// maxID bounds an id that the client has chosen, in bytes.
const maxID = 256

// readMessage reads a message. An error is to be answered: to the id that it has, if any.
func readMessage(b []byte) (m message, bad *fault) {
	switch {
	case !utf8.Valid(b) || !json.Valid(b):
		return m, &fault{Code: parseError, Message: "this is no JSON"}
	case len(bytes.TrimLeft(b, " \t\r\n")) == 0 || bytes.TrimLeft(b, " \t\r\n")[0] != '{':
		return m, &fault{Code: invalidRequest, Message: "a message must be an object; there are no batches"}
	}
	if json.Unmarshal(b, &m) != nil {
		return message{}, &fault{Code: invalidRequest, Message: "this is no message of JSON-RPC 2.0"}
	}
	if len(m.ID) > 0 && !fitID(m.ID) {
		m.ID = nil
		return m, &fault{Code: invalidRequest, Message: "an id must be a string, a number or null, and short"}
	}
	if m.Version != "2.0" {
		return m, &fault{Code: invalidRequest, Message: `jsonrpc must be "2.0"`}
	}
	if m.Method == "" && m.Result == nil && m.Error == nil {
		return m, &fault{Code: invalidRequest, Message: "the message has neither a method nor a result"}
	}
	return m, nil
}

func fitID(id json.RawMessage) bool {
	switch c := id[0]; {
	case len(id) > maxID:
		return false
	case c == '"', c == '-', c >= '0' && c <= '9':
		return true
	default:
		return string(id) == "null"
	}
}

// request is true for what must be answered.
func (m *message) request() bool { return m.Method != "" && m.ID != nil }

// params reads the parameters of a method.
func (m *message) params(into any) *fault {
	if len(m.Params) == 0 || m.Params[0] != '{' {
		return &fault{Code: invalidParams, Message: "params must be an object"}
	}
	if json.Unmarshal(m.Params, into) != nil {
		return &fault{Code: invalidParams, Message: "params do not fit " + m.Method}
	}
	return nil
}

// faultOf is an error of the engine, fit for clients.
func faultOf(e *conversation.Error) *fault {
	f := &fault{Code: internalError, Message: e.Message, data: e}
	switch e.Code {
	case conversation.NotFound:
		f.Code = resourceMissing
	case conversation.Unauthenticated, conversation.TokenExpired:
		f.Code = authRequired
	case conversation.BadRequest, conversation.InvalidJSON, conversation.TooLarge, conversation.UnsupportedMedia:
		f.Code = invalidParams
	}
	return f
}

// appendFault appends an answer that says what is wrong. id nil is null.
func appendFault(dst []byte, id json.RawMessage, f *fault) []byte {
	o := protocol.NewObject(appendEnvelope(dst, id, "error"))
	o.Int("code", int64(f.Code))
	o.Text("message", f.Message)
	if f.data != nil {
		o.Key("data")
		d := protocol.NewObject(o.Bytes)
		d.Text("code", string(f.data.Code))
		d.Flag("retryable", f.data.Retryable())
		if f.data.RetryAfter > 0 {
			d.Int("retry_after_ms", f.data.RetryAfter.Milliseconds())
		}
		o.Bytes = d.Close()
	}
	return append(o.Close(), '}')
}

// appendEnvelope begins an answer whose last member is the one that is named; "}" ends it.
func appendEnvelope(dst []byte, id json.RawMessage, member string) []byte {
	o := protocol.NewObject(dst)
	o.Text("jsonrpc", "2.0")
	if id == nil {
		id = json.RawMessage("null")
	}
	o.Raw("id", string(id))
	o.Key(member)
	return o.Bytes
}

// appendCall begins a message with a method; the caller appends the members of its params, and
// "}}" ends it. id "" = a notification.
func appendCall(dst []byte, id, method string) protocol.Object {
	o := protocol.NewObject(dst)
	o.Text("jsonrpc", "2.0")
	o.Optional("id", id)
	o.Text("method", method)
	o.Key("params")
	return protocol.NewObject(o.Bytes)
}
