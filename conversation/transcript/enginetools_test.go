package transcript

import (
	"encoding/json"
	"testing"

	"parley/conversation"
	"parley/conversation/policy"
)

// Servers refuse a whole request for one list of types, or one place without a type.
func TestEngineToolsHaveOneType(t *testing.T) {
	rules := &policy.Rules{Agents: map[conversation.AgentName]policy.Profile{"developer": {Delegable: true}}}
	rules.Policy.MaxDepth = 2
	tools := ToolsFor(rules, policy.Profile{EngineTools: true, MayAsk: true, Delegates: true}, 0)
	if len(tools) != 7 {
		t.Errorf("%d tools, not 7: is a new one among them?", len(tools))
	}
	var check func(where string, place any)
	check = func(where string, place any) {
		schema, _ := place.(map[string]any)
		if kind, one := schema["type"].(string); !one {
			t.Errorf("%s has the type %v", where, schema["type"])
		} else if kind == "array" {
			check(where+"[]", schema["items"])
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			check(where+"."+name, p)
		}
	}
	for _, tool := range tools {
		var schema any
		if err := json.Unmarshal(tool.Schema, &schema); err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		check(tool.Name, schema)
	}
}
