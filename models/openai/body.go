package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// Body is the content of an answer's body. Items are in the order of the body; ids are
// the provider's, "" where it gave none.
type Body struct {
	ID    string
	Items []conversation.Item
	Usage *conversation.Usage // nil = the provider did not count

	positions []position
	reasoning []json.RawMessage // reasoning that stands before the next item
	reason    string            // how it ended, in the provider's word
	refused   bool              // it has words of a refusal
	err       *apiError
}

// Texts returns the parts of the answer (M-02).
func (b Body) Texts() []string {
	var texts []string
	for _, item := range b.Items {
		if item.Kind == conversation.ItemText {
			texts = append(texts, item.Text)
		}
	}
	return texts
}

// Calls returns the calls of the answer (M-02).
func (b Body) Calls() []conversation.Item {
	var calls []conversation.Item
	for _, item := range b.Items {
		if item.Kind == conversation.ItemCall {
			calls = append(calls, item)
		}
	}
	return calls
}

// position is the place of an item: which output item, and which block of it.
type position struct{ output, block int }

// The kinds of places that are no output item of a Responses body.
const (
	positionOfText     = -1 // the one text of a chat message
	positionOfFallback = -2 // found by a fallback
)

// wireBody is everything that is looked at in a body. All of it is raw: one
// field of a wrong type must not hide the others.
type wireBody struct {
	ID                json.RawMessage `json:"id"`
	Status            json.RawMessage `json:"status"`
	Output            json.RawMessage `json:"output"`
	OutputText        json.RawMessage `json:"output_text"`
	Text              json.RawMessage `json:"text"`
	Content           json.RawMessage `json:"content"`
	Choices           json.RawMessage `json:"choices"`
	Usage             json.RawMessage `json:"usage"`
	Error             json.RawMessage `json:"error"`
	IncompleteDetails json.RawMessage `json:"incomplete_details"`
}

// ParseBody reads the body of an answer, whatever it looks like. It is a pure
// function and fails on nothing:
//
//   - output[]: each text block is a part, each function call a call, in order;
//   - choices[0].message, as Chat Completions has it;
//   - else output_text, text or content, the first that says something: one part;
//   - a body that is not JSON is one part of plain text.
func ParseBody(raw []byte) Body {
	raw = bytes.TrimSpace(raw)
	b := Body{}
	if len(raw) == 0 {
		return b
	}
	if !json.Valid(raw) {
		b.add(position{positionOfFallback, 0}, conversation.Item{Kind: conversation.ItemText, Text: strings.ToValidUTF8(string(raw), "\uFFFD")})
		return b
	}
	if raw[0] != '{' {
		b.readOutput(raw) // an output without its envelope, or a bare string
		return b
	}
	var in wireBody
	_ = json.Unmarshal(raw, &in)
	b.ID = stringIn(in.ID)
	b.Usage = usageIn(in.Usage)
	b.reason = reasonIn(in.Status, in.IncompleteDetails)
	b.err = errorInFrame(in.Error)
	b.readOutput(in.Output)
	if len(b.Items) == 0 {
		b.readChoices(in.Choices)
	}
	for _, fallback := range []json.RawMessage{in.OutputText, in.Text, in.Content} {
		if len(b.Items) > 0 {
			break
		}
		if text := strings.Join(textsIn(fallback), ""); strings.TrimSpace(text) != "" {
			b.add(position{positionOfFallback, 0}, conversation.Item{Kind: conversation.ItemText, Text: text})
		}
	}
	return b
}

func (b *Body) add(at position, item conversation.Item) {
	item.Opaque, b.reasoning = httpmodel.Pack(b.reasoning), nil
	b.Items = append(b.Items, item)
	b.positions = append(b.positions, at)
}

// wireItem is an output item, or a block of one.
type wireItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	Text      json.RawMessage `json:"text"`
	Refusal   json.RawMessage `json:"refusal"`
	Content   json.RawMessage `json:"content"`
	Encrypted string          `json:"encrypted_content"`
	Function  *struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

func (b *Body) readOutput(raw json.RawMessage) {
	for i, element := range elements(raw) {
		if text := stringIn(element); text != "" {
			b.add(position{i, 0}, conversation.Item{Kind: conversation.ItemText, Text: text})
			continue
		}
		var in wireItem
		_ = json.Unmarshal(element, &in)
		if call, is := in.call(); is {
			b.add(position{i, 0}, call)
			continue
		}
		if in.Type == "reasoning" && in.Encrypted != "" {
			b.reasoning = append(b.reasoning, element) // to be given back as it is
			continue
		}
		if !in.isMessage() {
			continue // reasoning that is kept nowhere, a search of the provider's own, an echo of the user
		}
		if in.Type == itemMessage {
			b.reasoning = append(b.reasoning, ofMessage(element)...)
		}
		blocks := elements(in.Content)
		if len(blocks) == 0 {
			blocks = []json.RawMessage{element}
		}
		for k, block := range blocks {
			text := stringIn(block)
			var part wireItem
			if text == "" {
				_ = json.Unmarshal(block, &part)
				if call, is := part.call(); is {
					b.add(position{i, k}, call)
					continue
				}
				if !part.isText() && len(in.Content) > 0 {
					continue
				}
				text = strings.Join(textsIn(part.Text), "") + stringIn(part.Refusal)
				b.refused = b.refused || part.Type == "refusal"
			}
			if text != "" {
				b.add(position{i, k}, conversation.Item{Kind: conversation.ItemText, ID: in.ID, Text: text})
			}
		}
	}
}

// itemMessage is the type of an item that holds words.
const itemMessage = "message"

// ofMessage returns what is kept of a message beside its words, as an item without any:
// OpenAI's newer models stop too early where phase ("commentary") is not given back.
func ofMessage(element json.RawMessage) []json.RawMessage {
	left := maxKept
	var m members
	m.add(objectIn(element), &left)
	list := m.raw()
	if delete(list, "status"); len(list) == 0 {
		return nil
	}
	list["type"] = json.RawMessage(`"` + itemMessage + `"`)
	raw, err := json.Marshal(list)
	if err != nil {
		return nil // not possible: it came from JSON
	}
	return []json.RawMessage{raw}
}

// isMessage reports whether an output item holds words of the assistant.
func (in *wireItem) isMessage() bool {
	switch in.Type {
	case "", itemMessage, "output_message", "output_text", "text", "refusal":
		return in.Role == "" || in.Role == "assistant"
	default:
		return false
	}
}

// isText reports whether a block holds text.
func (in *wireItem) isText() bool {
	switch in.Type {
	case "", "output_text", "text", "refusal":
		return true
	default:
		return false
	}
}

// call reads a call in any of the shapes that are about.
func (in *wireItem) call() (conversation.Item, bool) {
	switch in.Type {
	case "function_call", "tool_call", "tool_use", "function":
	default:
		if in.Function == nil {
			return conversation.Item{}, false
		}
	}
	item := conversation.Item{Kind: conversation.ItemCall, ID: in.CallID, Tool: in.Name}
	if item.ID == "" {
		item.ID = in.ID
	}
	raw := in.Arguments
	if len(raw) == 0 {
		raw = in.Input
	}
	if in.Function != nil {
		item.Tool, raw = in.Function.Name, in.Function.Arguments
	}
	item.Args = argsIn(raw)
	return item, item.Tool != ""
}

// readChoices reads a body of Chat Completions.
func (b *Body) readChoices(raw json.RawMessage) {
	choices := elements(raw)
	if len(choices) == 0 {
		return
	}
	var choice struct {
		FinishReason string          `json:"finish_reason"`
		Text         json.RawMessage `json:"text"`
		Message      json.RawMessage `json:"message"`
	}
	_ = json.Unmarshal(choices[0], &choice)
	b.reason = choice.FinishReason
	message := objectIn(choice.Message)
	texts := textsIn(message["content"])
	if len(texts) == 0 {
		refusal := textsIn(message["refusal"])
		b.refused = len(refusal) > 0
		texts = append(refusal, textsIn(choice.Text)...)
	}
	for k, text := range texts {
		b.add(position{positionOfText, k}, conversation.Item{Kind: conversation.ItemText, Text: text})
	}
	left := maxKept
	for i, element := range elements(message["tool_calls"]) {
		var in wireItem
		_ = json.Unmarshal(element, &in)
		if call, is := in.call(); is {
			var ofCall, ofFunction members
			object := objectIn(element)
			ofCall.add(object, &left)
			ofFunction.add(objectIn(object["function"]), &left)
			b.add(position{i, 0}, call)
			kept{Call: ofCall.raw(), Function: ofFunction.raw()}.put(&b.Items[len(b.Items)-1])
		}
	}
	var ofMessage members
	ofMessage.add(message, &left)
	if members := ofMessage.raw(); members != nil {
		keepMessage(b.Items, members)
	}
}

// elements returns the elements of an array; anything else is an array of one.
func elements(raw json.RawMessage) []json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	if raw[0] != '[' {
		return []json.RawMessage{raw}
	}
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list)
	return list
}

func stringIn(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// textsIn reads text in any shape: a string, {"value": "…"}, or an array of
// strings and blocks.
func textsIn(raw json.RawMessage) []string {
	var texts []string
	for _, element := range elements(raw) {
		text := stringIn(element)
		if text == "" && len(element) > 0 && element[0] == '{' {
			var block struct {
				Type  string          `json:"type"`
				Text  json.RawMessage `json:"text"`
				Value string          `json:"value"`
			}
			_ = json.Unmarshal(element, &block)
			if part := (wireItem{Type: block.Type}); !part.isText() {
				continue
			}
			if text = block.Value; text == "" {
				text = stringIn(block.Text)
			}
			if text == "" && len(block.Text) > 0 && block.Text[0] == '{' {
				var nested struct {
					Value string `json:"value"`
				}
				_ = json.Unmarshal(block.Text, &nested)
				text = nested.Value
			}
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// argsIn reads arguments: a string of JSON, or the JSON itself.
func argsIn(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '"' {
		raw = json.RawMessage(stringIn(raw))
	}
	if args := strings.TrimSpace(string(raw)); args != "" && args != "null" {
		return args
	}
	return "{}"
}

func usageIn(raw json.RawMessage) *conversation.Usage {
	type details struct {
		Cached int `json:"cached_tokens"`
	}
	var in struct {
		Input      int     `json:"input_tokens"`
		Output     int     `json:"output_tokens"`
		Prompt     int     `json:"prompt_tokens"`
		Completion int     `json:"completion_tokens"`
		OfInput    details `json:"input_tokens_details"`
		OfPrompt   details `json:"prompt_tokens_details"`
		Hit        int     `json:"prompt_cache_hit_tokens"` // DeepSeek
		details            // Kimi
	}
	_ = json.Unmarshal(raw, &in)
	u := &conversation.Usage{InputTokens: max(in.Input, in.Prompt, 0), OutputTokens: max(in.Output, in.Completion, 0)}
	u.CachedTokens = min(max(in.OfInput.Cached, in.OfPrompt.Cached, in.Hit, in.Cached, 0), u.InputTokens)
	if u.InputTokens == 0 && u.OutputTokens == 0 {
		return nil
	}
	return u
}

// reasonIn is why a Responses body is not the whole answer.
func reasonIn(status, details json.RawMessage) string {
	switch stringIn(status) {
	case "incomplete":
		var in struct {
			Reason string `json:"reason"`
		}
		_ = json.Unmarshal(details, &in)
		return in.Reason
	case "failed", "cancelled":
		return "error"
	default:
		return ""
	}
}

func errorInFrame(raw json.RawMessage) *apiError {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	apiErr := &apiError{}
	if json.Unmarshal(raw, apiErr) != nil && apiErr.Message == "" {
		apiErr.Message = stringIn(raw)
	}
	return apiErr
}

// truncatedJSON reports whether raw is JSON that ends in the middle: the sign of a lost
// connection, not of another format.
func truncatedJSON(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return false
	}
	var v json.RawMessage
	return errors.Is(json.NewDecoder(bytes.NewReader(raw)).Decode(&v), io.ErrUnexpectedEOF)
}
