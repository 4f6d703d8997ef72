package plan

import (
	"reflect"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// A message may be named by its number, as a text, as the schemas say, and as a number.
func TestMessagesByNumber(t *testing.T) {
	situation := Situation{
		Task:   &state.Task{Messages: []*state.Message{{ID: "m1-s", Read: 1, Number: 1, Text: "one"}, {ID: "m2-s", Read: 1, Number: 2, Text: "two and three"}}},
		Agent:  "a",
		Rules:  &policy.Rules{Agents: map[conversation.AgentName]policy.Profile{"a": {EngineTools: true, MayAsk: true}}},
		Policy: &policy.Policy{},
	}
	for _, number := range []string{`2`, `"2"`, `"[2]"`, `"m2-s"`, `"two and…"`, `"Two and three"`, `"…three"`} {
		for tool, c := range map[string]struct {
			args string
			want Action
		}{
			conversation.ToolRespond: {`{"message":"hm","inReplyTo":` + number + `}`, Show{Text: "hm", Message: "m2-s"}},
			conversation.ToolCover:   {`{"as":"dismissed","messageId":` + number + `}`, Resolve{"m2-s", conversation.ResolvedDismissed}},
			conversation.ToolAsk:     {`{"question":"which?","inReplyTo":` + number + `}`, Ask{conversation.Asked{Text: "which?", Blocking: true, ModelCall: "k", About: "m2-s"}}},
		} {
			calls := Calls(situation, []conversation.Item{{Kind: conversation.ItemCall, ID: "k", Tool: tool, Args: c.args}})
			if !reflect.DeepEqual(calls[0].Do, c.want) {
				t.Errorf("%s %s does %+v, not %+v", tool, c.args, calls[0].Do, c.want)
			}
		}
	}
}

// A quote of which two messages are the beginning names none, unless it is the whole text of
// one. So it is of less than four letters.
// Rule 2.18.
func TestMessagesByText(t *testing.T) {
	p := planner{open: []*state.Message{{ID: "m1-s", Number: 1, Text: "Ship it today"}, {ID: "m2-s", Number: 2, Text: "Ship it"}, {ID: "m3-s", Number: 3, Text: "Ship it at once"}}}
	for name, want := range map[ref]conversation.MessageID{
		"Ship it": "m2-s", "ship it t": "m1-s", "it at once": "m3-s", "Ship it a…": "m3-s",
		"Ship": "", "Shi": "", "day": "", "4": "", "Ship them": "", "": "",
	} {
		if got, found := p.message(name); got != want || found != (want != "") {
			t.Errorf("%q names %q", name, got)
		}
	}
}

// A part is named by its number from 1, as it was shown.
// Rule 8.11.
func TestParts(t *testing.T) {
	situation := Situation{
		Task:   &state.Task{Messages: []*state.Message{{ID: "m1-s", Read: 1, Number: 1}}, LastPart: &conversation.Part{Index: 1}, NextPart: 2},
		Agent:  "a",
		Rules:  &policy.Rules{Agents: map[conversation.AgentName]policy.Profile{"a": {EngineTools: true}}},
		Policy: &policy.Policy{},
	}
	for part, want := range map[string]Action{
		``: Answered{"m1-s", 0, false}, `,"part":1`: Answered{"m1-s", 0, true}, `,"part":"2"`: Answered{"m1-s", 1, true}, `,"part":"(2)"`: Answered{"m1-s", 1, true},
		`,"part":"[1]"`: Answered{"m1-s", 0, true}, `,"part":0`: nil, `,"part":3`: nil, `,"part":-1`: nil, `,"part":"the first"`: nil,
	} {
		got := Calls(situation, []conversation.Item{{Kind: conversation.ItemCall, ID: "k", Tool: conversation.ToolCover, Args: `{"messageId":1,"as":"answered"` + part + `}`}})[0].Do
		if _, refused := got.(Refuse); refused != (want == nil) || want != nil && got != want {
			t.Errorf("%q: %+v", part, got)
		}
	}
}
