package chat

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

func within(n int) func(string) bool {
	return func(s string) bool { return utf8.RuneCountInString(s) <= n }
}

// What becomes of texts that do not fit.
func TestPieces(t *testing.T) {
	family := "👨‍👩‍👧‍👦" // one character of seven code points
	for _, c := range []struct {
		name string
		text string
		how  Overflow
		max  int
		want []string
	}{
		{"it fits", "short", OverflowSplit, 5, []string{"short"}},
		{"none", "too long", OverflowNone, 5, nil},
		{"truncate", "one two three four five", OverflowTruncate, 20, []string{"one tw[...truncated]"}},
		{"truncate, and the mark fits just so", strings.Repeat("x", 30), OverflowTruncate, 14, []string{"[...truncated]"}},
		{"truncate whole characters", "ab" + family + strings.Repeat("c", 30), OverflowTruncate, 20, []string{"ab[...truncated]"}},
		{"paragraphs", "one\n\ntwo\n\nthree", OverflowSplit, 10, []string{"one\n\ntwo", "three"}},
		{"lines", "one\ntwo\nthree", OverflowSplit, 8, []string{"one\ntwo", "three"}},
		{"sentences", "It is. It was so.", OverflowSplit, 12, []string{"It is.", "It was so."}},
		{"words", "one two three", OverflowSplit, 9, []string{"one two", "three"}},
		{"one long word", "abcdefghij", OverflowSplit, 4, []string{"abcd", "efgh", "ij"}},
		{"whole characters", "a" + family + family, OverflowSplit, 10, []string{"a" + family, family}},
		{"code that fits goes to the next piece whole", "some words here\n```go\na\nb\n```", OverflowSplit, 26, []string{"some words here", "```go\na\nb\n```"}},
		{"code that does not fit is closed and opened again", "```go\nline1\nline2\nline3\n```", OverflowSplit, 22, []string{"```go\nline1\nline2\n```", "```go\nline3\n```"}},
		{"code on the fence's own line is text", "```" + strings.Repeat("x", 100), OverflowSplit, 60, []string{"```" + strings.Repeat("x", 57), strings.Repeat("x", 43)}},
		{"so is code between fences on one line", "```a```\nfour five six seven", OverflowSplit, 16, []string{"```a```", "four five six", "seven"}},
	} {
		got := pieces(c.text, c.how, within(c.max))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Whatever the text: each piece fits, no character is cut or lost but spaces, and blocks of code are
// whole in each piece.
func TestRandomPieces(t *testing.T) {
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("PARLEY_SEED"), 10, 64); err == nil {
		seed = s
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	words := []string{"a", "word", "longer-word", ". ", " ", "\n", "\n\n", "é", "👨‍👩‍👧‍👦", "\n```\n", "\n```go\n", "x\ny\n", "日本語", "🇩🇪"}
	for range 3000 {
		var b strings.Builder
		for range rnd.IntN(60) {
			b.WriteString(words[rnd.IntN(len(words))])
		}
		text, most := b.String(), 24+rnd.IntN(60)
		fits := func(s string) bool { return len(utf16.Encode([]rune(s))) <= most }
		all := pieces(text, OverflowSplit, fits)
		var left strings.Builder
		for i, p := range all {
			if !fits(p) {
				t.Fatalf("PARLEY_SEED=%d: %q does not fit %d; the text was %q", seed, p, most, text)
			}
			if i < len(all)-1 && openFence(p) != "" {
				t.Fatalf("PARLEY_SEED=%d: %q ends in a block of code; the text was %q", seed, p, text)
			}
			left.WriteString(p)
		}
		bare := func(s string) string {
			return strings.Join(strings.Fields(strings.ReplaceAll(strings.ReplaceAll(s, "```go", ""), "```", "")), "")
		}
		if bare(left.String()) != bare(text) {
			t.Fatalf("PARLEY_SEED=%d: %q became %q", seed, text, all)
		}
		if n := uniseg.GraphemeClusterCount(bare(left.String())); n != uniseg.GraphemeClusterCount(bare(text)) {
			t.Fatalf("PARLEY_SEED=%d: a character was cut in %q", seed, all)
		}
		if one := pieces(text, OverflowTruncate, fits); len(one) != 1 || !fits(one[0]) {
			t.Fatalf("PARLEY_SEED=%d: truncated to %q", seed, one)
		}
	}
}
