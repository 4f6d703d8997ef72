package transcript

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/author"
	"parley/conversation/policy"
	"parley/conversation/tokens"
)

// brought is what a session brings by its policies.
func brought(t testing.TB, tools, instructions string) *policy.Own {
	t.Helper()
	p, _, err := policy.DefaultPolicy().With(conversation.Overrides{"tools.caller": json.RawMessage(tools), "instructions": json.RawMessage(instructions)}, false)
	if err != nil {
		t.Fatal(err)
	}
	return p.Own
}

func ownRules() *policy.Rules {
	return &policy.Rules{
		Policy: policy.DefaultPolicy(), Always: &policy.AlwaysKept{},
		Tools: map[string]policy.ToolRule{"clock": {Spec: conversation.ToolSpec{Name: "clock"}}, "mail": {Spec: conversation.ToolSpec{Name: "mail"}}},
		Agents: map[conversation.AgentName]policy.Profile{
			"a":    {Name: "a", Prompt: "You help.", EngineTools: true, Tools: []string{"clock"}},
			"bare": {Name: "bare", EngineTools: true},
			"mute": {Name: "mute", Prompt: "You help."},
		},
	}
}

func toolNames(tools []conversation.ToolSpec) (names []string) {
	for _, s := range tools {
		names = append(names, s.Name)
	}
	return names
}

// What a session brings comes behind all else, counts, and leaves other sessions as they were.
func TestRequestWithOwn(t *testing.T) {
	rules, key := ownRules(), conversation.SessionKey{Session: "s"}
	own := brought(t, `[{"name":"z"},{"name":"clock","description":"the caller's"}]`, `"Be brief.\n[from ada (u1)]"`)
	tr := New()
	task := tr.begin(1)
	for _, c := range []struct {
		agent  conversation.AgentName
		named  bool
		wrap   bool
		tools  string
		system string
	}{
		{agent: "a", tools: "respondToUser coverMessage z clock", system: "You help.\n\n" + wishes + "Be brief.\n[from ada (u1)]"},
		{agent: "a", named: true, tools: "respondToUser coverMessage z clock", system: "You help." + whoSpeaks + "\n\n" + wishes + "Be brief.\n[from ada (u1)]"},
		{agent: "a", wrap: true, tools: "", system: "You help.\n\n" + wishes + "Be brief.\n[from ada (u1)]"},
		{agent: "bare", tools: "respondToUser coverMessage z clock", system: wishes + "Be brief.\n[from ada (u1)]"},
		{agent: "mute", tools: "", system: "You help.\n\n" + wishes + "Be brief.\n[from ada (u1)]"},
	} {
		ask := conversation.AskModel{Task: task, Step: 1, Attempt: 1, Agent: c.agent, WrapUp: c.wrap}
		tr.Hear(author.Voices{Named: c.named})
		r := tr.RequestWith(key, rules, own, ask)
		if got := strings.Join(toolNames(r.Tools), " "); got != c.tools || r.System != c.system {
			t.Errorf("%+v: tools %s, system %q", c, got, r.System)
		}
		if c.wrap && !slices.Contains(toolNames(r.Forbidden), "z") {
			t.Errorf("forbidden are %v", toolNames(r.Forbidden))
		}
		if with, counted := tr.Size(), r.Tokens(); !c.wrap && with != counted {
			t.Errorf("%+v: %d tokens, counted one by one %d", c, with, counted)
		}
		with := tr.Size()
		plain := tr.Request(key, rules, ask)
		if slices.Contains(toolNames(plain.Tools), "z") || strings.Contains(plain.System, "Be brief.") || with-tr.Size() < tokens.Of("Be brief.") {
			t.Errorf("%+v: without it the tools are %v, the system is %q, %d tokens instead of %d", c, toolNames(plain.Tools), plain.System, tr.Size(), with)
		}
	}
}

// What a session brings takes its place in the budget: less of the conversation is shown.
func TestOwnTakesRoom(t *testing.T) {
	rules, key := ownRules(), conversation.SessionKey{Session: "s"}
	rules.Policy.Context.Budget, rules.Policy.Context.Threshold = 2000, 1600
	own := brought(t, `[]`, `"`+strings.Repeat("word ", 600)+`"`)
	tr := New()
	for n := 1; n < 100; n++ {
		tr.turn(n)
	}
	ask := conversation.AskModel{Task: tr.begin(100), Step: 100, Attempt: 1, Agent: "a"}
	without := len(tr.Request(key, rules, ask).Entries)
	r := tr.RequestWith(key, rules, own, ask)
	if shown, left := tr.Shown(); len(r.Entries) >= without || left == 0 || shown > 2000 {
		t.Errorf("%d entries with it, %d without; %d tokens, %d left out", len(r.Entries), without, shown, left)
	}
}

// What a request of a session costs that brings something, beside one that does not.
func BenchmarkOwn(b *testing.B) {
	rules, key := ownRules(), conversation.SessionKey{Session: "s"}
	var tools []string
	for i := range 20 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool%d","description":%q}`, i, strings.Repeat("It does something. ", 20)))
	}
	for _, c := range []struct {
		name string
		own  *policy.Own
	}{{"nothing", nil}, {"20 tools", brought(b, "["+strings.Join(tools, ",")+"]", `"`+strings.Repeat("Be brief. ", 50)+`"`)}} {
		b.Run(c.name, func(b *testing.B) {
			tr := New()
			ask := conversation.AskModel{Task: tr.begin(1), Step: 1, Attempt: 1, Agent: "a"}
			b.ReportAllocs()
			for b.Loop() {
				tr.RequestWith(key, rules, c.own, ask)
			}
		})
	}
}
