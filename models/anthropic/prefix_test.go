package anthropic

import (
	"regexp"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

// Thinking goes back as long as the same stands before it: newer models refuse a request
// with thinking that is bound to something else.
func TestThinkingGoesBackWhereNothingHasChanged(t *testing.T) {
	const answer = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s1"},
		{"type":"tool_use","id":"toolu_1","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`
	tool := func(name string) conversation.ToolSpec { return conversation.ToolSpec{Name: name} }
	for name, c := range map[string]struct {
		o      Options
		first  func(r *conversation.Request) // changes the first request
		second func(r *conversation.Request) // and the one behind its answer
		back   bool
	}{
		"nothing":        {back: true},
		"what is marked": {o: Options{Cache: true, CacheTTL: DefaultCacheTTL}, back: true},
		"a note comes":   {second: func(r *conversation.Request) { r.Note = "Open messages: [1] a" }, back: true},
		"more comes behind": {second: func(r *conversation.Request) {
			r.Last = []conversation.Entry{{Role: conversation.RoleUser, Text: "more"}}
		}, back: true},
		"a note was there":           {first: func(r *conversation.Request) { r.Note = "Open messages: [1] a" }},
		"a tool came late":           {second: func(r *conversation.Request) { r.Tools = append(r.Tools, tool("g")) }},
		"another prompt":             {second: func(r *conversation.Request) { r.System = "Be brief." }},
		"stored without a digest":    {second: func(r *conversation.Request) { forget(r); r.System = "Be brief." }, back: true},
		"a model that wants it back": {o: Options{Connection: Connection{Extra: map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 1024}}}}, first: func(r *conversation.Request) { r.Note = "Open messages: [1] a" }, back: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, asked := serve(t, "application/json", answer, c.o)
			r := conversation.Request{Session: "s1", Task: "t1", Step: 1, System: "Be kind.", Tools: []conversation.ToolSpec{tool("f")},
				Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1", Text: "find it"}}}
			first := r
			if c.first != nil {
				c.first(&first)
			}
			_, done, err := modelstest.Collect(t.Context(), m, first)
			if err != nil {
				t.Fatal(err)
			}
			r.Step = 2
			r.Entries = append(r.Entries, conversation.Entry{Role: conversation.RoleAssistant, Task: "t1", Items: done.Items},
				conversation.Entry{Role: conversation.RoleTool, Task: "t1", CallID: "toolu_1", Text: "found"})
			if c.second != nil {
				c.second(&r)
			}
			if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil {
				t.Fatal(err)
			}
			content := (*asked)["messages"].([]any)[1].(map[string]any)["content"].([]any)
			block := content[0].(map[string]any)
			if back := block["type"] == "thinking"; back != c.back || back && (len(block) != 3 || block["signature"] != "s1") || len(content) > 2 {
				t.Errorf("the answer goes back as %v", content)
			}
		})
	}
}

// forget takes the digest out of what was stored, as answers of earlier versions have it.
func forget(r *conversation.Request) {
	item := &r.Entries[1].Items[0]
	item.Opaque = regexp.MustCompile(`,"prefix":"[0-9a-f]+"`).ReplaceAllString(item.Opaque, "")
}
