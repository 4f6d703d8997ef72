package anthropic

import (
	"encoding/json"
	"maps"
	"strings"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// request is the body of a request. Its members stand in the order in which they
// are sent: the provider caches by prefix.
type request struct {
	MaxTokens   int         `json:"max_tokens"`
	Messages    []*turn     `json:"messages"`
	Model       string      `json:"model"`
	Metadata    metadata    `json:"metadata"`
	System      []textBlock `json:"system,omitempty"`
	ToolChoice  *toolChoice `json:"tool_choice,omitempty"`
	Tools       []tool      `json:"tools,omitempty"`
	Temperature *float64    `json:"temperature,omitempty"`
	Stream      bool        `json:"stream"`
}

type metadata struct {
	UserID string `json:"user_id"`
}

type toolChoice struct {
	Type string `json:"type"`
}

type tool struct {
	InputSchema json.RawMessage `json:"input_schema"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Cache       *cacheMark      `json:"cache_control,omitempty"`
}

// turn is a message of a request. Its blocks are of the types below.
type turn struct {
	Content []any  `json:"content"`
	Role    string `json:"role"`
}

type textBlock struct {
	Text  string     `json:"text"`
	Type  string     `json:"type"`
	Cache *cacheMark `json:"cache_control,omitempty"` // nil inside of a result
}

type imageBlock struct {
	Source imageSource `json:"source"`
	Type   string      `json:"type"`
	Cache  *cacheMark  `json:"cache_control,omitempty"`
}

type imageSource struct {
	Data      string `json:"data"`
	MediaType string `json:"media_type"`
	Type      string `json:"type"`
}

type callBlock struct {
	ID    string          `json:"id"`
	Input json.RawMessage `json:"input"` // an object
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Cache *cacheMark      `json:"cache_control,omitempty"`
}

type resultBlock struct {
	ToolUseID string      `json:"tool_use_id"`
	IsError   bool        `json:"is_error"`
	Content   []textBlock `json:"content"`
	Type      string      `json:"type"`
	Cache     *cacheMark  `json:"cache_control,omitempty"`
}

type thinkingBlock struct {
	Signature string `json:"signature"`
	Thinking  string `json:"thinking"`
	Type      string `json:"type"`

	prefix string // see bound
}

type redactedBlock struct {
	Data string `json:"data"`
	Type string `json:"type"`

	prefix string
}

// userBlocks are a text, its pictures, and a note in a block of its own.
func userBlocks(t *httpmodel.Turn) []any {
	blocks := []any{textOf(t.Text)}
	for i := range t.Shown {
		p := &t.Shown[i]
		blocks = append(blocks, imageBlock{Source: imageSource{httpmodel.Base64(p), p.Type, "base64"}, Type: "image"})
	}
	if t.Note != "" {
		blocks = append(blocks, textOf(t.Note))
	}
	return blocks
}

func resultBlocks(r *httpmodel.Result) []textBlock {
	if r.Note == "" {
		return []textBlock{textOf(r.Text)}
	}
	return []textBlock{textOf(r.Text), textOf(r.Note)}
}

func textOf(text string) textBlock { return textBlock{Text: text, Type: "text"} }

// body writes the body of a request, with the whole transcript. The prefix is what the
// thinking of its answer is bound to, "" = nothing.
func (m *Model) body(r *conversation.Request, n *httpmodel.Names, streaming bool, c *httpmodel.Call) (body []byte, prefix string, err error) {
	q := &request{
		MaxTokens: m.o.MaxOutputTokens, Messages: messages(r, n, m.Origin()), Model: m.o.Model,
		Metadata: metadata{UserID: string(r.Session)}, Temperature: m.o.Temperature, Stream: streaming,
	}
	if strings.TrimSpace(r.System) != "" {
		q.System = []textBlock{textOf(r.System)}
	}
	add := func(name, description string, schema json.RawMessage) error {
		written, err := schemaOf(m.o.ToolSchema(schema))
		q.Tools = append(q.Tools, tool{InputSchema: written, Name: n.ToProvider(name), Description: description})
		return err
	}
	extra := m.o.Extra
	if m.mustThink() && !mayThink(q.Messages) {
		extra = maps.Clone(extra)
		extra["thinking"] = noThinking
	}
	tools := r.Tools
	switch {
	case len(tools) == 0:
		// A transcript with calls is refused without tools, so they are there, and forbidden:
		// the same as in the steps before, which the provider has in its cache.
		if tools = r.Forbidden; len(tools) == 0 {
			tools = calledIn(r.Entries)
		}
		if len(tools) > 0 {
			q.ToolChoice = &toolChoice{Type: "none"}
		}
	case !thinks(extra) && c.MustCall(r): // with thinking the API refuses it
		q.ToolChoice = &toolChoice{Type: "any"}
	}
	for _, t := range tools {
		if err := add(t.Name, t.Description, t.Schema); err != nil {
			return nil, "", err
		}
	}
	if !m.mustThink() { // those models want all of it back
		if prefix, err = q.bound(); err != nil {
			return nil, "", err
		}
	}
	if _, own := m.o.Extra["cache_control"]; m.o.Cache && !own { // the API has its own way to mark then
		q.mark(r, m.o.mark())
	}
	body, err = httpmodel.Encode(q, extra, m.o.Without...)
	return body, prefix, err
}

// schemaOf returns a tool's schema as the API accepts it: an object with properties,
// even if there are none, and the names of those that are required.
func schemaOf(raw json.RawMessage) (json.RawMessage, error) {
	var schema struct {
		Properties any      `json:"properties"`
		Required   []string `json:"required,omitempty"`
		Type       string   `json:"type"`
	}
	schema.Properties, schema.Type = map[string]any{}, "object"
	fields := map[string]any{}
	_ = json.Unmarshal(raw, &fields)
	if properties, has := fields["properties"]; has {
		schema.Properties = properties
	}
	list, _ := fields["required"].([]any)
	for _, name := range list {
		if text, is := name.(string); is {
			schema.Required = append(schema.Required, text)
		}
	}
	delete(fields, "properties")
	delete(fields, "required")
	delete(fields, "type")
	return httpmodel.Encode(&schema, fields)
}

// calledIn returns the tools that a transcript calls, each once.
func calledIn(entries []conversation.Entry) []conversation.ToolSpec {
	var list []conversation.ToolSpec
	seen := map[string]bool{}
	for i := range entries {
		for _, item := range entries[i].Items {
			if item.Kind == conversation.ItemCall && !seen[item.Tool] {
				seen[item.Tool] = true
				list = append(list, conversation.ToolSpec{Name: item.Tool, Description: "Not available now."})
			}
		}
	}
	return list
}

// Texts for places where the API requires a user's message and there is none.
const (
	openingText  = "[the conversation so far]"
	continueText = "[go on]"
	emptyText    = "[nothing was said]"
)

// The roles of the API.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// maxCallID is the longest id that is given back as it is.
const maxCallID = 128

// messages returns the transcript as the API accepts it: the user begins and ends, the
// roles alternate, and the results of calls stand first in the message that
// follows them.
func messages(r *conversation.Request, n *httpmodel.Names, origin string) []*turn {
	var list []*turn
	last := ""
	say := func(role string, blocks ...any) {
		if len(blocks) == 0 {
			return
		}
		if role == last {
			m := list[len(list)-1]
			m.Content = append(m.Content, blocks...)
			return
		}
		last = role
		list = append(list, &turn{Content: blocks, Role: role})
	}
	for _, t := range httpmodel.Turns(r, origin) {
		if t.Role == conversation.RoleUser {
			say(roleUser, userBlocks(&t)...)
			continue
		}
		if len(list) == 0 {
			say(roleUser, textOf(openingText))
		}
		var blocks, results []any
		for _, item := range t.Items {
			for _, thought := range httpmodel.Unpack[thought](&item) {
				blocks = append(blocks, thought.block())
			}
			if item.Kind == conversation.ItemText {
				// The API refuses an assistant's last text with a space at its end.
				blocks = append(blocks, textOf(strings.TrimRight(item.Text, " \t\r\n")))
				continue
			}
			blocks = append(blocks, callBlock{ID: httpmodel.CallID(item.ID, maxCallID), Input: inputOf(item.Args), Name: n.ToProvider(item.Tool), Type: "tool_use"})
		}
		for _, result := range t.Results {
			results = append(results, resultBlock{ToolUseID: httpmodel.CallID(result.ID, maxCallID), Content: resultBlocks(&result), Type: "tool_result"})
		}
		say(roleAssistant, blocks...)
		say(roleUser, results...)
	}
	switch last {
	case roleAssistant:
		say(roleUser, textOf(continueText))
	case "":
		say(roleUser, textOf(emptyText))
	}
	return list
}

// inputOf returns a call's arguments, or {} if they are not an object.
func inputOf(args string) json.RawMessage {
	raw := json.RawMessage(args)
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return json.RawMessage("{}")
	}
	return raw
}

// thought is a block of thinking: signed, or encrypted. The API wants those of
// the turn at hand back, unchanged, together with the results of its calls.
type thought struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
	Data      string `json:"data"`
	Prefix    string `json:"prefix,omitempty"` // see bound; never sent

	index  int // in the answer
	pieces httpmodel.Pieces
}

func (t *thought) block() any {
	if t.Type == "redacted_thinking" {
		return redactedBlock{Data: t.Data, Type: t.Type, prefix: t.Prefix}
	}
	return thinkingBlock{Signature: t.Signature, Thinking: t.Thinking, Type: "thinking", prefix: t.Prefix}
}

// mayThink reports whether the current answer may use thinking. It may not if it was
// begun without, by another model for example: the API refuses to start it after a
// result.
func mayThink(list []*turn) bool {
	may := true
	for i := len(list) - 1; i > 0 && list[i].Role == roleUser; i -= 2 {
		if _, is := list[i].Content[0].(resultBlock); !is {
			break
		}
		switch list[i-1].Content[0].(type) {
		case thinkingBlock, redactedBlock:
			may = true
		default:
			may = false
		}
	}
	return may
}

// noThinking replaces the member "thinking" of Extra.
var noThinking = map[string]any{"type": "disabled"}

// thinks reports whether a request's extra members switch thinking on, of either kind.
func thinks(extra map[string]any) bool {
	thinking, _ := extra["thinking"].(map[string]any)
	return thinking != nil && thinking["type"] != noThinking["type"]
}

// mustThink reports whether Extra says that each answer begins with thinking.
func (m *Model) mustThink() bool {
	thinking, _ := m.o.Extra["thinking"].(map[string]any)
	return thinking["type"] == "enabled"
}
