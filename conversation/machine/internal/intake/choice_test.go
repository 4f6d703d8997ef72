package intake

import "testing"

// N-04: what counts as one of the choices of a question.
func TestChoice(t *testing.T) {
	colours := []string{"Red", "Dark green", "red"}
	for _, c := range []struct {
		name    string
		choices []string
		text    string
		choice  string // "" = none
		number  string // by its number, if it is no choice
	}{
		{"its text", colours, "Dark green", "Dark green", ""},
		{"another case", colours, " dark GREEN\n", "Dark green", ""},
		{"punctuation at the end", colours, "dark green!", "Dark green", ""},
		{"of two that differ in case the exact one", colours, "red", "red", ""},
		{"else the first", colours, "RED.", "Red", ""},
		{"within a sentence", colours, "I think red", "", ""},
		{"a part of it", colours, "dark", "", ""},
		{"nothing", colours, "", "", ""},
		{"punctuation alone", colours, "?!", "", ""},
		{"its number", colours, "2", "", "Dark green"},
		{"its number with a full stop", colours, "2.", "", "Dark green"},
		{"its number in brackets", colours, "2)", "", "Dark green"},
		{"a number that there is not", colours, "4", "", ""},
		{"zero", colours, "0", "", ""},
		{"less than zero", colours, "-1", "", ""},
		{"a sign", colours, "+2", "", ""},
		{"another way to write a number", colours, "02", "", ""},
		{"a choice that is a number goes first", []string{"3", "2", "1"}, "1", "1", ""},
		{"a choice with punctuation at its end", []string{"Why not?", "No."}, "why not", "Why not?", ""},
		{"a choice that is punctuation", []string{"?", "!"}, "!", "!", ""},
		{"other languages", []string{"Größer", "東京。"}, "GRÖSSER", "", ""},
		{"their full stop", []string{"Größer", "東京"}, "東京。", "東京", ""},
		{"their case", []string{"Größer"}, "GRÖßER", "Größer", ""},
		{"no choices", nil, "1", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, is := Choice(c.choices, c.text); got != c.choice || is != (c.choice != "") {
				t.Errorf("Choice: %q, %v", got, is)
			}
			want := c.choice + c.number
			if got, is := NumberedChoice(c.choices, c.text); got != want || is != (want != "") {
				t.Errorf("NumberedChoice: %q, %v, want %q", got, is, want)
			}
		})
	}
}

// what asks in plain text.
func TestLastQuestion(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"Which one?", "Which one?"},
		{"I looked.\n\nA) Flat\nB) Nested?\n", "A) Flat\nB) Nested?"},
		{"I looked. Shall I go on?", "I looked. Shall I go on?"},
		{"**Which one?**", "**Which one?**"},
		{"どれですか？", "どれですか？"},
		{"Why? Because.", ""},
		{"Which one?\n\nTell me.", ""},
		{"He asked \"why?\"", ""},
		{"Which one?\n \t\nTell me.", ""},
		{"", ""},
	} {
		if got, asks := LastQuestion(c.text); asks != (c.want != "") || asks && got != c.want {
			t.Errorf("%q: %q, %v", c.text, got, asks)
		}
	}
}
