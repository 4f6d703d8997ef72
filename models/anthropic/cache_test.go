package anthropic

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

// Where the marks stand: behind what the next request shows again, never on thinking, and
// never on the note or inside of a result.
func TestMarks(t *testing.T) {
	user := func(text string) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleUser, Task: "t1-s1", Text: text}
	}
	answer := func(items ...conversation.Item) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", Items: items}
	}
	result := func(id string) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleTool, Task: "t1-s1", CallID: id, Text: "found"}
	}
	call := func(id string) conversation.Item {
		return conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: "f", Args: "{}"}
	}
	said := func(text string) conversation.Item { return conversation.Item{Kind: conversation.ItemText, Text: text} }
	m, asked := serve(t, "application/json", empty, DefaultOptions())
	thinks := said("so")
	thinks.Opaque, thinks.OpaqueBy = `[{"type":"thinking","thinking":"hm","signature":"c2ln"}]`, m.Origin()
	tools := []conversation.ToolSpec{{Name: "e"}, {Name: "f"}}
	many := []conversation.Entry{user("go"), answer(call("a")), result("a"), answer()}
	for i := range 15 {
		many[3].Items = append(many[3].Items, call(fmt.Sprint("b", i)))
		many = append(many, result(fmt.Sprint("b", i)))
	}
	const step = 2
	for name, c := range map[string]struct {
		r    conversation.Request
		want string
	}{
		"a message":                   {conversation.Request{Step: step, System: "s", Tools: tools, Entries: []conversation.Entry{user("go")}}, "f, prompt, 0.0 text go"},
		"no prompt and no tools":      {conversation.Request{Step: step, Entries: []conversation.Entry{user("go")}}, "0.0 text go"},
		"a note behind messages":      {conversation.Request{Step: step, Entries: []conversation.Entry{user("go"), user("and")}, Note: "note"}, "0.1 text and"},
		"a result":                    {conversation.Request{Step: step, Entries: []conversation.Entry{user("go"), answer(call("a")), result("a")}}, "f, 0.0 text go, 2.0 tool_result a"},
		"a note in a result":          {conversation.Request{Step: step, Entries: []conversation.Entry{user("go"), answer(call("a")), result("a")}, Note: "note"}, "f, 0.0 text go, 1.0 tool_use a"},
		"a note in the second result": {conversation.Request{Step: step, Entries: []conversation.Entry{user("go"), answer(call("a"), call("b")), result("a"), result("b")}, Note: "note"}, "f, 0.0 text go, 2.0 tool_result a"},
		"a message behind a result":   {conversation.Request{Step: step, Entries: []conversation.Entry{user("go"), answer(call("a")), result("a"), user("more")}, Note: "note"}, "f, 0.0 text go, 2.1 text more"},
		"a step of many calls":        {conversation.Request{Step: step, Entries: many}, "f, 2.0 tool_result a, 4.14 tool_result b14"},
		"thinking": {conversation.Request{Step: step, Task: "t1-s1", Entries: []conversation.Entry{user("go"), answer(thinks, call("a")), result("a")}, Note: "note"},
			"f, 0.0 text go, 1.2 tool_use a"},
		"nothing of the user at the end": {conversation.Request{Step: step, Entries: []conversation.Entry{user("go"), answer(said("done"))}}, "0.0 text go, 1.0 text done"},
		"nothing at all":                 {conversation.Request{Step: step, System: "s"}, "prompt"},
		"a wrap-up":                      {conversation.Request{Step: step, System: "s", WrapUp: true, Forbidden: tools, Entries: []conversation.Entry{user("go")}}, "f, prompt"},
		"calls alone":                    {conversation.Request{Step: step, System: "s", MustCall: true, Tools: tools, Entries: []conversation.Entry{user("go")}}, "f, prompt"},
		"beside the steps":               {conversation.Request{System: "s", Tools: tools, Entries: []conversation.Entry{user("go")}}, ""},
	} {
		if _, _, err := modelstest.Collect(t.Context(), m, c.r); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(marked(*asked), ", "); got != c.want {
			t.Errorf("%s: the marks are on %s, want %s", name, got, c.want)
		}
	}
	off := DefaultOptions()
	off.Cache = false
	m, asked = serve(t, "application/json", empty, off)
	r := conversation.Request{Step: step, System: "s", Tools: tools, Entries: []conversation.Entry{user("go")}}
	if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil || marked(*asked) != nil {
		t.Errorf("cache = false: %v, %v", marked(*asked), err)
	}
	own := DefaultOptions()
	own.Extra = map[string]any{"cache_control": map[string]any{"type": "ephemeral"}}
	m, asked = serve(t, "application/json", empty, own)
	if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil || marked(*asked) != nil || (*asked)["cache_control"] == nil {
		t.Errorf("a mark in extra, of which there may be four with ours: %v, %v", marked(*asked), err)
	}
	long := DefaultOptions()
	long.CacheTTL = "1h"
	m, asked = serve(t, "application/json", empty, long)
	if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil || !slices.Equal(marked(*asked), []string{"f 1h", "prompt 1h", "0.0 text go 1h"}) {
		t.Errorf("cache_ttl = 1h: %v, %v", marked(*asked), err)
	}
}

// A wrap-up describes the same tools as the steps before, which are in the provider's
// cache, and forbids them.
func TestWrapUpKeepsTheTools(t *testing.T) {
	m, asked := serve(t, "application/json", empty, Options{})
	r := modelstest.FullRequest("")
	if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint((*asked)["tools"])
	r.WrapUp, r.Tools, r.Forbidden = true, nil, r.Tools
	if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprint((*asked)["tools"]); after != before || (*asked)["tool_choice"].(map[string]any)["type"] != "none" {
		t.Errorf("the tools were %s and are %s, %v", before, after, (*asked)["tool_choice"])
	}
}

// marked says which blocks of a body are marked for the cache.
func marked(body map[string]any) (list []string) {
	ttl := func(block map[string]any) (name string, is bool) {
		mark, is := block["cache_control"].(map[string]any)
		if kept, has := mark["ttl"]; has {
			return fmt.Sprint(" ", kept), is
		}
		return "", is
	}
	tools, _ := body["tools"].([]any)
	for _, v := range tools {
		if kept, is := ttl(v.(map[string]any)); is {
			list = append(list, v.(map[string]any)["name"].(string)+kept)
		}
	}
	system, _ := body["system"].([]any)
	for _, v := range system {
		if kept, is := ttl(v.(map[string]any)); is {
			list = append(list, "prompt"+kept)
		}
	}
	for i, v := range body["messages"].([]any) {
		for k, v := range v.(map[string]any)["content"].([]any) {
			block := v.(map[string]any)
			if kept, is := ttl(block); is {
				name := fmt.Sprintf("%d.%d %s", i, k, block["type"])
				for _, key := range []string{"text", "id", "tool_use_id"} {
					if text, has := block[key].(string); has {
						name += " " + text
					}
				}
				list = append(list, name+kept)
			}
		}
	}
	return list
}
