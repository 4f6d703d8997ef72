package tokens

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
	}{
		{"", 0},
		{"a", 1},
		{"abcd", 1},
		{"abcde", 2},
		{"a b c d", 4}, // words win
		{" \n\t ", 1},
		{"  a  b  ", 2},
		{"äöü", 2},
		{"日本語のテキスト", 6},
		{strings.Repeat("x", 400), 100},
	} {
		if got := Of(test.text); got != test.want {
			t.Errorf("%q: %d tokens, want %d", test.text, got, test.want)
		}
	}
}
