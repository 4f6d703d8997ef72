package config

import (
	"reflect"
	"strings"
	"testing"

	"parley/conversation/policy"
)

// The limits of the context reach the machine as they stand in the file.
func TestContextLimitsReachTheMachine(t *testing.T) {
	path := write(t, "[context]\nbudget = 9000\nthreshold = 8000\nkeep = 700\nsummary = 60\ntool_result = \"5 KiB\"\n")
	c, err := Load(Sources{Path: path, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Context{Budget: 9000, Threshold: 8000, Keep: 700, Summary: 60, ToolResult: 5 << 10}
	if got := c.Policy().Context; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Limits that contradict each other are refused before anything starts, with the
// key to be changed.
func TestImpossibleContextIsRefused(t *testing.T) {
	for _, test := range []struct{ set, want string }{
		{"context.threshold=100000", "context.threshold = 100000: must be less than context.budget"},
		{"context.keep=78000", "context.keep = 78000: what stays after a compaction"},
		{"context.summary=0", "context.summary = 0: must be at least 1"},
		{"context.tool_result=400000", "a single result would fill context.budget"},
		{"context.budget=-1", "context.budget = "},
		{"context.keep=77999", ""},
		{"context.threshold=0", ""},
	} {
		_, err := Load(Sources{Set: []string{test.set}})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.set, err, test.want)
		}
	}
}
