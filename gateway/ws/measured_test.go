package ws

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The types of commands that metrics have are those that there are. N-14.
func TestTypesOfMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Sorted(maps.Keys(commandTable)), "unknown")
	slices.Sort(want)
	found := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `parley_gateway_commands_total`") || strings.HasPrefix(line, "| `parley_gateway_command_seconds`") {
			found++
			_, rest, _ := strings.Cut(line, "`type` (")
			list, _, _ := strings.Cut(rest, ")")
			got := strings.Split(list, ", ")
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("documented are %v, the server knows %v", got, want)
			}
		}
	}
	if found != 2 {
		t.Errorf("docs/METRICS.md has %d of the two metrics", found)
	}
}
