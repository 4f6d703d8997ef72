package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// responsesRequest is the body of a request of the Responses API. Its members
// stand in the order in which they are sent: providers cache by prefix.
type responsesRequest struct {
	Instructions    string          `json:"instructions,omitempty"`
	MaxOutputTokens int             `json:"max_output_tokens,omitempty"`
	Store           bool            `json:"store"`
	Temperature     *float64        `json:"temperature,omitempty"`
	User            string          `json:"user"`
	Input           []any           `json:"input,omitempty"` // the types below, and what the provider wants back as it was
	Model           string          `json:"model"`
	ToolChoice      string          `json:"tool_choice,omitempty"`
	Tools           []responsesTool `json:"tools,omitempty"`
	Stream          bool            `json:"stream"`
}

type responsesTool struct {
	Strict      bool           `json:"strict"`
	Parameters  map[string]any `json:"parameters"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Type        string         `json:"type"`
}

// inputText is a message of a user or of the assistant.
type inputText struct {
	Content any    `json:"content"` // a string, or []inputPart where there are pictures
	Role    string `json:"role"`

	kept map[string]json.RawMessage
}

// inputPart is a text, or a picture.
type inputPart struct {
	Text     string `json:"text,omitempty"`
	Detail   string `json:"detail,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Type     string `json:"type"`
}

func inputOf(t *httpmodel.Turn) any {
	if len(t.Shown) == 0 {
		return t.Whole()
	}
	parts := []inputPart{{Text: t.Text, Type: "input_text"}}
	for i := range t.Shown {
		parts = append(parts, inputPart{Detail: "auto", ImageURL: httpmodel.DataURL(&t.Shown[i]), Type: "input_image"})
	}
	if t.Note != "" {
		parts = append(parts, inputPart{Text: t.Note, Type: "input_text"})
	}
	return parts
}

// MarshalJSON writes the message, then what was kept of it.
func (t inputText) MarshalJSON() ([]byte, error) {
	type plain inputText
	return withKept((*plain)(&t), t.kept)
}

type inputCall struct {
	Arguments string `json:"arguments"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Type      string `json:"type"`
}

type inputResult struct {
	Output string `json:"output"`
	CallID string `json:"call_id"`
	Type   string `json:"type"`
}

// responsesRequest makes a request with the whole transcript. The provider is not asked
// to remember anything: it would not know late results, other tasks and compaction.
func (m *Model) responsesRequest(r *conversation.Request, n *httpmodel.Names, streaming bool) *responsesRequest {
	q := &responsesRequest{
		Instructions: r.System, MaxOutputTokens: m.o.MaxOutputTokens, Temperature: m.o.Temperature, User: string(r.Session),
		Input: m.inputItems(r, n), Model: m.o.Model, Stream: streaming,
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, responsesTool{Name: n.ToProvider(t.Name), Description: t.Description, Parameters: schemaOf(m.o.ToolSchema(t.Schema)), Type: "function"})
	}
	return q
}

// maxCallID is the longest id of a call that the Responses API takes.
const maxCallID = 64

// inputItems returns the transcript as items of input. None of them has the id that the
// provider gave it: with store = false it keeps nothing under that id, and refuses
// it, or asks for the reasoning that stood before it.
func (m *Model) inputItems(r *conversation.Request, n *httpmodel.Names) []any {
	var list []any
	for _, t := range httpmodel.Turns(r, m.Origin()) {
		if t.Role == conversation.RoleUser {
			list = append(list, inputText{Content: inputOf(&t), Role: roleUser})
			continue
		}
		for _, item := range t.Items {
			var kept map[string]json.RawMessage // of the message
			for _, raw := range httpmodel.Unpack[json.RawMessage](&item) {
				if back := withoutID(raw); stringIn(back["type"]) == itemMessage {
					delete(back, "type")
					kept = back
				} else {
					list = append(list, back)
				}
			}
			if item.Kind == conversation.ItemCall {
				list = append(list, inputCall{item.Args, httpmodel.CallID(item.ID, maxCallID), n.ToProvider(item.Tool), "function_call"})
			} else {
				list = append(list, inputText{item.Text, roleAssistant, kept})
			}
		}
		for _, result := range t.Results {
			list = append(list, inputResult{result.Whole(), httpmodel.CallID(result.ID, maxCallID), "function_call_output"})
		}
	}
	return list
}

// withoutID is an output item, of reasoning or what is kept of a message, as the
// provider takes it back.
func withoutID(raw json.RawMessage) map[string]json.RawMessage {
	item := objectIn(raw)
	maps.DeleteFunc(item, func(name string, v json.RawMessage) bool {
		return name == "id" || name == "status" || string(v) == "null"
	})
	if _, has := item["summary"]; !has && stringIn(item["type"]) == "reasoning" {
		item["summary"] = json.RawMessage("[]") // wanted, and may be empty
	}
	return item
}

// responsesFrame holds the members that are read of an event of a Responses stream.
type responsesFrame struct {
	Type         string          `json:"type"`
	OutputIndex  int             `json:"output_index"`
	ContentIndex int             `json:"content_index"`
	ItemID       string          `json:"item_id"`
	Delta        json.RawMessage `json:"delta"`
	Text         json.RawMessage `json:"text"`
	Refusal      json.RawMessage `json:"refusal"`
	Arguments    json.RawMessage `json:"arguments"`
	Item         json.RawMessage `json:"item"`
	Response     json.RawMessage `json:"response"`
	Error        json.RawMessage `json:"error"`
	Code         any             `json:"code"`
	Message      string          `json:"message"`
}

// responsesFrame takes one event; over means that the answer is whole.
func (a *assembly) responsesFrame(name string, data []byte) (over bool, err error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || bytes.Equal(data, []byte("[DONE]")) {
		return false, nil
	}
	var f responsesFrame
	if err := unmarshal(data, &f); err != nil {
		return false, err
	}
	if f.Type == "" {
		f.Type = name
	}
	at := position{f.OutputIndex, f.ContentIndex}
	switch f.Type {
	case "response.output_text.delta", "response.refusal.delta":
		a.refused = a.refused || f.Type == "response.refusal.delta"
		return false, a.text(at, f.ItemID, f.Delta)
	case "response.output_text.done", "response.refusal.done":
		a.refused = a.refused || f.Type == "response.refusal.done"
		if text := stringIn(f.Text) + stringIn(f.Refusal); text != "" {
			i, _ := a.item(at, conversation.ItemText)
			err = a.EndPieces(i)
			a.Items[i].Text = text
		}
		return false, err
	case "response.output_item.added", "response.output_item.done":
		a.responsesItem(f.OutputIndex, f.Item)
		return false, a.KeepAlive()
	case "response.function_call_arguments.delta":
		i, _ := a.item(position{f.OutputIndex, 0}, conversation.ItemCall)
		a.ArgsPiece(i, f.Delta)
		return false, a.KeepAlive()
	case "response.function_call_arguments.done":
		i, item := a.item(position{f.OutputIndex, 0}, conversation.ItemCall)
		err = a.EndPieces(i)
		item.Args = argsIn(f.Arguments)
		return false, err
	case "response.completed", "response.incomplete", "response.done":
		return true, a.merge(ParseBody(f.Response))
	case "response.failed":
		b := ParseBody(f.Response)
		if b.err == nil {
			return false, errFailed
		}
		return false, b.err
	case "error":
		if apiErr := errorInFrame(f.Error); apiErr != nil {
			return false, apiErr
		}
		return false, &apiError{Code: f.Code, Message: f.Message}
	case "":
		if apiErr := errorInFrame(f.Error); apiErr != nil {
			return false, apiErr
		}
	}
	return false, a.KeepAlive()
}

// responsesItem takes the head of an output item, or the whole of it.
func (a *assembly) responsesItem(index int, raw json.RawMessage) {
	var in wireItem
	_ = json.Unmarshal(raw, &in)
	call, is := in.call()
	if !is {
		return
	}
	_, item := a.item(position{index, 0}, conversation.ItemCall)
	item.ID, item.Tool = call.ID, call.Tool
	if args := argsIn(in.Arguments); args != "{}" {
		item.Args = args
	}
}

// unmarshal reads a frame. A field of a wrong type is as good as missing.
func unmarshal(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil && !json.Valid(data) {
		return fmt.Errorf("a frame of the stream is not JSON: %w", err)
	}
	return nil
}

// httpCall is the request of one call.
type httpCall struct {
	path      string
	accept    string
	body      any
	streaming bool
	names     *httpmodel.Names
}

// mustCall is the tool_choice that asks for calls alone.
const mustCall = "required"

func (m *Model) httpCall(r *conversation.Request, c *httpmodel.Call) *httpCall {
	choice := ""
	if c.MustCall(r) {
		choice = mustCall
	}
	q := &httpCall{streaming: m.o.Stream && r.Stream, names: httpmodel.NewNames(r)}
	if m.o.API == Chat {
		body := m.chatRequest(r, q.names, q.streaming)
		body.ToolChoice = choice
		q.path, q.body = paths[Chat], body
	} else {
		body := m.responsesRequest(r, q.names, q.streaming)
		body.ToolChoice = choice
		q.path, q.body = paths[Responses], body
	}
	if q.streaming {
		q.accept = "text/event-stream"
	}
	return q
}

// schemaOf returns a tool's schema as providers accept it: an object with properties,
// even if there are none.
func schemaOf(raw json.RawMessage) map[string]any {
	schema := map[string]any{}
	_ = json.Unmarshal(raw, &schema)
	if schema == nil {
		schema = map[string]any{}
	}
	if _, has := schema["type"]; !has {
		schema["type"] = "object"
	}
	if _, has := schema["properties"]; !has {
		schema["properties"] = map[string]any{}
	}
	return schema
}
