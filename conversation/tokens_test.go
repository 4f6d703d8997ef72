package conversation

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/conversation/tokens"
)

// Everything that a request shows is counted, and nothing else.
func TestRequestTokens(t *testing.T) {
	text := func(n int) string { return strings.Repeat("word", n) } // n tokens
	r := Request{}
	if n := r.Tokens(); n != 0 {
		t.Errorf("nothing: %d", n)
	}
	for _, step := range []struct {
		name string
		add  func()
		more int
	}{
		{"the prompt", func() { r.System = text(7) }, 7},
		{"a tool", func() {
			r.Tools = []ToolSpec{{Name: text(1), Description: text(20), Schema: json.RawMessage(text(30))}}
		}, tokens.PerEntry + 51},
		{"a message", func() { r.Entries = append(r.Entries, Entry{Role: RoleUser, Text: text(9)}) }, tokens.PerEntry + 9},
		{"an answer", func() {
			r.Entries = append(r.Entries, Entry{Role: RoleAssistant, Items: []Item{
				{Kind: ItemText, Text: text(5)}, {Kind: ItemCall, ID: "k", Tool: text(1), Args: text(6), Opaque: text(8)},
			}})
		}, 2*tokens.PerEntry + 20},
		{"a result", func() { r.Entries = append(r.Entries, Entry{Role: RoleTool, CallID: "k", Text: text(40)}) }, tokens.PerEntry + 40},
		{"a generated entry", func() { r.Last = append(r.Last, Entry{Role: RoleUser, Text: text(3)}) }, tokens.PerEntry + 3},
		{"what is not shown", func() { r.Session, r.Task, r.Running = "s", "t1-s", []RunningCall{{Call: "c1"}} }, 0},
	} {
		before := r.Tokens()
		step.add()
		if more := r.Tokens() - before; more != step.more {
			t.Errorf("%s counts %d, want %d", step.name, more, step.more)
		}
	}
}
