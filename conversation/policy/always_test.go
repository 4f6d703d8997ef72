package policy

import (
	"fmt"
	"sync"
	"testing"

	"parley/conversation"
	"parley/conversation/tokens"
)

// What agents are always shown is made once for each agent and kind of depth, and anew when
// a tool has joined: from many sessions at once.
func TestAlways(t *testing.T) {
	rules := &Rules{
		Policy: Policy{MaxDepth: 2}, Late: &LateTools{}, Always: &AlwaysKept{},
		Agents: map[conversation.AgentName]Profile{"a": {Prompt: "one two three four"}, "b": {}},
	}
	var mu sync.Mutex
	made := map[string]int{}
	list := func(r *Rules, p Profile, depth int) []conversation.ToolSpec {
		mu.Lock()
		defer mu.Unlock()
		made[fmt.Sprint(p.Prompt, " at ", depth)]++
		var tools []conversation.ToolSpec
		for _, name := range r.ToolNames() {
			tools = append(tools, conversation.ToolSpec{Name: name})
		}
		return tools
	}
	for _, c := range []struct {
		agent       conversation.AgentName
		depth, size int
	}{{"a", 0, 5}, {"a", 1, 5}, {"a", 2, 5}, {"a", 3, 5}, {"a", 9, 5}, {"b", 0, 0}, {"a", 0, 5}} {
		if got := rules.AlwaysOf(c.agent, c.depth, list); len(got.Tools) != 0 || got.Tokens != c.size {
			t.Errorf("%s at %d: %+v", c.agent, c.depth, got)
		}
	}
	for what, n := range made {
		if n != 1 || len(made) != 4 {
			t.Errorf("%s was made %d times, of %d", what, n, len(made))
		}
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			rules.Late.Join(ToolRule{Spec: conversation.ToolSpec{Name: fmt.Sprint("tool", i)}})
			if got := rules.AlwaysOf("a", 0, list); len(got.Tools) == 0 {
				t.Error("a tool has joined and is not there")
			}
		})
	}
	all.Wait()
	if got := rules.AlwaysOf("a", 0, list); len(got.Tools) != 8 || got.Tokens != 5+8*(tokens.PerEntry+2) {
		t.Errorf("at the end: %+v", got)
	}
}
