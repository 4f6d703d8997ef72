package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"parley/conversation"
	"parley/models/upstream"
)

// chatParams is a request of Chat Completions.
func (m *Model) chatParams(r *conversation.Request, n *upstream.Names, streaming bool) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model:    m.o.Model,
		Messages: m.chatMessages(r, n),
		User:     param.NewOpt(string(r.Session)),
	}
	if streaming {
		p.StreamOptions = sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)}
	}
	if m.o.MaxOutputTokens > 0 {
		// OpenAI's newer models refuse max_tokens; some others know nothing else.
		if m.Base().Host == "api.openai.com" {
			p.MaxCompletionTokens = param.NewOpt(int64(m.o.MaxOutputTokens))
		} else {
			p.MaxTokens = param.NewOpt(int64(m.o.MaxOutputTokens))
		}
	}
	if m.o.Temperature != nil {
		p.Temperature = param.NewOpt(*m.o.Temperature)
	}
	for _, t := range r.Tools {
		f := shared.FunctionDefinitionParam{Name: n.Theirs(t.Name), Parameters: schemaOf(t.Schema)}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	return p
}

// maxChatCallID is the longest id of a call that OpenAI's Chat Completions take.
const maxChatCallID = 40

func (m *Model) chatMessages(r *conversation.Request, n *upstream.Names) []sdk.ChatCompletionMessageParamUnion {
	var list []sdk.ChatCompletionMessageParamUnion
	if r.System != "" {
		list = append(list, sdk.SystemMessage(r.System))
	}
	all := upstream.Turns(r, m.Origin())
	for i := 0; i < len(all); i++ {
		t := all[i]
		if t.Role == conversation.RoleUser {
			text := t.Text
			for m.o.Alternate && i+1 < len(all) && all[i+1].Role == conversation.RoleUser {
				i++
				text += "\n\n" + all[i].Text
			}
			list = append(list, sdk.UserMessage(text))
			continue
		}
		// One message holds one text; its parts were shown apart, so they stay
		// apart for the model by a blank line.
		var texts []string
		var said sdk.ChatCompletionAssistantMessageParam
		for _, item := range t.Items {
			if item.Kind == conversation.ItemText {
				texts = append(texts, item.Text)
				continue
			}
			said.ToolCalls = append(said.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID:       upstream.CallID(item.ID, maxChatCallID),
					Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: n.Theirs(item.Tool), Arguments: item.Args},
				},
			})
		}
		if len(texts) > 0 {
			said.Content.OfString = param.NewOpt(strings.Join(texts, "\n\n"))
		}
		list = append(list, sdk.ChatCompletionMessageParamUnion{OfAssistant: &said})
		for _, result := range t.Results {
			list = append(list, sdk.ToolMessage(result.Text, upstream.CallID(result.ID, maxChatCallID)))
		}
	}
	return list
}

// chatFrame is a chunk of a Chat Completions stream. Only what is read of it.
type chatFrame struct {
	ID      string          `json:"id"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index        int    `json:"index"`
		FinishReason string `json:"finish_reason"`
		Delta        struct {
			Content   json.RawMessage `json:"content"`
			Refusal   json.RawMessage `json:"refusal"`
			ToolCalls []struct {
				Index    *int   `json:"index"`
				ID       string `json:"id"`
				Function struct {
					Name      string          `json:"name"`
					Arguments json.RawMessage `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
}

// chatFrame takes one chunk; over means that nothing more is to come. The answer
// is whole from its finish_reason on: the usage comes behind that.
func (a *assembly) chatFrame(_ string, data []byte) (over bool, err error) {
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("[DONE]")) {
		return a.finished, nil // without a finish_reason, a proxy ended a stream that was cut
	}
	if len(data) == 0 {
		return false, nil
	}
	var f chatFrame
	if err := unmarshal(data, &f); err != nil {
		return false, err
	}
	if told := failureIn(f.Error); told != nil {
		return false, told
	}
	if f.ID != "" {
		a.ID = f.ID
	}
	if u := usageIn(f.Usage); u != nil {
		a.usage = u
	}
	shown := false
	for _, choice := range f.Choices {
		if choice.Index != 0 {
			continue
		}
		for _, text := range append(textsIn(choice.Delta.Content), stringIn(choice.Delta.Refusal)) {
			if text == "" {
				continue
			}
			shown = true
			if err := a.text(place{placeText, 0}, "", text); err != nil {
				return false, err
			}
		}
		for _, call := range choice.Delta.ToolCalls {
			// Without an index, an id begins a call and anything else goes on with the last.
			at := place{len(a.Items), 0}
			if call.Index != nil {
				at.output = *call.Index
			} else if call.ID == "" && len(a.Items) > 0 {
				at.output = len(a.Items) - 1
			}
			_, item := a.item(at, conversation.ItemCall)
			if item.ID == "" {
				item.ID = call.ID
			}
			if item.Tool == "" {
				item.Tool = call.Function.Name
			}
			item.Args += argsDelta(call.Function.Arguments)
		}
		if choice.FinishReason != "" {
			a.finished = true
			switch choice.FinishReason {
			case "length", "content_filter", "error":
				a.reason = choice.FinishReason
			}
		}
	}
	if !shown {
		return false, a.Alive()
	}
	return false, nil
}

// argsDelta is a piece of arguments: a string, or all of them as an object.
func argsDelta(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '{' {
		return string(raw)
	}
	return stringIn(raw)
}
