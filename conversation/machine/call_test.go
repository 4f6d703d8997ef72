package machine

import (
	"slices"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/internal/intake"
	"parley/conversation/machine/internal/plan"
	"parley/conversation/policy"
)

// Whatever ids a model gives to its calls, each call has its own.
func TestCallIDs(t *testing.T) {
	for _, ids := range [][]string{
		{"", ""},
		{"a", "a", "a"},
		{"call-1-1", ""},
		{"", "call-1-0"},
		{"call-1-1", "", "call-1-2", ""},
	} {
		var items []conversation.Item
		for _, id := range ids {
			items = append(items, conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: "clock"})
		}
		c := intake.Sanitize(conversation.ModelAnswered{Step: 1, Answer: conversation.ModelAnswer{Items: items}}).(conversation.ModelAnswered)
		var got []string
		for _, item := range c.Answer.Items {
			if item.ID == "" || slices.Contains(got, item.ID) {
				t.Errorf("%q: %q is the id of two calls, or none", ids, item.ID)
			}
			got = append(got, item.ID)
		}
		if again := intake.Sanitize(c).(conversation.ModelAnswered); !slices.Equal(again.Answer.Items, c.Answer.Items) {
			t.Errorf("%q: ids that are good are changed", ids)
		}
	}
}

// Of two agents that share an alias always the same one is meant.
func TestAliasOfTwo(t *testing.T) {
	rules := testRules()
	for _, name := range []conversation.AgentName{"code_review", "code-review"} {
		rules.Agents[name] = policy.Profile{Name: name, Delegable: true}
	}
	s := New(conversation.SessionKey{Tenant: "default", Session: "s"}, rules)
	for range 100 {
		if name, ok := plan.AgentOf(s.rules, "delegateToCodeReview"); !ok || name != "code-review" {
			t.Fatalf("delegateToCodeReview means %q", name)
		}
	}
}

// A client cannot open the session of a delegation: its tell would find it there
// and start no task.
func TestCreateIsForRoots(t *testing.T) {
	s := New(conversation.SessionKey{Tenant: "default", Session: "s/d1"}, testRules())
	if d := s.Decide(conversation.Inputs{}, conversation.Create{Owner: "u"}); d.Err == nil || d.Err.Code != conversation.Forbidden || s.Exists() {
		t.Errorf("create: %v, %d events", d.Err, len(d.Events))
	}
	if d := s.Decide(conversation.Inputs{}, conversation.Tell{Agent: "researcher", Owner: "u", Objective: "x"}); d.Err != nil || len(s.View().Tasks) != 1 {
		t.Errorf("tell: %v, tasks %+v", d.Err, s.View().Tasks)
	}
}
