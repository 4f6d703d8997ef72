package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// assembly puts one answer together, from frames or from a whole body.
type assembly struct {
	httpmodel.Assembly
	at       map[int]int // where a content block stands in Items
	usage    usage
	reason   string
	thinking []thought // the blocks of thinking before the next item
	prefix   string    // what they are bound to
}

type usage struct {
	Input   int `json:"input_tokens"`
	Written int `json:"cache_creation_input_tokens"`
	Cached  int `json:"cache_read_input_tokens"`
	Output  int `json:"output_tokens"`
}

func newAssembly(n *httpmodel.Names, r *conversation.Request, show func(conversation.Output) error) *assembly {
	return &assembly{Assembly: httpmodel.NewAssembly(r, n, show), at: map[int]int{}}
}

// message is a message of the API, whole or in its first frame.
type message struct {
	ID         string    `json:"id"`
	Type       string    `json:"type"`
	Content    []block   `json:"content"`
	StopReason string    `json:"stop_reason"`
	Usage      usage     `json:"usage"`
	Error      *apiError `json:"error"`
}

// block is a content block, whole or in its first frame.
type block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`

	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
	Data      string `json:"data"`
}

// frame holds the members that are read of an event of a stream.
type frame struct {
	Type    string  `json:"type"`
	Index   int     `json:"index"`
	Message message `json:"message"`
	Block   block   `json:"content_block"`
	Delta   struct {
		Type        string          `json:"type"`
		Text        json.RawMessage `json:"text"`
		PartialJSON json.RawMessage `json:"partial_json"`
		StopReason  string          `json:"stop_reason"`
		Thinking    json.RawMessage `json:"thinking"`
		Signature   string          `json:"signature"`
	} `json:"delta"`
	Usage usage     `json:"usage"`
	Error *apiError `json:"error"`
}

// frame takes one event; over means that the answer is whole.
func (a *assembly) frame(name string, data []byte) (over bool, err error) {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return false, a.KeepAlive()
	}
	var f frame
	if err := unmarshal(data, &f); err != nil {
		return false, err
	}
	if f.Type == "" {
		f.Type = name
	}
	switch f.Type {
	case "message_start":
		a.ID, a.usage = f.Message.ID, f.Message.Usage
	case "content_block_start":
		if err := a.startBlock(f.Index, f.Block); err != nil {
			return false, err
		}
	case "content_block_delta":
		i, known := a.at[f.Index]
		switch {
		case !known: // thinking, or a kind of block of later days
			if n := len(a.thinking); n > 0 && a.thinking[n-1].index == f.Index {
				a.thinking[n-1].Thinking += a.thinking[n-1].pieces.Next(f.Delta.Thinking)
				a.thinking[n-1].Signature += f.Delta.Signature
			}
		case f.Delta.Type == "text_delta":
			return false, a.TextPiece(i, f.Delta.Text)
		case f.Delta.Type == "input_json_delta":
			a.ArgsPiece(i, f.Delta.PartialJSON)
		}
	case "message_delta":
		a.usage.merge(f.Usage)
		if f.Delta.StopReason != "" {
			a.reason = f.Delta.StopReason
		}
	case "message_stop":
		return true, nil
	case "error":
		if f.Error == nil {
			f.Error = &apiError{Type: "api_error"}
		}
		return false, f.Error
	}
	return false, a.KeepAlive()
}

// merge adds the counts of a later frame. They are cumulative, so the larger ones hold.
func (u *usage) merge(later usage) {
	u.Input = max(u.Input, later.Input)
	u.Written = max(u.Written, later.Written)
	u.Cached = max(u.Cached, later.Cached)
	u.Output = max(u.Output, later.Output)
}

// startBlock makes the item of a content block. Thinking is kept for the item that
// follows it; other blocks that are neither text nor a call of ours are left out.
func (a *assembly) startBlock(index int, b block) error {
	item := conversation.Item{Kind: conversation.ItemText}
	switch b.Type {
	case "text":
	case "tool_use":
		item = conversation.Item{Kind: conversation.ItemCall, ID: b.ID, Tool: b.Name}
		if input := strings.TrimSpace(string(b.Input)); input != "{}" && input != "null" {
			item.Args = input
		}
	case "thinking", "redacted_thinking":
		a.thinking = append(a.thinking, thought{Type: b.Type, Thinking: b.Thinking, Signature: b.Signature, Data: b.Data, Prefix: a.prefix, index: index})
		return nil
	default:
		return nil
	}
	// The API would refuse thinking that is not signed.
	a.thinking = slices.DeleteFunc(a.thinking, func(t thought) bool { return t.Signature == "" && t.Data == "" })
	item.Opaque, a.thinking = httpmodel.Pack(a.thinking), nil
	a.at[index] = len(a.Items)
	a.Items = append(a.Items, item)
	if b.Type == "text" && b.Text != "" {
		return a.Text(a.at[index], b.Text)
	}
	return nil
}

// readBody reads a whole body.
func (a *assembly) readBody(raw []byte) error {
	var m message
	if err := unmarshal(raw, &m); err != nil {
		return err
	}
	if m.Type == "error" || m.Error != nil {
		if m.Error == nil {
			m.Error = &apiError{Type: "api_error"}
		}
		return m.Error
	}
	if m.Type != "message" {
		return fmt.Errorf("the body is a %q, not a message", m.Type)
	}
	a.StopStreaming()
	a.ID, a.usage, a.reason = m.ID, m.Usage, m.StopReason
	for i, b := range m.Content {
		if err := a.startBlock(i, b); err != nil {
			return err
		}
	}
	return nil
}

// unmarshal reads JSON. A field of a wrong type is as good as missing.
func unmarshal(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil && !json.Valid(data) {
		return fmt.Errorf("%w: it is not JSON: %w", httpmodel.ErrCut, err)
	}
	return nil
}

// answer returns the whole answer.
func (a *assembly) answer() (*conversation.ModelAnswer, error) {
	if len(a.Items) == 0 && a.reason == "refusal" {
		return nil, &conversation.ModelError{Permanent: true, Failure: conversation.Failure{
			Code: conversation.Forbidden, Message: "the model refused to answer",
		}}
	}
	for i := range a.Items {
		if item := &a.Items[i]; item.Kind == conversation.ItemText {
			item.ID = strconv.Itoa(i) // blocks of text have no id of their own
			if a.ID != "" {
				item.ID = a.ID + "." + item.ID
			}
		}
	}
	u := a.usage
	counted := &conversation.Usage{InputTokens: u.Input + u.Written + u.Cached, OutputTokens: u.Output, CachedTokens: u.Cached}
	if *counted == (conversation.Usage{}) {
		counted = nil
	}
	answer, err := a.Answer("toolu_", counted)
	if err != nil {
		return nil, err
	}
	switch a.reason {
	case "max_tokens", "model_context_window_exceeded":
		answer.Stop = conversation.StopLength
	case "refusal":
		answer.Stop = conversation.StopFiltered
	}
	return answer, nil
}
