package policy

import (
	"reflect"
	"strings"
	"testing"

	"parley/conversation"
)

// What an agent's model is shown follows what it holds; a fallback's limit is its own.
func TestContextOf(t *testing.T) {
	def := DefaultPolicy().Context
	within := func(request int) Context { c, _ := def.within(request); return c }
	small := def
	small.Budget, small.Threshold, small.Keep, small.Summary = 6144, 4915, 1228, 122
	for name, c := range map[string]struct {
		policy Context
		window Window
		want   Context
	}{
		"a small model":                  {def, Window{Own: true, Context: 8192}, small},
		"an answer of a given length":    {def, Window{Own: true, Context: 8192, Answer: 2048}, small},
		"a large model":                  {def, Window{Own: true, Context: 200_000}, def},
		"as large as the budget":         {def, Window{Own: true, Context: 100_000, Answer: 0}, within(75_000)},
		"a fallback":                     {def, Window{Context: 8192}, def},
		"no limit of the policy":         {Context{}, Window{Own: true, Context: 8192}, Context{Budget: 6144}},
		"no budget, but a threshold":     {Context{Threshold: 80_000, Keep: 20_000, Summary: 2000}, Window{Own: true, Context: 8192}, Context{Budget: 6144, Threshold: 4915, Keep: 1228, Summary: 122}},
		"no budget, and a large model":   {Context{Threshold: 8000, Keep: 2000, Summary: 200}, Window{Own: true, Context: 40_000}, Context{Budget: 30_000, Threshold: 8000, Keep: 2000, Summary: 200}},
		"never summarised, small enough": {Context{Budget: 1000}, Window{Own: true, Context: 8192}, Context{Budget: 1000}},
	} {
		r := Rules{Policy: Policy{Context: c.policy}, Agents: map[conversation.AgentName]Profile{"a": {Windows: []Window{c.window}}}}
		if got, small := r.ContextOf("a"); !reflect.DeepEqual(got, c.want) || small != (c.want != c.policy) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got, _ := r.ContextOf("another"); !reflect.DeepEqual(got, c.policy) {
			t.Errorf("%s: of another agent %+v", name, got)
		}
	}
}

// A model must hold the prompt, the tools, an answer and a conversation; of a fallback too.
func TestCheckWindows(t *testing.T) {
	for _, c := range []struct {
		window Window
		fixed  int
		needs  string // "" = it is fine
	}{
		{Window{Model: "local", Own: true, Context: 8192}, 2200, ""},
		{Window{Model: "local", Own: true, Context: 8192}, 3563, ""},
		{Window{Model: "local", Own: true, Context: 8192}, 3565, "9216"},
		{Window{Model: "local", Own: true, Context: 4096}, 2200, "5120"},
		{Window{Model: "local", Context: 4096}, 2200, "5120"},
		{Window{Model: "local", Own: true, Context: 8192, Answer: 8192}, 100, "9216"},
		{Window{Model: "large", Own: true, Context: 1 << 20}, 200_000, ""}, // context.budget is what is too small
	} {
		r := Rules{Policy: DefaultPolicy(), Agents: map[conversation.AgentName]Profile{"a": {Windows: []Window{c.window}}}}
		wrong := r.CheckWindows("a", c.fixed)
		if len(wrong) > 0 != (c.needs != "") {
			t.Errorf("%+v with %d: %v", c.window, c.fixed, wrong)
		} else if c.needs != "" && (!strings.HasSuffix(wrong[0].Error(), "a context of "+c.needs+" or more") || !strings.HasPrefix(wrong[0].Error(), "models.local.context = ")) {
			t.Errorf("%+v with %d: %v, want %s", c.window, c.fixed, wrong[0], c.needs)
		}
	}
}
