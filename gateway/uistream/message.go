package uistream

import (
	"encoding/json"
	"slices"

	"parley/gateway/protocol"
)

// message is a UIMessage of the assistant: what a client has after the chunks of a stream
// (ui/process-ui-message-stream.ts of the package ai), so that a page that is loaded again shows
// what it has shown before.
type message struct {
	id       string
	metadata map[string]any
	parts    []part
}

// part is a part of a message. kind is its type.
type part struct {
	kind string
	id   string // of a text while it is open, of data, of a message
	call string
	tool string // of a tool that the client has not declared
	text string
	json string // providerMetadata, data, parts, input

	state    string
	ours     bool
	output   string // JSON
	note     string // toolMetadata
	approval string
	approved *bool
}

// The states of a tool.
const (
	inputStreaming    = "input-streaming"
	inputAvailable    = "input-available"
	approvalRequested = "approval-requested"
	approvalResponded = "approval-responded"
	outputAvailable   = "output-available"
	outputError       = "output-error"
	outputDenied      = "output-denied"
)

// empty is true of a message that shows nothing.
func (m *message) empty() bool {
	return !slices.ContainsFunc(m.parts, func(p part) bool { return p.kind != stepPart })
}

// add takes the next chunk.
func (m *message) add(c *chunk) {
	switch c.kind {
	case start:
		m.id = c.id
		m.know(c.json)
	case metadata, finish:
		m.know(c.json)
	case startStep:
		m.parts = append(m.parts, part{kind: stepPart})
	case resetStep:
		n := len(m.parts)
		for n > 0 && m.parts[n-1].kind != stepPart {
			n--
		}
		m.parts = m.parts[:n]
	case textStart:
		m.parts = append(m.parts, part{kind: "text", id: c.id, state: "streaming", json: c.json})
	case textDelta:
		if p := m.text(c.id); p != nil {
			p.text += c.text
		}
	case textEnd:
		if p := m.text(c.id); p != nil {
			p.state = "done"
			if c.json != "" {
				p.json = c.json
			}
		}
	case toolBegins:
		m.parts = append(m.parts, part{kind: "tool-" + c.tool, call: c.call, state: inputStreaming})
	case toolGrows:
		if p := m.tool(c.call); p != nil {
			p.json += c.text
		}
	case toolInput:
		if p := m.tool(c.call); p != nil && !c.dynamic {
			p.state, p.json = inputAvailable, c.json
			return
		}
		p := part{kind: "dynamic-tool", call: c.call, tool: c.tool, json: c.json, ours: c.ours, state: inputAvailable}
		m.parts = append(m.parts, p)
	case toolOutput, toolError, toolDenied, approvalAsked:
		if p := m.tool(c.call); p != nil {
			p.goesOn(c)
		}
	case approvalGiven:
		for i := range m.parts {
			if p := &m.parts[i]; p.approval == c.id {
				p.state, p.approved = approvalResponded, &c.approved
			}
		}
	case data:
		for i := range m.parts {
			if p := &m.parts[i]; p.kind == data+c.tool && p.id == c.id {
				p.json = c.json
				return
			}
		}
		m.parts = append(m.parts, part{kind: data + c.tool, id: c.id, json: c.json})
	case steering:
		m.parts = append(m.parts, part{kind: "steering-message", id: c.id, json: c.json})
	}
}

// goesOn takes what becomes of a tool's call.
func (p *part) goesOn(c *chunk) {
	switch c.kind {
	case toolOutput:
		p.state, p.output = outputAvailable, c.json
	case toolError:
		p.state, p.text = outputError, c.text
	case toolDenied:
		p.state = outputDenied
	case approvalAsked:
		p.state, p.approval, p.approved = approvalRequested, c.id, nil
	}
	if c.note != "" {
		p.note = c.note
	}
}

// text is the text that is open under an id.
func (m *message) text(id string) *part {
	for i := len(m.parts) - 1; i >= 0; i-- {
		if p := &m.parts[i]; p.kind == "text" && p.id == id && p.state == "streaming" {
			return p
		}
	}
	return nil
}

func (m *message) tool(call string) *part {
	for i := len(m.parts) - 1; i >= 0; i-- {
		if p := &m.parts[i]; p.call == call {
			return p
		}
	}
	return nil
}

// know merges metadata into what is known.
func (m *message) know(value string) {
	var more map[string]any
	if json.Unmarshal([]byte(value), &more) != nil {
		return
	}
	if m.metadata == nil {
		m.metadata = map[string]any{}
	}
	merge(m.metadata, more)
}

func merge(into, more map[string]any) {
	for k, v := range more {
		was, isMap := into[k].(map[string]any)
		if now, both := v.(map[string]any); isMap && both {
			merge(was, now)
			continue
		}
		into[k] = v
	}
}

// append appends the message as JSON.
func (m *message) append(dst []byte) []byte {
	o := protocol.NewObject(dst)
	o.Text("id", m.id)
	o.Text("role", "assistant")
	if known, err := json.Marshal(m.metadata); err == nil && m.metadata != nil {
		o.Raw("metadata", string(known))
	}
	o.Key("parts")
	o.Bytes = append(o.Bytes, '[')
	for i := range m.parts {
		if i > 0 {
			o.Bytes = append(o.Bytes, ',')
		}
		o.Bytes = m.parts[i].append(o.Bytes)
	}
	o.Bytes = append(o.Bytes, ']')
	return o.Close()
}

func (p *part) append(dst []byte) []byte {
	o := protocol.NewObject(dst)
	o.Text("type", p.kind)
	switch {
	case p.kind == "text":
		o.Text("text", p.text)
		o.Text("state", p.state)
		optional(&o, "providerMetadata", p.json)
	case p.call != "":
		p.appendTool(&o)
	case p.kind == "steering-message":
		o.Text("id", p.id)
		o.Raw("parts", p.json)
	case p.id != "":
		o.Text("id", p.id)
		o.Raw("data", p.json)
	}
	return o.Close()
}

func (p *part) appendTool(o *protocol.Object) {
	o.Optional("toolName", p.tool)
	o.Text("toolCallId", p.call)
	o.Text("state", p.state)
	o.Raw("input", p.json)
	o.Flag("providerExecuted", p.ours)
	switch p.state {
	case outputAvailable:
		o.Raw("output", p.output)
	case outputError:
		o.Text("errorText", p.text)
	}
	optional(o, "toolMetadata", p.note)
	if p.approval == "" {
		return
	}
	o.Key("approval")
	in := protocol.NewObject(o.Bytes)
	in.Text("id", p.approval)
	if p.approved != nil {
		in.Bool("approved", *p.approved)
	}
	o.Bytes = in.Close()
}
