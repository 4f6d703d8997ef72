package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// chatRequest is the body of a request of Chat Completions. Its members stand in
// the order in which they are sent: providers cache by prefix.
type chatRequest struct {
	Messages            []chatMessage  `json:"messages,omitempty"`
	Model               string         `json:"model"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	User                string         `json:"user"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	Tools               []chatTool     `json:"tools,omitempty"`
	Stream              bool           `json:"stream"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Content    *string    `json:"content,omitempty"` // nil = only calls
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Role       string     `json:"role"`
}

type chatCall struct {
	ID       string           `json:"id"`
	Function chatCallFunction `json:"function"`
	Type     string           `json:"type"`
}

type chatCallFunction struct {
	Arguments string `json:"arguments"`
	Name      string `json:"name"`
}

type chatTool struct {
	Function chatFunction `json:"function"`
	Type     string       `json:"type"`
}

type chatFunction struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]any `json:"parameters"`
}

func (m *Model) chatRequest(r *conversation.Request, n *httpmodel.Names, streaming bool) *chatRequest {
	q := &chatRequest{
		Messages: m.chatMessages(r, n), Model: m.o.Model, Temperature: m.o.Temperature, User: string(r.Session), Stream: streaming,
	}
	if streaming {
		q.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	// OpenAI's newer models refuse max_tokens; some others know nothing else.
	if m.Base().Host == "api.openai.com" {
		q.MaxCompletionTokens = m.o.MaxOutputTokens
	} else {
		q.MaxTokens = m.o.MaxOutputTokens
	}
	for _, t := range r.Tools {
		f := chatFunction{Name: n.ToProvider(t.Name), Description: t.Description, Parameters: schemaOf(t.Schema)}
		q.Tools = append(q.Tools, chatTool{Function: f, Type: "function"})
	}
	return q
}

// maxChatCallID is the longest id of a call that OpenAI's Chat Completions take.
const maxChatCallID = 40

func (m *Model) chatMessages(r *conversation.Request, n *httpmodel.Names) []chatMessage {
	var list []chatMessage
	if r.System != "" {
		list = append(list, chatMessage{Role: "system", Content: &r.System})
	}
	all := httpmodel.Turns(r, m.Origin())
	for i := 0; i < len(all); i++ {
		t := all[i]
		if t.Role == conversation.RoleUser {
			text := t.Whole()
			for m.o.Alternate && i+1 < len(all) && all[i+1].Role == conversation.RoleUser {
				i++
				text += "\n\n" + all[i].Whole()
			}
			list = append(list, chatMessage{Role: "user", Content: &text})
			continue
		}
		// One message holds one text; its parts were shown apart, so they stay
		// apart for the model by a blank line.
		var texts []string
		said := chatMessage{Role: "assistant"}
		for _, item := range t.Items {
			if item.Kind == conversation.ItemText {
				texts = append(texts, item.Text)
				continue
			}
			f := chatCallFunction{Name: n.ToProvider(item.Tool), Arguments: item.Args}
			said.ToolCalls = append(said.ToolCalls, chatCall{ID: httpmodel.CallID(item.ID, maxChatCallID), Function: f, Type: "function"})
		}
		if len(texts) > 0 {
			said.Content = new(strings.Join(texts, "\n\n"))
		}
		list = append(list, said)
		for _, result := range t.Results {
			list = append(list, chatMessage{Role: "tool", Content: new(result.Whole()), ToolCallID: httpmodel.CallID(result.ID, maxChatCallID)})
		}
	}
	return list
}

// chatFrame holds the members that are read of a chunk of a Chat Completions stream.
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
	if apiErr := errorInFrame(f.Error); apiErr != nil {
		return false, apiErr
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
			if err := a.text(position{positionOfText, 0}, "", text); err != nil {
				return false, err
			}
		}
		for _, call := range choice.Delta.ToolCalls {
			// Without an index, an id begins a call and anything else goes on with the last.
			at := position{len(a.Items), 0}
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
		return false, a.KeepAlive()
	}
	return false, nil
}

// argsDelta reads a piece of arguments: a string, or all of them as an object.
func argsDelta(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '{' {
		return string(raw)
	}
	return stringIn(raw)
}
