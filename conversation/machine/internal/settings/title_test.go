package settings

import (
	"testing"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Rule 9.2c. A title that no person has given counts only while there is none.
func TestUnnamedTitle(t *testing.T) {
	for _, test := range []struct {
		has, said string
		unnamed   bool
		changes   bool
	}{
		{"", "A trip", true, true}, {"Mine", "A trip", true, false}, {"Mine", "Other", false, true}, {"", "Mine", false, true}, {"Mine", "", false, true}, {"Mine", "", true, false},
	} {
		up, some, err := Changes(&state.State{Title: test.has}, &policy.Rules{}, policy.DefaultPolicy(), conversation.Update{Title: &test.said, Unnamed: test.unnamed})
		if err != nil || some != test.changes || (up.Title != nil) != test.changes {
			t.Errorf("%+v: %+v, %v", test, up, err)
		}
	}
}
