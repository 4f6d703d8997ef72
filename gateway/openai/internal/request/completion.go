package request

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Completion is the body of POST /v1/chat/completions, as far as it counts here.
type Completion struct {
	Messages      []chatMessage     `json:"messages"`
	Model         string            `json:"model"`
	Stream        bool              `json:"stream"`
	StreamOptions *streamOptions    `json:"stream_options"`
	N             *int              `json:"n"`
	Logprobs      bool              `json:"logprobs"`
	Metadata      map[string]string `json:"metadata"`
	User          string            `json:"user"`
	Tools         []tool            `json:"tools"`
	ToolChoice    json.RawMessage   `json:"tool_choice"`
	Functions     json.RawMessage   `json:"functions"`
	Format        *struct {
		Type string `json:"type"`
	} `json:"response_format"`
	Modalities []string        `json:"modalities"`
	Audio      json.RawMessage `json:"audio"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// chatMessage is a message of Chat Completions.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []any           `json:"tool_calls"`
	CallID    string          `json:"tool_call_id"`
}

// ReadCompletion reads a request. Chat Completions have no conversation on the server: the client
// sends all of it each time. What is behind the assistant's last word is said; where the request
// names no session, what is before goes with the new one.
func ReadCompletion(body []byte) (r Completion, w Intent, err error) {
	if err := Decode(body, &r); err != nil {
		return r, w, err
	}
	switch {
	case r.N != nil && *r.N != 1:
		return r, w, Unsupported("n", "n must be 1: each message has one answer.")
	case r.Logprobs:
		return r, w, Unsupported("logprobs", "logprobs are not supported.")
	case len(r.Functions) > 0 && string(r.Functions) != "null":
		return r, w, Unsupported("functions", "functions are not supported; tools are.")
	case r.Format != nil && r.Format.Type != "" && r.Format.Type != "text":
		return r, w, Unsupported("response_format", "Only response_format.type \"text\" is supported.")
	case len(r.Audio) > 0 && string(r.Audio) != "null":
		return r, w, Unsupported("audio", "audio is not supported.")
	case len(r.Metadata) > maxMetadata:
		return r, w, Refuse("metadata", "invalid_value", "metadata may have at most 16 keys.")
	case len(r.Messages) == 0:
		return r, w, Refuse("messages", "missing_required_parameter", "messages must have at least one message.")
	case len(r.Messages) > maxItems:
		return r, w, Refuse("messages", "too_many_items", "There are too many messages.")
	}
	w.Where.Name, w.Where.User, w.Model = r.Metadata["session"], r.User, r.Model
	if w.Mode, err = modeOf(r.Metadata); err != nil {
		return r, w, err
	}
	if w.Tools, err = functions(r.Tools, r.ToolChoice); err != nil {
		return r, w, err
	}
	var said, history, system []string
	for i, m := range r.Messages {
		param := fmt.Sprintf("messages[%d]", i)
		text, files, err := readContent(param, m.Content)
		if err != nil {
			return r, w, err
		}
		switch m.Role {
		case "system", "developer", "tool":
			if len(files) > 0 {
				return r, w, errNoFiles(param)
			}
		}
		switch m.Role {
		case "user":
			said, w.Files = append(said, text), append(w.Files, files...)
		case "assistant":
			history = append(history, quoted("User", said)...)
			if text != "" {
				history = append(history, quoted("Assistant", []string{text})...)
			}
			said, w.Files, w.Answers = nil, nil, nil
		case "system", "developer":
			system = append(system, text)
		case "tool":
			w.Answers = append(w.Answers, Given{ID: m.CallID, Text: notBlank(text)})
		default:
			return r, w, Refuse(param+".role", "invalid_value", "role must be system, developer, user, assistant or tool.")
		}
	}
	w.Said, w.History = strings.Join(said, "\n\n"), strings.Join(history, "\n")
	if w.addInstructions(system); w.Said == "" && len(w.Files) == 0 && len(w.Answers) == 0 {
		return r, w, Refuse("messages", "invalid_value", "messages must end with a message of the user, or of a tool.")
	}
	return r, w, nil
}
