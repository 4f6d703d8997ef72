package config

import (
	"reflect"
	"strings"
	"testing"

	"parley/conversation/policy"
)

// The limits of the context reach the machine as they stand in the file.
func TestContextLimitsReachTheMachine(t *testing.T) {
	path := write(t, "[context]\nbudget = 9000\nthreshold = 8000\nkeep = 700\nsummary = 60\ntool_result = \"5 KiB\"\nfile_text = \"1 KiB\"\nfile_texts = \"3 KiB\"\npictures = 2\npicture_bytes = \"1 MiB\"\n")
	c, err := Load(Sources{Path: path, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Context{Budget: 9000, Threshold: 8000, Keep: 700, Summary: 60, ToolResult: 5 << 10, FileText: 1 << 10, FileTexts: 3 << 10, Pictures: 2, PictureBytes: 1 << 20}
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

// A model that cannot hold the prompt and the tools of an agent, an answer and a
// conversation is refused, at the line that says what it holds; so is a fallback.
func TestTooSmallModelIsRefused(t *testing.T) {
	const local = "[models.local]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n"
	for _, test := range []struct{ name, file, want string }{
		{"not said", "[model]\ndefault = \"local\"\n" + local, ""},
		{"enough", "[model]\ndefault = \"local\"\n" + local + "context = 8192\n", ""},
		{"too small", "[model]\ndefault = \"local\"\n" + local + "context = 4096\n", `config.toml:7: model "local": context = 4096: the prompt and the tools of the agent "`},
		{"the answer takes it", "[model]\ndefault = \"local\"\n" + local + "context = 8192\nmax_output_tokens = 6000\n", "6000 are for the answer: a conversation needs a context of "},
		{"a fallback", "[model]\ndefault = \"far\"\n" + strings.ReplaceAll(local, "local", "far") + "fallback = [\"local\"]\n" + local + "context = 4096\n", `config.toml:12: model "local": context = 4096: `},
		{"of one agent", "[[agents]]\nname = \"writer\"\nprompt = \"Write.\"\nmodel = \"local\"\n" + local + "context = 1024\n", `the agent "writer" alone take `},
		{"nobody's", local + "context = 1024\n", ""},
		{"negative", local + "context = -1\n", "context = -1"},
	} {
		_, err := Load(Sources{Path: write(t, test.file), Required: true})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}
