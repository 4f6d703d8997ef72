package anthropic

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"parley/conversation"
)

// assembly puts one answer together, from frames or from a whole body.
type assembly struct {
	show    func(conversation.Output) error // nil = no deltas are wanted
	names   *names
	request *conversation.Request
	id      string
	items   []conversation.Item
	at      map[int]int // where a content block stands in items
	usage   usage
	reason  string
}

type usage struct {
	Input   int `json:"input_tokens"`
	Written int `json:"cache_creation_input_tokens"`
	Cached  int `json:"cache_read_input_tokens"`
	Output  int `json:"output_tokens"`
}

func newAssembly(n *names, r *conversation.Request, show func(conversation.Output) error) *assembly {
	return &assembly{show: show, names: n, request: r, at: map[int]int{}}
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
}

// frame is an event of a stream. Only what is read of it.
type frame struct {
	Type    string  `json:"type"`
	Index   int     `json:"index"`
	Message message `json:"message"`
	Block   block   `json:"content_block"`
	Delta   struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage usage     `json:"usage"`
	Error *apiError `json:"error"`
}

// frame takes one event; over means that the answer is whole.
func (a *assembly) frame(name string, data []byte) (over bool, err error) {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return false, a.alive()
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
		a.id, a.usage = f.Message.ID, f.Message.Usage
	case "content_block_start":
		if err := a.start(f.Index, f.Block); err != nil {
			return false, err
		}
	case "content_block_delta":
		i, known := a.at[f.Index]
		switch {
		case !known: // thinking, or a kind of block of later days
		case f.Delta.Type == "text_delta":
			return false, a.text(i, f.Delta.Text)
		case f.Delta.Type == "input_json_delta":
			a.items[i].Args += f.Delta.PartialJSON
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
	return false, a.alive()
}

// merge takes the counts of a later frame, which are cumulative.
func (u *usage) merge(later usage) {
	u.Input = max(u.Input, later.Input)
	u.Written = max(u.Written, later.Written)
	u.Cached = max(u.Cached, later.Cached)
	u.Output = max(u.Output, later.Output)
}

// start makes the item of a content block. Blocks that are neither text nor a
// call of ours are left out.
func (a *assembly) start(index int, b block) error {
	item := conversation.Item{Kind: conversation.ItemText}
	switch b.Type {
	case "text":
	case "tool_use":
		item = conversation.Item{Kind: conversation.ItemCall, ID: b.ID, Tool: b.Name}
		if input := strings.TrimSpace(string(b.Input)); input != "{}" && input != "null" {
			item.Args = input
		}
	default:
		return nil
	}
	a.at[index] = len(a.items)
	a.items = append(a.items, item)
	if b.Type == "text" && b.Text != "" {
		return a.text(a.at[index], b.Text)
	}
	return nil
}

// text takes more text of an item and shows it.
func (a *assembly) text(i int, delta string) error {
	if delta == "" {
		return nil
	}
	item := &a.items[i]
	item.Text += delta
	if a.show == nil {
		return nil
	}
	item.Streamed = true
	return a.show(conversation.Output{Item: i, Delta: delta})
}

// alive says that the provider works on something that is not shown.
func (a *assembly) alive() error {
	if a.show == nil {
		return nil
	}
	return a.show(conversation.Output{Item: max(0, len(a.items)-1)})
}

// whole takes a body.
func (a *assembly) whole(raw []byte) error {
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
	a.id, a.usage, a.reason, a.show = m.ID, m.Usage, m.StopReason, nil
	for i, b := range m.Content {
		if err := a.start(i, b); err != nil {
			return err
		}
	}
	return nil
}

// unmarshal reads JSON. A field of a wrong type is as good as missing.
func unmarshal(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil && !json.Valid(data) {
		return fmt.Errorf("%w: it is not JSON: %w", errCut, err)
	}
	return nil
}

// answer is the whole answer.
func (a *assembly) answer() (*conversation.ModelAnswer, error) {
	if len(a.items) == 0 && a.reason == "refusal" {
		return nil, &conversation.ModelError{Permanent: true, Failure: conversation.Failure{
			Code: conversation.BadRequest, Message: "the model refused to answer",
		}}
	}
	used := map[string]bool{}
	for i := range a.request.Entries {
		for k := range a.request.Entries[i].Items {
			used[a.request.Entries[i].Items[k].ID] = true
		}
	}
	for i := range a.items {
		item := &a.items[i]
		if item.Kind == conversation.ItemText {
			item.ID = strconv.Itoa(i) // blocks of text have no id of their own
			if a.id != "" {
				item.ID = a.id + "." + item.ID
			}
			continue
		}
		item.Tool = a.names.ours(item.Tool)
		if strings.TrimSpace(item.Args) == "" {
			item.Args = "{}"
		}
		// Results are paired by the id, in the whole conversation.
		if item.ID == "" || used[item.ID] {
			item.ID = newCallID()
		}
		used[item.ID] = true
	}
	u := a.usage
	answer := &conversation.ModelAnswer{ResponseID: a.id, Items: a.items, Usage: conversation.Usage{
		InputTokens: u.Input + u.Written + u.Cached, OutputTokens: u.Output,
	}}
	if answer.Usage == (conversation.Usage{}) {
		answer.Usage = estimate(a.request, a.items)
	}
	return answer, nil
}

func newCallID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return "toolu_" + hex.EncodeToString(b[:])
}

// estimate counts for a gateway that does not: four bytes are about a token.
func estimate(r *conversation.Request, items []conversation.Item) conversation.Usage {
	size := func(items []conversation.Item) int {
		n := 0
		for i := range items {
			n += len(items[i].Text) + len(items[i].Args)
		}
		return n
	}
	in := len(r.System)
	for i := range r.Entries {
		in += len(r.Entries[i].Text) + size(r.Entries[i].Items)
	}
	return conversation.Usage{InputTokens: (in + 3) / 4, OutputTokens: (size(items) + 3) / 4, Estimated: true}
}
