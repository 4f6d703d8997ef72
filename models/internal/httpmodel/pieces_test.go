package httpmodel

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestPieces(t *testing.T) {
	for name, c := range map[string]struct {
		raw  []string
		want []string // what each piece shows, and the rest behind them
	}{
		"whole":                   {[]string{`"a\ud83d\ude00b"`, `"c"`}, []string{"a😀b", "c", ""}},
		"cut in two":              {[]string{`"a\ud83d"`, `"\ude00b"`}, []string{"a", "😀b", ""}},
		"in upper case":           {[]string{`"\uD83D"`, `"\uDE00"`}, []string{"", "😀", ""}},
		"with nothing between":    {[]string{`"a\ud83d"`, `""`, `null`, `"\ude00"`}, []string{"a", "", "", "😀", ""}},
		"two in a row":            {[]string{`"\ud83d"`, `"\ude00\ud83d"`, `"\ude01"`}, []string{"", "😀", "😁", ""}},
		"alone":                   {[]string{`"a\ud83d"`, `"b"`}, []string{"a", "\uFFFDb", ""}},
		"alone at the end":        {[]string{`"a\ud83d"`}, []string{"a", "\uFFFD"}},
		"the second half alone":   {[]string{`"a"`, `"\ude00b"`}, []string{"a", "\uFFFDb", ""}},
		"two first halves":        {[]string{`"\ud83d"`, `"\ud83d"`, `"\ude00"`}, []string{"", "\uFFFD", "😀", ""}},
		"in the text, no escape":  {[]string{`"a\\ud83d"`, `"\\ude00"`}, []string{`a\ud83d`, `\ude00`, ""}},
		"behind a real backslash": {[]string{`"a\\\ud83d"`, `"\ude00"`}, []string{`a\`, "😀", ""}},
		"no half":                 {[]string{`"\ud7ff"`, `"\u00d8"`, `"x"`}, []string{"\ud7ff", "Ø", "x", ""}},
		"no strings":              {[]string{`7`, `{"a":1}`, ``, `"`}, []string{"", "", "", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pieces
			var got []string
			for _, raw := range c.raw {
				given := json.RawMessage(raw)
				got = append(got, p.Next(given))
				if string(given) != raw {
					t.Errorf("the piece %s was written to: %s", raw, given)
				}
			}
			if got = append(got, p.Rest()); !slices.Equal(got, c.want) {
				t.Errorf("shown is %q, not %q", got, c.want)
			}
		})
	}
}
