package anthropic

import (
	"fmt"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

// The API refuses a tool_choice that forces a call while the model thinks, so such a request
// only asks for calls by words. Thinking that is switched off for one request is none.
func TestNoForcedCallsWithThinking(t *testing.T) {
	thinking := func(kind string) map[string]any {
		return map[string]any{"thinking": map[string]any{"type": kind, "budget_tokens": 1024}}
	}
	user := conversation.Entry{Role: conversation.RoleUser, Text: "go"}
	elsewhere := []conversation.Entry{user, {Role: conversation.RoleAssistant, Items: []conversation.Item{{Kind: conversation.ItemCall, ID: "a", Tool: "g", Args: "{}"}}}}
	for name, c := range map[string]struct {
		extra   map[string]any
		without []string
		entries []conversation.Entry
		want    string
	}{
		"no thinking":                       {want: "map[type:any]"},
		"thinking":                          {extra: thinking("enabled"), want: "<nil>"},
		"thinking as long as it likes":      {extra: thinking("adaptive"), want: "<nil>"},
		"no thinking, as it says":           {extra: thinking("disabled"), want: "map[type:any]"},
		"behind calls of another model":     {extra: thinking("enabled"), entries: elsewhere, want: "map[type:any]"},
		"a choice of the configuration":     {extra: map[string]any{"tool_choice": map[string]any{"type": "auto"}}, want: "map[type:auto]"},
		"no choice, says the configuration": {without: []string{"tool_choice"}, want: "<nil>"},
	} {
		m, asked := serve(t, "application/json", empty, Options{Connection: Connection{Extra: c.extra, Without: c.without}})
		r := conversation.Request{Step: 2, MustCall: true, Tools: []conversation.ToolSpec{{Name: "f"}}, Forbidden: []conversation.ToolSpec{{Name: "g"}},
			Entries: append([]conversation.Entry{user}, c.entries...)}
		if _, _, err := modelstest.Collect(t.Context(), m, r); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint((*asked)["tool_choice"]); got != c.want {
			t.Errorf("%s: the choice is %s, want %s", name, got, c.want)
		}
		if tools := (*asked)["tools"].([]any); len(tools) != 1 {
			t.Errorf("%s: the tools are %v", name, tools)
		}
	}
}
