package ws

import (
	"maps"
	"slices"
	"testing"

	"parley/gateway/gatewaytest"
)

// The commands of the document are those of the server, and need an id and a
// session when the server wants them.
func TestCommandsAreDocumented(t *testing.T) {
	c := gatewaytest.Documents(t)
	if got, want := c.Commands(), slices.Sorted(maps.Keys(commandTable)); !slices.Equal(got, want) {
		t.Errorf("documented %v\nthe server has %v", got, want)
	}
	for name, rule := range commandTable {
		required, _ := gatewaytest.Inside(c.Schemas()["command_"+name], "required").([]any)
		if slices.Contains(required, any("id")) == rule.silent {
			t.Errorf("%s: id is required %v, and silent is %v", name, !rule.silent, rule.silent)
		}
		if slices.Contains(required, any("session")) != rule.session {
			t.Errorf("%s: the document and the server differ about session", name)
		}
	}
}
