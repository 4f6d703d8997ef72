package scripted

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// A pattern needs its needles: whatever it fits is let through to it, however the letters
// are written.
func TestNeedles(t *testing.T) {
	texts := []string{
		"", "x", "Actually, no", "do it INSTEAD", "do it in\u017ftead.", "bread", "WEATHER in Rome", "the w\u0065ather", "ma\u212ae it", "MAKE it", "m\u00e4ke",
		"k\u00e4se", "one two", "twotwo", "three", "a.b", strings.Repeat("no ", 1000) + "weather",
	}
	for _, c := range []struct {
		pattern string
		want    needles
	}{
		{`^actually\b|\binstead[.!]?$`, needles{"actually", "instead"}},
		{`\bweather\b(?:.*\bin ([^?.!]+))?`, needles{"weather"}},
		{`(make) it`, needles{"make"}},
		{`(?:two)+|three`, needles{"two", "three"}},
		{`^two`, nil},
		{`(^two)x`, nil},
		{`two?`, needles{"tw"}},
		{`k\x{e4}se`, nil},
		{`a.b`, needles{"a"}},
		{`.`, nil},
		{`one|`, nil},
		{`one|.`, nil},
		{`[xy]`, nil},
		{`(`, nil},
	} {
		got := needlesOf("(?is)" + c.pattern)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s needs %q, want %q", c.pattern, got, c.want)
		}
		match, err := regexp.Compile("(?is)" + c.pattern)
		if err != nil {
			continue
		}
		for _, text := range texts {
			h := haystack{text: text}
			if match.MatchString(text) && !h.mayMatch(got) {
				t.Errorf("%s fits %q and is not tried", c.pattern, text)
			}
		}
	}
	long := haystack{text: strings.Repeat("no ", 1000)}
	if long.mayMatch(needles{"weather"}) || !long.mayMatch(nil) {
		t.Error("a text without the needle is tried, or one of which nothing is known is not")
	}
}

// What an answer to a long text costs: no pattern may look at each place of it.
func BenchmarkLongText(b *testing.B) {
	m, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	r := conversation.Request{
		Session: "s1", Task: "t1-s1", Agent: conversation.Coordinator, Step: 1, Attempt: 1,
		Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1-s1", Message: "m1-s1", Text: strings.Repeat("the quick brown fox jumps ", 1<<20/26)}},
	}
	b.SetBytes(1 << 20)
	for b.Loop() {
		for range m.Stream(b.Context(), r) {
		}
	}
}
