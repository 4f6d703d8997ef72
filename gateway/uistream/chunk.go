package uistream

import (
	"encoding/json"
	"strconv"
	"strings"

	"parley/gateway/exchange"
	"parley/gateway/protocol"
)

// chunk is one chunk of the UI message stream, as the AI SDK calls what a stream is made of
// (ui-message-stream/ui-message-chunks.ts of the package ai). Which fields count is said with
// each kind.
type chunk struct {
	kind string
	id   string // of a text, a part of data, a message, an approval
	call string
	tool string
	text string // of a text: the next piece; of an error: its sentence; of an end: its reason
	json string // a JSON value: input, output, data, metadata, the parts of a message
	note string // a JSON object that says more of a tool's output

	ours        bool // a tool: the server runs it, and nothing is asked of the client
	dynamic     bool // a tool that the client has not declared
	preliminary bool // an output: another one follows
	approved    bool

	more bool // the chunk behind it has its number: both are told again, or none
}

// The kinds of chunks that this server sends.
const (
	start         = "start"         // id, json: metadata
	metadata      = "metadata"      // json
	startStep     = "start-step"    // –
	finishStep    = "finish-step"   // –
	resetStep     = "reset-step"    // –
	textStart     = "text-start"    // id, json: what is known of the text
	textDelta     = "text-delta"    // id, text
	textEnd       = "text-end"      // id, json: what is known of the text
	toolBegins    = "tool-begins"   // call, tool: its input follows
	toolGrows     = "tool-grows"    // call, text: the next piece of its input, as JSON
	toolInput     = "tool-input"    // call, tool, json, ours, dynamic
	toolOutput    = "tool-output"   // call, json, note, ours, dynamic, preliminary
	toolError     = "tool-error"    // call, text, note, ours, dynamic
	toolDenied    = "tool-denied"   // call
	approvalAsked = "approval"      // id, call
	approvalGiven = "approval-said" // id, approved
	data          = "data-"         // tool: the name; id, json
	steering      = "steering"      // id, json: parts
	abort         = "abort"         // text
	failure       = "error"         // text
	finish        = "finish"        // text: the reason; json: metadata
)

// appendEvent appends the chunk as a server-sent event. at is its number; 0 = it has none.
func (c *chunk) appendEvent(dst []byte, at exchange.Number) []byte {
	if at > 0 && !c.more {
		dst = append(dst, "id: "...)
		dst = strconv.AppendUint(dst, uint64(at), 10)
		dst = append(dst, '\n')
	}
	dst = append(dst, "data: "...)
	dst = c.append(dst)
	return append(dst, "\n\n"...)
}

// append appends the chunk as JSON.
func (c *chunk) append(dst []byte) []byte {
	o := protocol.NewObject(dst)
	switch c.kind {
	case start:
		o.Text("type", "start")
		o.Text("messageId", c.id)
		o.Raw("messageMetadata", c.json)
	case metadata:
		o.Text("type", "message-metadata")
		o.Raw("messageMetadata", c.json)
	case startStep, finishStep, resetStep:
		o.Text("type", c.kind)
	case textStart, textEnd:
		o.Text("type", c.kind)
		o.Text("id", c.id)
		optional(&o, "providerMetadata", c.json)
	case textDelta:
		o.Text("type", c.kind)
		o.Text("id", c.id)
		o.Text("delta", c.text)
	case toolBegins:
		o.Text("type", "tool-input-start")
		o.Text("toolCallId", c.call)
		o.Text("toolName", c.tool)
	case toolGrows:
		o.Text("type", "tool-input-delta")
		o.Text("toolCallId", c.call)
		o.Text("inputTextDelta", c.text)
	case toolInput:
		o.Text("type", "tool-input-available")
		o.Text("toolCallId", c.call)
		o.Text("toolName", c.tool)
		o.Raw("input", c.json)
		c.whose(&o)
	case toolOutput:
		o.Text("type", "tool-output-available")
		o.Text("toolCallId", c.call)
		o.Raw("output", c.json)
		c.whose(&o)
		o.Flag("preliminary", c.preliminary)
		optional(&o, "toolMetadata", c.note)
	case toolError:
		o.Text("type", "tool-output-error")
		o.Text("toolCallId", c.call)
		o.Text("errorText", c.text)
		c.whose(&o)
		optional(&o, "toolMetadata", c.note)
	case toolDenied:
		o.Text("type", "tool-output-denied")
		o.Text("toolCallId", c.call)
	case approvalAsked:
		o.Text("type", "tool-approval-request")
		o.Text("approvalId", c.id)
		o.Text("toolCallId", c.call)
	case approvalGiven:
		o.Text("type", "tool-approval-response")
		o.Text("approvalId", c.id)
		o.Bool("approved", c.approved)
	case data:
		o.Text("type", data+c.tool)
		o.Text("id", c.id)
		o.Raw("data", c.json)
	case steering:
		o.Text("type", "steering-message")
		o.Text("id", c.id)
		o.Raw("parts", c.json)
	case abort:
		o.Text("type", "abort")
		o.Optional("reason", c.text)
	case failure:
		o.Text("type", "error")
		o.Text("errorText", c.text)
	case finish:
		o.Text("type", "finish")
		o.Text("finishReason", c.text)
		o.Raw("messageMetadata", c.json)
	}
	return o.Close()
}

// whose says who runs a tool.
func (c *chunk) whose(o *protocol.Object) {
	o.Flag("providerExecuted", c.ours)
	o.Flag("dynamic", c.dynamic)
}

func optional(o *protocol.Object, name, value string) {
	if value != "" {
		o.Raw(name, value)
	}
}

// done ends a stream that has told all.
const done = "data: [DONE]\n\n"

// value is a text as a JSON value: the one that it is, if it is JSON and any may be, or an
// object or a list; else a string.
func value(text string, any bool) string {
	begins := strings.TrimLeft(text, " \t\r\n")
	if begins != "" && (any || begins[0] == '{' || begins[0] == '[') && json.Valid([]byte(text)) {
		return string(protocol.AppendCompact(nil, []byte(text)))
	}
	return quoted(text)
}

func quoted(text string) string { return string(protocol.AppendString(nil, text)) }

// object makes a JSON object.
func object(write func(o *protocol.Object)) string {
	o := protocol.NewObject(nil)
	write(&o)
	return string(o.Close())
}
