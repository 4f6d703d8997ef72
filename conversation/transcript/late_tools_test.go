package transcript_test

import (
	"slices"
	"testing"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/conversation/transcript"
)

// A tool that joins is in the next request of a session in memory, with its tokens; one
// that is there stays as it was seen, and an agent sees only what it may use.
func TestLateTools(t *testing.T) {
	for _, kept := range []*policy.AlwaysKept{nil, {}} {
		testLateTools(t, kept)
	}
}

func testLateTools(t *testing.T, kept *policy.AlwaysKept) {
	t.Helper()
	key := conversation.SessionKey{Tenant: "default", Session: "s"}
	tool := func(name, text string) policy.ToolRule {
		return policy.ToolRule{Spec: conversation.ToolSpec{Name: name, Description: text}}
	}
	rules := &policy.Rules{
		Policy: policy.DefaultPolicy(), Late: &policy.LateTools{}, Always: kept, Tools: map[string]policy.ToolRule{"b": tool("b", "first")},
		Agents: map[conversation.AgentName]policy.Profile{
			"all": {Name: "all", EngineTools: true, Tools: []string{"*"}}, "one": {Name: "one", EngineTools: true, Tools: []string{"c"}},
		},
	}
	shown := transcript.Of(key, rules)
	tools := func(agent conversation.AgentName) (names []string) {
		for _, s := range shown.Request(key, rules, conversation.AskModel{Task: "t1-s", Step: 1, Attempt: 1, Agent: agent}).Tools {
			if len(s.Name) == 1 {
				names = append(names, s.Name+" "+s.Description)
			}
		}
		return names
	}
	if got := tools("all"); !slices.Equal(got, []string{"b first"}) {
		t.Errorf("at first: %q", got)
	}
	before, _ := shown.Shown()
	rules.Late.Join(tool("c", "joined"), tool("a", "joined"), tool("b", "another"))
	rules.Late.Join(tool("c", "changed"))
	if got := tools("all"); !slices.Equal(got, []string{"a joined", "b first", "c joined"}) {
		t.Errorf("after that: %q", got)
	}
	if after, _ := shown.Shown(); after <= before {
		t.Errorf("%d tokens with them, %d without", after, before)
	}
	if got := tools("one"); !slices.Equal(got, []string{"c joined"}) {
		t.Errorf("of one: %q", got)
	}
}
