package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// chatRequest is the body of a request of Chat Completions. Its members stand in
// the order in which they are sent: providers cache by prefix.
type chatRequest struct {
	Messages            []*chatMessage `json:"messages,omitempty"`
	Model               string         `json:"model"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	User                string         `json:"user"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	ToolChoice          string         `json:"tool_choice,omitempty"`
	Tools               []chatTool     `json:"tools,omitempty"`
	Stream              bool           `json:"stream"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Content    *chatContent `json:"content,omitempty"` // nil = only calls
	ToolCalls  []chatCall   `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
	Role       string       `json:"role"`

	kept map[string]json.RawMessage
}

// chatContent is a text, or parts where there are pictures.
type chatContent struct {
	text  string
	parts []chatPart
}

type chatPart struct {
	Text     string        `json:"text,omitempty"`
	ImageURL *chatImageURL `json:"image_url,omitempty"`
	Type     string        `json:"type"`
}

type chatImageURL struct {
	URL string `json:"url"`
}

// MarshalJSON writes the text as a string where there is nothing else: many servers take no
// parts.
func (c *chatContent) MarshalJSON() ([]byte, error) {
	if c.parts == nil {
		return httpmodel.Encode(c.text, nil)
	}
	return httpmodel.Encode(c.parts, nil)
}

func textContent(text string) *chatContent { return &chatContent{text: text} }

func textPart(text string) chatPart { return chatPart{Text: text, Type: "text"} }

func contentOf(t *httpmodel.Turn) *chatContent {
	if len(t.Shown) == 0 {
		return textContent(t.Whole())
	}
	c := &chatContent{parts: []chatPart{textPart(t.Text)}}
	for i := range t.Shown {
		c.parts = append(c.parts, chatPart{ImageURL: &chatImageURL{httpmodel.DataURL(&t.Shown[i])}, Type: "image_url"})
	}
	if t.Note != "" {
		c.parts = append(c.parts, textPart(t.Note))
	}
	return c
}

// and joins two contents: texts with a blank line.
func (c *chatContent) and(other *chatContent) *chatContent {
	if c.parts == nil && other.parts == nil {
		return textContent(c.text + "\n\n" + other.text)
	}
	return &chatContent{parts: slices.Concat(c.asParts(), other.asParts())}
}

func (c *chatContent) asParts() []chatPart {
	if c.parts == nil {
		return []chatPart{textPart(c.text)}
	}
	return c.parts
}

// The roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

type chatCall struct {
	ID       string           `json:"id"`
	Function chatCallFunction `json:"function"`
	Type     string           `json:"type"`

	kept map[string]json.RawMessage
}

type chatCallFunction struct {
	Arguments string `json:"arguments"`
	Name      string `json:"name"`

	kept map[string]json.RawMessage
}

// MarshalJSON writes the message, then what was kept of it.
func (c *chatMessage) MarshalJSON() ([]byte, error) {
	type plain chatMessage
	return withKept((*plain)(c), c.kept)
}

// MarshalJSON writes the call, then what was kept of it.
func (c chatCall) MarshalJSON() ([]byte, error) {
	type plain chatCall
	return withKept((*plain)(&c), c.kept)
}

// MarshalJSON writes the function, then what was kept of it.
func (c chatCallFunction) MarshalJSON() ([]byte, error) {
	type plain chatCallFunction
	return withKept((*plain)(&c), c.kept)
}

func withKept(value any, kept map[string]json.RawMessage) (json.RawMessage, error) {
	extra := make(map[string]any, len(kept))
	for name, raw := range kept {
		extra[name] = raw
	}
	return httpmodel.Encode(value, extra)
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
	// OpenAI's newer models refuse max_tokens, also at Azure; some others know nothing else.
	if host := m.Base().Hostname(); host == "api.openai.com" || strings.HasSuffix(host, ".azure.com") {
		q.MaxCompletionTokens = m.o.MaxOutputTokens
	} else {
		q.MaxTokens = m.o.MaxOutputTokens
	}
	for _, t := range r.Tools {
		f := chatFunction{Name: n.ToProvider(t.Name), Description: t.Description, Parameters: schemaOf(m.o.ToolSchema(t.Schema))}
		if properties, _ := f.Parameters["properties"].(map[string]any); len(properties) == 0 && m.o.Schema == SchemaPlain {
			delete(f.Parameters, "properties") // Gemini refuses an empty list of them
		}
		q.Tools = append(q.Tools, chatTool{Function: f, Type: "function"})
	}
	return q
}

// maxChatCallID is the longest id of a call that OpenAI's Chat Completions take.
const maxChatCallID = 40

// chatCallID returns the id under which a call and its result are given back. Strict
// servers take nine letters and digits only, as Mistral's own ids are.
func (m *Model) chatCallID(id string) string {
	if m.o.Alternate {
		return httpmodel.ShortCallID(id)
	}
	return httpmodel.CallID(id, maxChatCallID)
}

// chatMessages returns the transcript as messages.
func (m *Model) chatMessages(r *conversation.Request, n *httpmodel.Names) []*chatMessage {
	var list []*chatMessage
	for _, t := range httpmodel.Turns(r, m.Origin()) {
		if t.Role == conversation.RoleUser {
			list = append(list, &chatMessage{Role: roleUser, Content: contentOf(&t)})
			continue
		}
		// One message holds one text; its parts were shown apart, so they stay
		// apart for the model by a blank line.
		var texts []string
		said := &chatMessage{Role: roleAssistant}
		for _, item := range t.Items {
			k := unpackKept(&item)
			said.keep(k.Message)
			if item.Kind == conversation.ItemText {
				texts = append(texts, item.Text)
				continue
			}
			f := chatCallFunction{Name: n.ToProvider(item.Tool), Arguments: item.Args, kept: k.Function}
			said.ToolCalls = append(said.ToolCalls, chatCall{ID: m.chatCallID(item.ID), Function: f, Type: "function", kept: k.Call})
		}
		if len(texts) > 0 {
			said.Content = textContent(strings.Join(texts, "\n\n"))
		}
		list = append(list, said)
		for _, result := range t.Results {
			list = append(list, &chatMessage{Role: roleTool, Content: textContent(result.Whole()), ToolCallID: m.chatCallID(result.ID)})
		}
	}
	if m.o.Alternate {
		list = alternating(list)
	}
	if r.System != "" {
		list = slices.Insert(list, 0, &chatMessage{Role: "system", Content: textContent(r.System)})
	}
	m.giveReasoning(list)
	m.giveSignatures(list)
	for _, name := range m.o.Without {
		if member, is := strings.CutPrefix(name, keptPrefix); is {
			for _, c := range list {
				delete(c.kept, member)
			}
		}
	}
	return list
}

// keep notes members that are given back.
func (c *chatMessage) keep(members map[string]json.RawMessage) {
	if len(members) > 0 && c.kept == nil {
		c.kept = map[string]json.RawMessage{}
	}
	maps.Copy(c.kept, members)
}

// giveReasoning sees to it that every message of the assistant has its reasoning, where
// the provider wants that: some message has it, or Extra switches thinking on.
func (m *Model) giveReasoning(list []*chatMessage) {
	thinking, _ := m.o.Extra["thinking"].(map[string]any)
	wanted := thinking["type"] == "enabled" || slices.ContainsFunc(list, func(c *chatMessage) bool { return c.kept[reasoningMember] != nil })
	for _, c := range list {
		if wanted && c.Role == roleAssistant && c.kept[reasoningMember] == nil {
			c.keep(map[string]json.RawMessage{reasoningMember: noReasoning})
		}
	}
}

// giveSignatures sees to it that the first call of each message has a signature, where the
// model is one of Gemini's: calls that another model made have none, and the request is
// refused without. The text is what Gemini documents for such calls.
func (m *Model) giveSignatures(list []*chatMessage) {
	if !strings.Contains(m.o.Model, "gemini") {
		return
	}
	for _, c := range list {
		if len(c.ToolCalls) > 0 && c.ToolCalls[0].kept == nil {
			c.ToolCalls[0].kept = map[string]json.RawMessage{"extra_content": noSignature}
		}
	}
}

// noSignature stands beside a call that was made elsewhere.
var noSignature = json.RawMessage(`{"google":{"thought_signature":"skip_thought_signature_validator"}}`)

// chatFrame holds the members that are read of a chunk of a Chat Completions stream.
type chatFrame struct {
	ID    string          `json:"id"`
	Usage json.RawMessage `json:"usage"`
	Groq  struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"x_groq"` // where Groq's streams have it
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index        int             `json:"index"`
		FinishReason string          `json:"finish_reason"`
		Delta        json.RawMessage `json:"delta"`
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
	for _, raw := range []json.RawMessage{f.Groq.Usage, f.Usage} {
		if u := usageIn(raw); u != nil {
			a.usage = u
		}
	}
	shown := false
	for _, choice := range f.Choices {
		if choice.Index != 0 {
			continue
		}
		said, err := a.chatDelta(objectIn(choice.Delta))
		if err != nil {
			return false, err
		}
		shown = shown || said
		if choice.FinishReason != "" {
			a.finished = true
			a.reason = choice.FinishReason
		}
	}
	if !shown {
		return false, a.KeepAlive()
	}
	return false, nil
}

// chatDelta takes a piece of the message; shown means that it has words.
func (a *assembly) chatDelta(delta map[string]json.RawMessage) (shown bool, err error) {
	for _, name := range []string{"content", "refusal"} {
		raw := delta[name]
		if isNothing(raw) {
			continue
		}
		texts := textsIn(raw)
		if len(texts) == 0 {
			continue
		}
		a.refused = a.refused || name == "refusal"
		i, _ := a.item(position{positionOfText, 0}, conversation.ItemText)
		if shown = true; raw[0] == '"' {
			err = a.TextPiece(i, raw)
		} else {
			err = a.Text(i, strings.Join(texts, ""))
		}
		if err != nil {
			return shown, err
		}
	}
	for _, call := range elements(delta["tool_calls"]) {
		a.chatCall(objectIn(call))
	}
	a.message.add(delta, &a.keepLeft)
	return shown, nil
}

// chatCall takes a call, or a piece of one.
func (a *assembly) chatCall(call map[string]json.RawMessage) {
	function := objectIn(call["function"])
	id, name, args := stringIn(call["id"]), stringIn(function["name"]), function["arguments"]
	var index *int
	_ = json.Unmarshal(call["index"], &index)
	i := a.chatCallAt(index, id, name, !isNothing(args))
	item := &a.Items[i]
	if item.ID == "" {
		item.ID = id
	}
	if item.Tool == "" || item.Args == "" && name != item.Tool && a.MayBeName(item.Tool+name) {
		item.Tool += name
	}
	if len(args) > 0 && args[0] == '{' {
		item.Args += string(args) // all of them, as an object
	} else {
		a.ArgsPiece(i, args)
	}
	if a.calls[i] == nil {
		a.calls[i] = &keptCall{}
	}
	a.calls[i].call.add(call, &a.keepLeft)
	a.calls[i].function.add(function, &a.keepLeft)
}

// chatCallAt returns the item that a piece of a call belongs to: by its index; without
// one by its id; without both the last call. Some servers number all calls 0 or not at
// all, so a name with an id of its own begins another call, and so does a name
// behind arguments that are whole. An id alone does not: some servers send
// a new one with each piece.
func (a *assembly) chatCallAt(index *int, id, name string, hasArgs bool) int {
	at := -1
	switch {
	case index != nil:
		if i, known := a.at[position{*index, 0}]; known {
			at = i
		}
	case id != "":
		at = slices.IndexFunc(a.Items, func(item conversation.Item) bool { return item.Kind == conversation.ItemCall && item.ID == id })
	default:
		at = a.lastCall
	}
	if at >= 0 && !a.beginsCall(&a.Items[at], id, name, hasArgs) {
		return at
	}
	at = len(a.Items)
	a.Items = append(a.Items, conversation.Item{Kind: conversation.ItemCall})
	if index != nil {
		a.at[position{*index, 0}] = at
	}
	a.lastCall = at
	return at
}

func (a *assembly) beginsCall(item *conversation.Item, id, name string, hasArgs bool) bool {
	switch {
	case name == "":
		return false
	case id != "" && item.ID != "":
		return id != item.ID
	case item.Args == "":
		return name != item.Tool && item.Tool != "" && !a.MayBeName(item.Tool+name) && a.MayBeName(name)
	default:
		return (hasArgs || name != item.Tool) && json.Valid([]byte(item.Args))
	}
}
