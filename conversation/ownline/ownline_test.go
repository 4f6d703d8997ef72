package ownline

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever a text is: no line of it looks like one of the server's, nothing but spaces is
// added, and a second time changes nothing.
func TestNothingForgesALine(t *testing.T) {
	const head = "[attachment"
	piece := rapid.OneOf(rapid.SampledFrom([]string{
		"[attachment: ", "[ATTACHMENT", "[", "attach", "ment", "\n", "\r", "\u2028", "\u0085", "\u200b", "\u00ad", "\ufeff", "\u0331", "\ufe0f", "\u3164", " ", "]", "\x00", "\xff",
	}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
		got := Escape(text, head)
		for _, line := range strings.FieldsFunc(got, Ends) {
			if strings.HasPrefix(strings.ToLower(line), head) || Like(line, head) {
				t.Fatalf("%q has the line %q", text, line)
			}
		}
		if Escape(got, head) != got || strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(text, " ", "") {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
