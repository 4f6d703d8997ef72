package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

func said(key, value string) conversation.Overrides {
	return conversation.Overrides{key: json.RawMessage(value)}
}

// callers is a list of n tools with so many bytes in all.
func callers(n, bytes int) string {
	var list []string
	for i := range n {
		name, size := fmt.Sprintf("t%d", i), bytes/n
		if i == 0 {
			size += bytes % n
		}
		list = append(list, fmt.Sprintf(`{"name":%q,"description":%q}`, name, strings.Repeat("x", size-len(name)-len(`{"properties":{},"type":"object"}`))))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// What a session brings is bounded by the server from both sides, and by what nobody may
// exceed. What is stored above a ceiling counts as nothing.
func TestCeilingsOfOwn(t *testing.T) {
	configured := DefaultPolicy()
	configured.MaxCaller, configured.MaxCallerBytes, configured.MaxInstructions = 2, 200, 10
	none := configured
	none.MaxCaller, none.MaxInstructions = 0, 0
	words := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for _, test := range []struct {
		key, value, bound string // bound: in the refusal; "" = allowed
		under             Policy
		never             bool // not for an administrator either
	}{
		{key: "tools.caller", value: callers(2, 200), under: configured},
		{key: "tools.caller", value: `[]`, under: none},
		{key: "tools.caller", value: callers(3, 150), under: configured, bound: "at most 2 tools (tools.max_caller), and has 3"},
		{key: "tools.caller", value: callers(2, 201), under: configured, bound: "at most 200 bytes of names, descriptions and parameters (tools.max_caller_bytes), and has 201"},
		{key: "tools.caller", value: callers(1, 100), under: none, bound: "tools.max_caller is 0"},
		{key: "tools.caller", value: callers(64, 64<<10), under: DefaultPolicy()},
		{key: "tools.caller", value: callers(65, 64<<10), under: DefaultPolicy(), bound: "at most 64 tools"},
		{key: "tools.caller", value: callers(1025, 64<<10), under: DefaultPolicy(), bound: "at most 1024 tools", never: true},
		{key: "tools.caller", value: callers(1, 1<<20+1), under: DefaultPolicy(), bound: "at most 1048576 bytes", never: true},
		{key: "instructions", value: words(10), under: configured},
		{key: "instructions", value: `" "`, under: none},
		{key: "instructions", value: words(11), under: configured, bound: "at most 10 bytes (session.max_instructions), and has 11"},
		{key: "instructions", value: words(1), under: none, bound: "session.max_instructions is 0"},
		{key: "instructions", value: words(256<<10 + 1), under: DefaultPolicy(), bound: "at most 262144 bytes", never: true},
	} {
		o := said(test.key, test.value)
		own, _, err := test.under.With(o, false)
		what := fmt.Sprintf("%s %.40s", test.key, test.value)
		if test.bound == "" {
			if err != nil || !reflect.DeepEqual(own, test.under.WithStored(Canonical(o), nil)) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err == nil || err.Code != conversation.BadRequest || !strings.Contains(err.Message, test.key) || !strings.Contains(err.Message, test.bound) {
			t.Errorf("%s: %v, want %s", what, err, test.bound)
		}
		if stored := test.under.WithStored(Canonical(o), nil); stored.Own != nil {
			t.Errorf("%s holds where it was stored", what)
		}
		own, lifted, err := test.under.With(o, true)
		if test.never != (err != nil) || !test.never && (own.Own == nil || !slices.Equal(lifted, []string{test.key}) || test.under.WithStored(Canonical(o), lifted).Own == nil) {
			t.Errorf("%s from an administrator: %v, lifted %v", what, err, lifted)
		}
	}
}

// A tool is shown to models the same way whether it comes from a client or from the log, in
// the order of the list, and its schema is one that each provider takes.
func TestCallerTools(t *testing.T) {
	value := `[{"name":"z-1","description":"<b> & \"c\"","parameters":{"type":"object","required":["city"],"properties":{"city":{"type":"string","pattern":"<.*>"},"n":{"maximum":12345678901234567890.0}}}},` +
		`{"name":"bare"},{"parameters":null,"name":"null"},{"name":"empty","parameters":{}}]`
	p, _, err := DefaultPolicy().With(said("tools.caller", value), false)
	if err != nil {
		t.Fatal(err)
	}
	if stored := DefaultPolicy().WithStored(Canonical(said("tools.caller", value)), nil); !reflect.DeepEqual(p, stored) {
		t.Errorf("from the log it is %+v", stored.Own)
	}
	var got []string
	for _, rule := range p.Own.Tools {
		got = append(got, fmt.Sprintf("%s %q %s", rule.Spec.Name, rule.Spec.Description, rule.Spec.Schema))
		if rule.Spec.Approval || rule.Check != nil {
			t.Errorf("%+v", rule)
		}
	}
	const bare = `{"properties":{},"type":"object"}`
	want := []string{
		`z-1 "<b> & \"c\"" {"properties":{"city":{"pattern":"<.*>","type":"string"},"n":{"maximum":12345678901234567890.0}},"required":["city"],"type":"object"}`,
		`bare "" ` + bare, `null "" ` + bare, `empty "" ` + bare,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if _, there := p.Own.Tool("bare"); !there {
		t.Error("a tool is not found")
	}
	if _, there := (*Own)(nil).Tool("bare"); there {
		t.Error("nothing has a tool")
	}
}

// The two policies of what a session brings do not disturb each other, and taking both away
// leaves nothing.
func TestOwnChanges(t *testing.T) {
	both := conversation.Overrides{"tools.caller": json.RawMessage(`[{"name":"a"}]`), "instructions": json.RawMessage(`"b"`)}
	p := DefaultPolicy().WithStored(both, nil)
	if p.Own == nil || len(p.Own.Tools) != 1 || p.Own.Instructions != "b" || p.Own.Tokens() == 0 {
		t.Errorf("%+v", p.Own)
	}
	if q := p.WithStored(conversation.Overrides{"tools.caller": json.RawMessage(`[]`), "instructions": json.RawMessage(`""`)}, nil); q.Own != nil || len(p.Own.Tools) != 1 {
		t.Errorf("%+v of %+v", q.Own, p.Own)
	}
	if passed := Inherited(both); len(passed) != 0 {
		t.Errorf("a delegation is told %s", passed)
	}
	others := conversation.Overrides{"task.max_steps": json.RawMessage(`1`)}
	if passed := Inherited(others); !reflect.DeepEqual(passed, others) {
		t.Errorf("a delegation is told %s", passed)
	}
}

// What a session brings leaves room for a conversation with its agent's model.
func TestCheckOwn(t *testing.T) {
	r := &Rules{Policy: DefaultPolicy(), Agents: map[conversation.AgentName]Profile{
		"large": {Name: "large"}, "small": {Name: "small", Windows: []Window{{Model: "m", Own: true, Context: 1000, Answer: 400}}},
	}}
	long := said("instructions", `"`+strings.Repeat("word ", 250)+`"`)
	if err := r.CheckOwn("large", long); err != nil {
		t.Error(err)
	}
	if err := r.CheckOwn("small", said("instructions", `"Be brief."`)); err != nil {
		t.Error(err)
	}
	for key, o := range map[string]conversation.Overrides{"instructions": long, "tools.caller": said("tools.caller", callers(4, 2000))} {
		if err := r.CheckOwn("small", o); err == nil || err.Code != conversation.BadRequest || !strings.Contains(err.Message, "policy "+key) || !strings.Contains(err.Message, "200 at most") {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := r.CheckOwn("small", nil); err != nil {
		t.Error(err)
	}
}

// Beside puts the caller's tools last; one that has the name of another hides it. What is kept
// for all sessions is not written to, and a session without any is given just that.
func TestOwnBeside(t *testing.T) {
	spec := func(name string) conversation.ToolSpec {
		return conversation.ToolSpec{Name: name, Schema: json.RawMessage(`{}`)}
	}
	always := Always{Tools: []conversation.ToolSpec{spec("respondToUser"), spec("clock"), spec("mail")}, Tokens: 1000}
	o := (*Own)(nil).with(func(o *Own) { o.Tools = []ToolRule{{Spec: spec("z")}, {Spec: spec("clock")}} })
	agent := Profile{EngineTools: true}
	names := func(a Always) (all []string) {
		for _, s := range a.Tools {
			all = append(all, s.Name)
		}
		return all
	}
	got := o.Beside(always, agent)
	if want := []string{"respondToUser", "mail", "z", "clock"}; !slices.Equal(names(got), want) {
		t.Errorf("%q", names(got))
	}
	if want := 1000 + conversation.ToolTokens([]conversation.ToolSpec{spec("z")}); got.Tokens != want {
		t.Errorf("%d tokens, want %d", got.Tokens, want)
	}
	if !slices.Equal(names(always), []string{"respondToUser", "clock", "mail"}) {
		t.Errorf("what all sessions share is %q now", names(always))
	}
	for what, same := range map[string]Always{"without tools": o.Beside(always, Profile{}), "nothing": (*Own)(nil).Beside(always, agent)} {
		if &same.Tools[0] != &always.Tools[0] || same.Tokens != 1000 {
			t.Errorf("%s: %q", what, names(same))
		}
	}
}

// Whatever a client says, what is checked is what the log gives back.
func FuzzOwn(f *testing.F) {
	for _, value := range []string{
		callers(2, 200), `[{"name":"a","NAME":"b","Name":"c"}]`, `[{"name":"a","parameters":{"type":"object","properties":{"é":{"maximum":1e400}}}}]`, `"Be \u2028 brief."`, `[null]`, `{`, "\"\xff\"",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, key := range []string{"tools.caller", "instructions"} {
			o := said(key, value)
			p, lifted, err := DefaultPolicy().With(o, true)
			if err != nil {
				if err.Code != conversation.BadRequest || !strings.Contains(err.Message, key) || len(err.Message) > 1000 {
					t.Errorf("%s: %v", key, err)
				}
				continue
			}
			if stored := DefaultPolicy().WithStored(Canonical(o), lifted); !reflect.DeepEqual(p, stored) {
				t.Errorf("%s: said %+v, stored %+v", key, p.Own, stored.Own)
			}
			for _, rule := range p.Own.Callers() {
				if !toolName(rule.Spec.Name) || engineTool(rule.Spec.Name) || !json.Valid(rule.Spec.Schema) {
					t.Errorf("%+v", rule.Spec)
				}
			}
		}
	})
}
