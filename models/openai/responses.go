package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"parley/conversation"
	"parley/models/upstream"
)

// responsesParams is a request of the Responses API. It is stateless, with the
// whole transcript in it: what the provider would remember knows nothing of late
// results, other tasks and compaction.
func (m *Model) responsesParams(r *conversation.Request, n *upstream.Names) responses.ResponseNewParams {
	p := responses.ResponseNewParams{
		Model: m.o.Model,
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: m.inputItems(r, n)},
		Store: param.NewOpt(false),
		User:  param.NewOpt(string(r.Session)),
	}
	if r.System != "" {
		p.Instructions = param.NewOpt(r.System)
	}
	if m.o.MaxOutputTokens > 0 {
		p.MaxOutputTokens = param.NewOpt(int64(m.o.MaxOutputTokens))
	}
	if m.o.Temperature != nil {
		p.Temperature = param.NewOpt(*m.o.Temperature)
	}
	for _, t := range r.Tools {
		tool := responses.FunctionToolParam{Name: n.Theirs(t.Name), Parameters: schemaOf(t.Schema), Strict: param.NewOpt(false)}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &tool})
	}
	return p
}

// maxCallID is the longest id of a call that the Responses API takes.
const maxCallID = 64

func (m *Model) inputItems(r *conversation.Request, n *upstream.Names) responses.ResponseInputParam {
	var list responses.ResponseInputParam
	for _, t := range upstream.Turns(r, m.Origin()) {
		if t.Role == conversation.RoleUser {
			list = append(list, responses.ResponseInputItemParamOfMessage(t.Text, responses.EasyInputMessageRoleUser))
			continue
		}
		for i := 0; i < len(t.Items); i++ {
			item := t.Items[i]
			for _, raw := range upstream.Unpack[json.RawMessage](&item) {
				list = append(list, param.Override[responses.ResponseInputItemUnionParam](raw))
			}
			if item.Kind == conversation.ItemCall {
				list = append(list, responses.ResponseInputItemParamOfFunctionCall(item.Args, upstream.CallID(item.ID, maxCallID), n.Theirs(item.Tool)))
				continue
			}
			if !givenBack(item.ID) {
				list = append(list, responses.ResponseInputItemParamOfMessage(item.Text, responses.EasyInputMessageRoleAssistant))
				continue
			}
			// The blocks of one message of the provider's go back as one message.
			blocks := []responses.ResponseOutputMessageContentUnionParam{outputText(item.Text)}
			for ; i+1 < len(t.Items) && t.Items[i+1].Kind == conversation.ItemText && t.Items[i+1].ID == item.ID && t.Items[i+1].Opaque == ""; i++ {
				blocks = append(blocks, outputText(t.Items[i+1].Text))
			}
			list = append(list, responses.ResponseInputItemParamOfOutputMessage(blocks, item.ID, responses.ResponseOutputMessageStatusCompleted))
		}
		for _, result := range t.Results {
			out := responses.ResponseInputItemParamOfFunctionCallOutput(result.Text)
			out.OfFunctionCallOutput.CallID = param.NewOpt(upstream.CallID(result.ID, maxCallID))
			list = append(list, out)
		}
	}
	return list
}

// givenBack is true for the id of a message that is the provider's own. Agents
// change models within a conversation, and OpenAI refuses other ids.
func givenBack(id string) bool { return strings.HasPrefix(id, "msg") && upstream.Sane(id, maxCallID) }

func outputText(text string) responses.ResponseOutputMessageContentUnionParam {
	return responses.ResponseOutputMessageContentUnionParam{
		OfOutputText: &responses.ResponseOutputTextParam{Text: text, Annotations: []responses.ResponseOutputTextAnnotationUnionParam{}},
	}
}

// responsesFrame is an event of a Responses stream. Only what is read of it.
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
	at := place{f.OutputIndex, f.ContentIndex}
	switch f.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return false, a.text(at, f.ItemID, stringIn(f.Delta))
	case "response.output_text.done", "response.refusal.done":
		if text := stringIn(f.Text) + stringIn(f.Refusal); text != "" {
			_, item := a.item(at, conversation.ItemText)
			item.Text = text
		}
		return false, nil
	case "response.output_item.added", "response.output_item.done":
		a.responsesItem(f.OutputIndex, f.Item)
		return false, a.Alive()
	case "response.function_call_arguments.delta":
		_, item := a.item(place{f.OutputIndex, 0}, conversation.ItemCall)
		item.Args += stringIn(f.Delta)
		return false, a.Alive()
	case "response.function_call_arguments.done":
		_, item := a.item(place{f.OutputIndex, 0}, conversation.ItemCall)
		item.Args = argsIn(f.Arguments)
		return false, nil
	case "response.completed", "response.incomplete", "response.done":
		return true, a.take(ParseBody(f.Response))
	case "response.failed":
		b := ParseBody(f.Response)
		if b.err == nil {
			return false, errReason("error")
		}
		return false, b.err
	case "error":
		if told := failureIn(f.Error); told != nil {
			return false, told
		}
		return false, &apiError{Code: f.Code, Message: f.Message}
	case "":
		if told := failureIn(f.Error); told != nil {
			return false, told
		}
	}
	return false, a.Alive()
}

// responsesItem takes the head of an output item, or the whole of it.
func (a *assembly) responsesItem(index int, raw json.RawMessage) {
	var in wireItem
	_ = json.Unmarshal(raw, &in)
	call, is := in.call()
	if !is {
		return
	}
	_, item := a.item(place{index, 0}, conversation.ItemCall)
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

// question is a call to be made.
type question struct {
	path      string
	body      any
	options   []option.RequestOption
	streaming bool
	names     *upstream.Names
}

func (m *Model) question(r *conversation.Request) *question {
	q := &question{streaming: m.o.Stream && r.Stream, names: upstream.NewNames(r)}
	if m.o.API == Chat {
		q.path, q.body = "chat/completions", m.chatParams(r, q.names, q.streaming)
	} else {
		q.path, q.body = "responses", m.responsesParams(r, q.names)
	}
	q.options = append(q.options, option.WithJSONSet("stream", q.streaming))
	if q.streaming {
		q.options = append(q.options, option.WithHeader("Accept", "text/event-stream"))
	}
	for key, value := range m.o.Extra {
		q.options = append(q.options, option.WithJSONSet(key, value))
	}
	return q
}

// schemaOf is a tool's schema as providers want it: an object with properties,
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
