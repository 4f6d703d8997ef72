package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// What Chat Completions servers put beside the words and the calls of an answer, such as
// reasoning and signatures, is kept unread and given back beside the same: many refuse
// the next step without it. The rule knows no vendors. Kept is each member of the
// message, of a call and of its function that has something in it, but for
//
//   - what is read and written by this package: readMembers;
//   - what says nothing in a request, or is refused in one: uselessMembers;
//   - what the option Without names as "messages.NAME".
//
// In a stream strings are appended, and lists and objects merged (merge). A member
// that would make more than maxKept bytes of an answer is left out whole: half of it
// would be wrong. It goes back to the same model at the same address only, but in
// all tasks: servers refuse earlier messages without it, and cache by prefix.

// maxKept bounds what is kept of an answer, in bytes.
const maxKept = 1 << 20

var (
	readMembers    = []string{"role", "content", "tool_calls", "refusal", "id", "type", "function", "arguments", "name"}
	uselessMembers = []string{"index", "annotations", "audio", "function_call", "tool_call_id"}
)

// reasoningMember is where DeepSeek, Kimi and others want the reasoning back. Those want
// it in every message of the assistant once there is any, also where a model
// had none, or another model has spoken.
const reasoningMember = "reasoning_content"

// noReasoning stands where there is none: an empty string is refused.
var noReasoning = json.RawMessage(`" "`)

// keptPrefix begins what Without says of members that are kept.
const keptPrefix = "messages."

// kept is what an item's Opaque holds. Message is that of the whole message; it is
// with the first item that is given back.
type kept struct {
	Message  map[string]json.RawMessage `json:"message,omitempty"`
	Call     map[string]json.RawMessage `json:"call,omitempty"`
	Function map[string]json.RawMessage `json:"function,omitempty"`
}

func unpackKept(item *conversation.Item) kept {
	var k kept
	_ = json.Unmarshal([]byte(item.Opaque), &k) // "" is none
	return k
}

// put writes it into an item.
func (k kept) put(item *conversation.Item) {
	if len(k.Message)+len(k.Call)+len(k.Function) == 0 {
		return
	}
	if raw, err := json.Marshal(k); err == nil {
		item.Opaque, item.OpaqueStays = string(raw), true
	}
}

// members are those that are kept of one object, as far as they have come.
type members struct {
	values map[string]any // nil: it became too much
	pieces map[string]*httpmodel.Pieces
}

// objectIn reads an object without its members.
func objectIn(raw json.RawMessage) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(raw, &object)
	return object
}

// add takes what is to be kept of an object, or of a piece of it. left is what is left
// of maxKept.
func (m *members) add(object map[string]json.RawMessage, left *int) {
	for name, raw := range object {
		if slices.Contains(readMembers, name) || slices.Contains(uselessMembers, name) || isNothing(raw) {
			continue
		}
		if m.values == nil {
			m.values, m.pieces = map[string]any{}, map[string]*httpmodel.Pieces{}
		}
		old, there := m.values[name]
		if there && old == nil {
			continue // too much already
		}
		if *left -= len(raw); *left < 0 {
			*left += len(raw)
			m.values[name] = nil
			continue
		}
		if raw[0] != '"' {
			var value any
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber()
			if d.Decode(&value) == nil {
				m.values[name] = merge(name, old, value)
			}
			continue
		}
		if m.pieces[name] == nil {
			m.pieces[name] = &httpmodel.Pieces{}
		}
		m.values[name] = merge(name, old, m.pieces[name].Next(raw))
	}
}

func isNothing(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "[]", "{}":
		return true
	default:
		return false
	}
}

// raw returns what was kept, as JSON; nil = nothing.
func (m *members) raw() map[string]json.RawMessage {
	var list map[string]json.RawMessage
	for name, value := range m.values {
		if value == nil {
			continue
		}
		if p := m.pieces[name]; p != nil {
			if rest := p.Rest(); rest != "" {
				value = merge(name, value, rest)
			}
		}
		raw, err := json.Marshal(value)
		if err != nil {
			continue
		}
		if list == nil {
			list = map[string]json.RawMessage{}
		}
		list[name] = raw
	}
	return list
}

// growing is a string that pieces are appended to.
type growing struct{ text []byte }

// MarshalJSON writes the string.
func (g *growing) MarshalJSON() ([]byte, error) { return json.Marshal(string(g.text)) }

// labels are members that each piece of a list's element repeats, to say which one it
// goes on with.
var labels = []string{"id", "type", "format", "index", "name", "role"}

// merge adds a piece of a member to what has come of it.
func merge(name string, old, piece any) any {
	switch p := piece.(type) {
	case nil:
		return old
	case string:
		g, growsOn := old.(*growing)
		switch {
		case !growsOn:
			return &growing{[]byte(p)}
		case slices.Contains(labels, name):
			if p != "" {
				g.text = []byte(p)
			}
		case len(p) == len(g.text) && len(p) > repeated && string(g.text) == p:
		default:
			g.text = append(g.text, p...)
		}
		return g
	case map[string]any:
		object, is := old.(map[string]any)
		if !is {
			object = make(map[string]any, len(p))
		}
		for key, value := range p {
			object[key] = merge(key, object[key], value)
		}
		return object
	case []any:
		list, _ := old.([]any)
		for _, element := range p {
			list = mergeElement(list, element)
		}
		return list
	default:
		return piece
	}
}

// repeated is the least length of a whole string that is taken for a repetition of what
// came before, not for more of it: some servers send a signature with each piece.
const repeated = 32

// maxGrowing is how many elements of a list, from its end, may still grow. A look at all of
// them for each piece would take minutes in a list of a megabyte.
const maxGrowing = 64

// mergeElement adds an element of a list, or a piece of one that is there.
func mergeElement(list []any, element any) []any {
	piece, is := element.(map[string]any)
	if !is {
		return append(list, element)
	}
	for i := len(list) - 1; i >= max(0, len(list)-maxGrowing); i-- {
		if whole, is := list[i].(map[string]any); is && goesOn(whole, piece, i == len(list)-1) {
			list[i] = merge("", whole, piece)
			return list
		}
	}
	return append(list, merge("", nil, piece))
}

// goesOn reports whether piece is more of an element: of the same index, type and id,
// and of the last one if they have no index. What is encrypted comes whole, so
// a second "data" is another element.
func goesOn(whole, piece map[string]any, last bool) bool {
	same := func(name string) bool {
		a, inWhole := whole[name]
		b, inPiece := piece[name]
		return !inWhole || !inPiece || label(a) == label(b)
	}
	_, indexed := piece["index"]
	_, wasIndexed := whole["index"]
	_, data := piece["data"]
	_, hadData := whole["data"]
	return indexed == wasIndexed && (indexed || last) && same("index") && same("type") && same("id") && !(data && hadData)
}

// label is a label as text.
func label(value any) string {
	switch v := value.(type) {
	case *growing:
		return string(v.text)
	case string:
		return v
	case json.Number:
		return v.String()
	default:
		return ""
	}
}

// keepMessage puts what was kept of the message into the first item that is given back:
// blank words are not.
func keepMessage(items []conversation.Item, message map[string]json.RawMessage) {
	for i := range items {
		if items[i].Kind == conversation.ItemCall || !conversation.IsBlank(items[i].Text) {
			k := unpackKept(&items[i])
			k.Message = message
			k.put(&items[i])
			return
		}
	}
}
