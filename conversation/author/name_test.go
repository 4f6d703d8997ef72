package author

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// N-18. A name is short and of nothing but what one sees.
func TestName(t *testing.T) {
	for said, want := range map[string]string{
		"":                       "",
		"Ann":                    "Ann",
		"Ann Smith-O'Hara (QA)":  "Ann Smith-O'Hara (QA)",
		"Zoë 山田":                 "Zoë 山田",
		"  Ann\t\n Smith\u2028 ": "Ann Smith",
		"Ann\u202Eevil\u202C":    "Annevil",
		"\u200bAnn\ufeff":        "Ann",
		"A\x00n\x1b[2Jn\x7f":     "An[2Jn",
		"Ann\u3164":              "Ann", // a filler that looks like nothing
		"\u2066\u2069":           "",
		"a\xffb":                 "a\uFFFDb",
	} {
		if got := Name(said); got != want {
			t.Errorf("Name(%q) = %q, want %q", said, got, want)
		}
	}
	long := Name(strings.Repeat("ö", 100))
	if len(long) != MaxName || !utf8.ValidString(long) {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

// Whatever is said, a name stays one when it is taken as one again.
func TestNameAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := Name(rapid.String().Draw(t, "said"))
		if Name(name) != name || len(name) > MaxName || strings.ContainsFunc(name, hidden) || strings.ContainsAny(name, "\n\r\u0085") {
			t.Fatalf("%q, then %q", name, Name(name))
		}
	})
}
