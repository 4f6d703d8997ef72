package settings

import (
	"testing"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Rule 9.2b. Who may answer where another agent has, and what changes with him.
func TestAnotherAgent(t *testing.T) {
	rules := &policy.Rules{Policy: policy.DefaultPolicy(), Agents: map[conversation.AgentName]policy.Profile{
		conversation.Coordinator: {}, "tutor": {}, conversation.External: {},
	}}
	tests := []struct {
		from, said, want conversation.AgentName
		refused          conversation.Code
	}{
		{from: "tutor"},
		{from: "tutor", said: "tutor"},
		{from: "gone", said: "gone"}, // an older configuration had it
		{from: "gone", said: "tutor", want: "tutor"},
		{from: "tutor", said: conversation.Coordinator, want: conversation.Coordinator},
		{from: "tutor", said: "nobody", refused: conversation.BadRequest},
		{from: "tutor", said: "outside", refused: conversation.Conflict},
		{from: "tutor", said: "outside:desk", refused: conversation.Conflict},
		{from: "tutor", said: "outside:", refused: conversation.BadRequest},
		{from: "outside", said: "outside"},
		{from: "outside", said: "outside:desk", refused: conversation.Conflict},
		{from: "outside:desk", said: "tutor", refused: conversation.Conflict},
	}
	for _, test := range tests {
		title := "also said"
		up, some, err := Changes(&state.State{Agent: test.from}, rules, rules.Policy, conversation.Update{Agent: test.said, Title: &title})
		switch {
		case test.refused != "":
			if err == nil || err.Code != test.refused || some || up.Title != nil {
				t.Errorf("%s to %s: %+v, %v", test.from, test.said, up, err)
			}
		case err != nil || up.Agent != test.want || up.Title == nil:
			t.Errorf("%s to %s: %+v, %v, want %q", test.from, test.said, up, err, test.want)
		}
	}
}
