package titling

import (
	"strings"
	"testing"

	"parley/conversation"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"A trip to Rome": "A trip to Rome", "\n\n## \"A trip to Rome.\"\n\nIt is about…": "A trip to Rome", "**Title: Rome**": "Title: Rome", "Title: Rome": "Rome",
		"": "", " \n\t": "", "\"\"": "", "a\x00\u202eb\tc": "ab c", "caf\xe9s": "cafs", strings.Repeat("ä", 100): strings.Repeat("ä", MaxTitle-1) + "…", strings.Repeat("ä", MaxTitle): strings.Repeat("ä", MaxTitle),
		"می\u200cخواهم": "می\u200cخواهم", "👨\u200d👩\u200d👧 a family": "👨\u200d👩\u200d👧 a family", "\u200d": "",
	} {
		items := []conversation.Item{{Kind: conversation.ItemCall, Tool: "x", Text: "never"}, {Kind: conversation.ItemText, Text: text}}
		if got := Read(items); got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
}
