package everyday

import (
	"slices"
	"strings"
	"testing"
)

// TestTalks: a text tells which message it answers, and there are enough of each kind.
func TestTalks(t *testing.T) {
	talks, err := Talks()
	if err != nil {
		t.Fatal(err)
	}
	languages, kinds, first := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, talk := range talks {
		languages[talk.Language]++
		kinds[talk.Kind]++
		if n := len(talk.Messages); n < 2 || n > 3 || first[talk.Messages[0].Text] {
			t.Errorf("%q: %d messages, or it begins as another", talk.Messages[0].Text, n)
		}
		first[talk.Messages[0].Text] = true
		for i, m := range talk.Messages {
			if m.Text == "" || slices.Contains([]string{m.Answer, m.Reworded, m.Foreign}, "") || m.Answer == m.Reworded || m.Answer == m.Foreign || m.Reworded == m.Foreign {
				t.Errorf("%q lacks an answer, or has one twice", m.Text)
			}
			for j, other := range talk.Messages {
				for _, said := range []string{m.Answer, m.Reworded, m.Foreign} {
					if i != j && !talk.Same && other.Says(said) {
						t.Errorf("%q: %q answers %q as well", m.Text, said, other.Text)
					}
				}
			}
		}
	}
	if len(talks) < 200 || len(languages) != 6 || len(kinds) != 6 {
		t.Errorf("%d conversations in %v of %v", len(talks), languages, kinds)
	}
	for _, n := range languages {
		if n < 20 {
			t.Errorf("too few of a language: %v", languages)
		}
	}
	for _, n := range kinds {
		if n < 20 {
			t.Errorf("too few of a kind: %v", kinds)
		}
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"? a":                  "line 1 stands before",
		"== en":                "no head",
		"== en alike other":    "no head",
		"== en alike\n= a":     "without a message",
		"== en alike\n? a\n%b": "what does",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
