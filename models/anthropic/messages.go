package anthropic

import (
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"parley/conversation"
	"parley/models/upstream"
)

// params is a request of the Messages API: stateless, with the whole transcript.
func (m *Model) params(r *conversation.Request, n *upstream.Names) sdk.MessageNewParams {
	p := sdk.MessageNewParams{
		Model:     sdk.Model(m.o.Model),
		MaxTokens: int64(m.o.MaxOutputTokens),
		Messages:  messages(r, n, m.Origin()),
		Metadata:  sdk.MetadataParam{UserID: param.NewOpt(string(r.Session))},
	}
	if strings.TrimSpace(r.System) != "" {
		p.System = []sdk.TextBlockParam{{Text: r.System}}
	}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, toolParam(n.Theirs(t.Name), t.Description, t.Schema))
	}
	if len(p.Tools) == 0 {
		// A transcript with calls is refused without tools, so they are named, and forbidden.
		for _, name := range calledIn(r.Entries) {
			p.Tools = append(p.Tools, toolParam(n.Theirs(name), "Not available now.", nil))
		}
		if len(p.Tools) > 0 {
			p.ToolChoice = sdk.ToolChoiceUnionParam{OfNone: &sdk.ToolChoiceNoneParam{}}
		}
	}
	if m.o.Temperature != nil {
		// The SDK of this version has no such field; models that take it still do.
		p.SetExtraFields(map[string]any{"temperature": *m.o.Temperature})
	}
	return p
}

func toolParam(name, description string, schema json.RawMessage) sdk.ToolUnionParam {
	tool := sdk.ToolParam{Name: name, InputSchema: schemaOf(schema)}
	if description != "" {
		tool.Description = param.NewOpt(description)
	}
	return sdk.ToolUnionParam{OfTool: &tool}
}

// schemaOf is a tool's schema as the SDK wants it: an object.
func schemaOf(raw json.RawMessage) sdk.ToolInputSchemaParam {
	fields := map[string]any{}
	_ = json.Unmarshal(raw, &fields)
	schema := sdk.ToolInputSchemaParam{Properties: map[string]any{}}
	if properties, has := fields["properties"]; has {
		schema.Properties = properties
	}
	if list, _ := fields["required"].([]any); len(list) > 0 {
		for _, name := range list {
			if text, is := name.(string); is {
				schema.Required = append(schema.Required, text)
			}
		}
	}
	delete(fields, "properties")
	delete(fields, "required")
	delete(fields, "type")
	if len(fields) > 0 {
		schema.ExtraFields = fields
	}
	return schema
}

// calledIn are the tools that a transcript calls, each once.
func calledIn(entries []conversation.Entry) []string {
	var list []string
	seen := map[string]bool{}
	for i := range entries {
		for _, item := range entries[i].Items {
			if item.Kind == conversation.ItemCall && !seen[item.Tool] {
				seen[item.Tool] = true
				list = append(list, item.Tool)
			}
		}
	}
	return list
}

// Texts for the places where the API wants a user to speak and nobody has.
const (
	opening  = "[the conversation so far]"
	carryOn  = "[go on]"
	nobody   = "[nothing was said]"
	toolSide = conversation.RoleTool // never a role of a turn
)

// maxCallID is the longest id that is given back as it is.
const maxCallID = 128

// messages are the entries as the API wants them: the user begins and ends, the
// roles alternate, and the results of calls stand first in the message that
// follows them.
func messages(r *conversation.Request, n *upstream.Names, origin string) []sdk.MessageParam {
	var list []sdk.MessageParam
	last := toolSide
	say := func(role conversation.Role, blocks ...sdk.ContentBlockParamUnion) {
		if len(blocks) == 0 {
			return
		}
		if role == last {
			if m := &list[len(list)-1]; m.OfUser != nil {
				m.OfUser.Content = append(m.OfUser.Content, blocks...)
			} else {
				m.OfAssistant.Content = append(m.OfAssistant.Content, blocks...)
			}
			return
		}
		last = role
		if role == conversation.RoleUser {
			list = append(list, sdk.NewUserMessage(blocks...))
		} else {
			list = append(list, sdk.NewAssistantMessage(blocks...))
		}
	}
	for _, t := range upstream.Turns(r, origin) {
		if t.Role == conversation.RoleUser {
			say(conversation.RoleUser, sdk.NewTextBlock(t.Text))
			continue
		}
		if len(list) == 0 {
			say(conversation.RoleUser, sdk.NewTextBlock(opening))
		}
		var blocks, results []sdk.ContentBlockParamUnion
		for _, item := range t.Items {
			for _, thought := range upstream.Unpack[thought](&item) {
				blocks = append(blocks, thought.block())
			}
			if item.Kind == conversation.ItemText {
				// The API refuses an assistant's last text with a space at its end.
				blocks = append(blocks, sdk.NewTextBlock(strings.TrimRight(item.Text, " \t\r\n")))
				continue
			}
			blocks = append(blocks, sdk.NewToolUseBlock(upstream.CallID(item.ID, maxCallID), inputOf(item.Args), n.Theirs(item.Tool)))
		}
		for _, result := range t.Results {
			results = append(results, sdk.NewToolResultBlock(upstream.CallID(result.ID, maxCallID), result.Text, false))
		}
		say(conversation.RoleAssistant, blocks...)
		say(conversation.RoleUser, results...)
	}
	switch last {
	case conversation.RoleAssistant:
		say(conversation.RoleUser, sdk.NewTextBlock(carryOn))
	case toolSide:
		say(conversation.RoleUser, sdk.NewTextBlock(nobody))
	}
	return list
}

// inputOf is a call's arguments as the API wants them: an object.
func inputOf(args string) any {
	raw := json.RawMessage(args)
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return map[string]any{}
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

	index int // in the answer
}

func (t *thought) block() sdk.ContentBlockParamUnion {
	if t.Type == "redacted_thinking" {
		return sdk.NewRedactedThinkingBlock(t.Data)
	}
	return sdk.NewThinkingBlock(t.Signature, t.Thinking)
}

// mayThink is false if the answer at hand was begun without thinking, by another
// model for example: the API refuses to begin with it behind a result.
func mayThink(list []sdk.MessageParam) bool {
	may := true
	for i := len(list) - 1; i > 0 && list[i].OfUser != nil && list[i].OfUser.Content[0].OfToolResult != nil; i -= 2 {
		first := list[i-1].OfAssistant.Content[0]
		may = first.OfThinking != nil || first.OfRedactedThinking != nil
	}
	return may
}

// noThinking takes the place of what Extra says of thinking.
var noThinking = map[string]any{"type": "disabled"}

// mustThink is true if Extra says that each answer begins with thinking.
func (m *Model) mustThink() bool {
	thinking, _ := m.o.Extra["thinking"].(map[string]any)
	return thinking["type"] == "enabled"
}
