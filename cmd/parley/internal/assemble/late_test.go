package assemble

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/policy"
)

type described conversation.ToolSpec

func (d described) Spec() conversation.ToolSpec                              { return conversation.ToolSpec(d) }
func (described) Check(json.RawMessage) error                                { return nil }
func (described) Run(context.Context, conversation.ToolCall) (string, error) { return "", nil }
func named(name, text string) conversation.Tool                              { return described{Name: name, Description: text} }

// Tools join before and after the rules are there; those that leave no room for a
// conversation do not, and those that joined before them stay.
func TestLateToolsJoin(t *testing.T) {
	rules := policy.Rules{Policy: policy.DefaultPolicy(), Agents: map[conversation.AgentName]policy.Profile{"a": {Name: "a", EngineTools: true, Tools: []string{"*"}}}}
	var late LateTools
	if err := late.Join([]conversation.Tool{named("early", "x")}); err != nil {
		t.Fatal(err)
	}
	late.Attach(&rules)
	if err := late.Join([]conversation.Tool{named("fine", "x")}); err != nil {
		t.Fatal(err)
	}
	err := late.Join([]conversation.Tool{named("huge", strings.Repeat("word ", rules.Policy.Context.Budget))})
	if err == nil || !strings.Contains(err.Error(), "context.") {
		t.Errorf("a tool without room: %v", err)
	}
	for name, want := range map[string]bool{"early": true, "fine": true, "huge": false, "none": false} {
		_, ruled := rules.Tool(name)
		if tool, found := late.Find(name); found != want || ruled != want || found && tool.Spec().Name != name {
			t.Errorf("%s: found %v, ruled %v", name, found, ruled)
		}
	}
}
