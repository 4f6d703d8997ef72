package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"parley/conversation"
)

// turn is what one side says: a user's text, or an assistant's items with a
// result for each call among them.
type turn struct {
	role    conversation.Role // RoleUser or RoleAssistant
	text    string
	items   []conversation.Item
	results []result
}

type result struct{ id, text string }

// noResult stands for a result that the transcript does not have: providers
// refuse a call without one.
const noResult = "no result"

// turns are the entries as the wire formats want them: each call followed by
// its result, no blank texts, and a result whose call is gone as plain words.
func turns(entries []conversation.Entry) []turn {
	var list []turn
	for i := 0; i < len(entries); i++ {
		e := &entries[i]
		switch e.Role {
		case conversation.RoleUser:
			if strings.TrimSpace(e.Text) != "" {
				list = append(list, turn{role: conversation.RoleUser, text: e.Text})
			}
		case conversation.RoleAssistant:
			t := turn{role: conversation.RoleAssistant}
			for _, item := range e.Items {
				switch {
				case item.Kind == conversation.ItemCall:
					if !json.Valid([]byte(item.Args)) {
						item.Args = "{}" // the result says what was wrong with them
					}
					t.items = append(t.items, item)
					t.results = append(t.results, result{id: item.ID, text: noResult})
				case strings.TrimSpace(item.Text) != "":
					t.items = append(t.items, item)
				}
			}
			var strays []turn
			for ; i+1 < len(entries) && entries[i+1].Role == conversation.RoleTool; i++ {
				if stray := t.pair(&entries[i+1]); stray != nil {
					strays = append(strays, *stray)
				}
			}
			if len(t.items) > 0 {
				list = append(list, t)
			}
			list = append(list, strays...)
		case conversation.RoleTool:
			list = append(list, *stray(e))
		}
	}
	return list
}

// pair puts a result at its call. It returns it if there is no such call.
func (t *turn) pair(e *conversation.Entry) *turn {
	for i := range t.results {
		if t.results[i].id == e.CallID {
			t.results[i].text = e.Text
			if strings.TrimSpace(e.Text) == "" {
				t.results[i].text = "(no output)"
			}
			return nil
		}
	}
	return stray(e)
}

func stray(e *conversation.Entry) *turn {
	return &turn{role: conversation.RoleUser, text: fmt.Sprintf("[result of call %s: %s]", e.CallID, e.Text)}
}

// givenBack is true for the id of a message that is the provider's own. Agents
// change models within a conversation, and OpenAI refuses other ids.
func givenBack(id string) bool { return strings.HasPrefix(id, "msg") && sane(id, maxCallID) }

// callID is the id under which a call and its result are given back: the
// provider's own, or one made from it where another provider's would be refused.
func callID(id string, limit int) string {
	if sane(id, limit) {
		return id
	}
	return "call_" + digest(id)
}

func sane(name string, limit int) bool {
	return name != "" && len(name) <= limit && !strings.ContainsFunc(name, notWord)
}

func notWord(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// names translates tool names, which may be anything, to what providers take.
type names struct{ back map[string]string }

// maxToolName is the longest name of a function that the provider takes.
const maxToolName = 64

func newNames(r *conversation.Request) *names {
	n := &names{}
	for i := range r.Tools {
		n.theirs(r.Tools[i].Name)
	}
	return n
}

func (n *names) theirs(name string) string {
	if sane(name, maxToolName) {
		return name
	}
	plain := strings.Map(func(c rune) rune {
		if notWord(c) {
			return '_'
		}
		return c
	}, name)
	// The digest keeps two names apart that differ only in what was replaced.
	plain = plain[:min(len(plain), maxToolName-9)] + "_" + digest(name)[:8]
	if n.back == nil {
		n.back = map[string]string{}
	}
	n.back[plain] = name
	return plain
}

func (n *names) ours(name string) string {
	if original, changed := n.back[name]; changed {
		return original
	}
	return name
}

// schemaOf is a tool's schema as providers want it: an object with properties,
// even if there are none.
func schemaOf(raw json.RawMessage) map[string]any {
	schema := map[string]any{}
	_ = json.Unmarshal(raw, &schema)
	if schema == nil {
		schema = map[string]any{}
	}
	if _, has := schema["type"]; !has {
		schema["type"] = "object"
	}
	if _, has := schema["properties"]; !has {
		schema["properties"] = map[string]any{}
	}
	return schema
}
