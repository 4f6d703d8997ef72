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
