package receipts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// TestTry: D-24 N-15. What a text that names no message answers.
func TestTry(t *testing.T) {
	const (
		login   = "Fix the login bug"
		weather = "What is the weather in Rome?"
		menu    = "Show me the lunch menu"
	)
	for _, c := range []struct {
		name     string
		text     []string
		open     []string // a "!" before it: it was nudged for
		answered []string // parts that answered other messages
		want     string   // message:evidence@item …
	}{
		{"one open message is answered by any text", []string{"Done."}, []string{login}, nil, "m1:only@0"},
		{"also by one without a significant word", []string{"Ok!"}, []string{login}, []string{"Rome is sunny"}, "m1:only@0"},
		{"of several items the last one counts", []string{"It was a typo.", "Done."}, []string{login}, nil, "m1:only@1"},
		{"after a nudge the evidence is another", []string{"Done."}, []string{"!" + login}, nil, "m1:asked@0"},
		{"no text answers nothing", nil, []string{login}, nil, ""},
		{"nothing is open", []string{"Done."}, nil, nil, ""},

		{"a repetition", []string{"Rome is sunny."}, []string{login}, []string{"Rome is sunny today"}, ""},
		{"less than half of the words are none", []string{"Rome has a new login page"}, []string{"Mail Ann"}, []string{"Rome is sunny"}, "m1:only@0"},
		{"half of them are", []string{"Rome sunny login fixed"}, []string{"Mail Ann"}, []string{"Rome is sunny"}, ""},
		{"after a nudge one word is", []string{"The mail for Ann went to Rome"}, []string{"!Call Bob"}, []string{"Rome is sunny"}, ""},
		{"after a nudge a text without significant words is none", []string{"Ok."}, []string{"!Call Bob"}, []string{"Rome is sunny"}, "m1:asked@0"},
		{"a repetition that has the message's words", []string{"Rome is sunny; the lunch menu has soup"}, []string{"!" + menu}, []string{"Rome is sunny"}, "m1:words@0"},

		{"of two open ones none, without words", []string{"Done."}, []string{login, weather}, nil, ""},
		{"one word is not enough", []string{"The weather is fine."}, []string{login, "Weather?"}, nil, ""},
		{"two words are", []string{"The weather in Rome is fine."}, []string{login, weather}, nil, "m2:words@0"},
		{"two of five are not half", []string{"The garden and the house are fine."}, []string{login, "Water garden, house, tree, lawn"}, nil, ""},
		{"three of five are", []string{"The garden, the lawn and the house are fine."}, []string{login, "Water garden, house, tree, lawn"}, nil, "m2:words@0"},
		{"words that two open messages share count for neither", []string{"The login page works."}, []string{"Fix login page", "Test login page"}, nil, ""},
		{"words of a part that answered another do not count", []string{"The weather in Rome is fine."}, []string{login, weather}, []string{"The weather in Rome: see above"}, ""},
		{"each item answers what it has the words of", []string{"The login page is new.", "Lunch menu: soup.", "Bye."}, []string{"Fix the login page", menu}, nil, "m1:words@0 m2:words@1"},
		{"the words may be spread over the items", []string{"Lunch is soup.", "The menu has it."}, []string{login, menu}, nil, "m2:words@1"},
		{"case and marks do not matter", []string{"ROME (weather)"}, []string{login, weather}, nil, "m2:words@0"},
		{"the same word twice is one word", []string{"Lunch, lunch, lunch."}, []string{login, menu}, nil, ""},
		{"a word of three letters is none", []string{"Ann, Bob."}, []string{login, "Ann, Bob"}, nil, ""},
		{"a common word is none", []string{"Please tell them."}, []string{login, "Please tell them"}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var open []Open
			for i, text := range c.open {
				plain := strings.TrimPrefix(text, "!")
				open = append(open, Open{conversation.MessageID(fmt.Sprintf("m%d", i+1)), OfMessage(plain), plain != text})
			}
			var text, answered []Words
			for _, item := range c.text {
				text = append(text, WordsOf(item))
			}
			for _, part := range c.answered {
				answered = append(answered, OfPart(part))
			}
			if got := describe(Try(text, open, answered)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func describe(proofs []Proof) string {
	var all []string
	for _, r := range proofs {
		all = append(all, fmt.Sprintf("%s:%s@%d", r.Message, r.Evidence, r.Item))
	}
	return strings.Join(all, " ")
}

func TestSeen(t *testing.T) {
	open := []Open{{Message: "m1"}, {Message: "m2", Nudged: true}}
	if got := describe(Seen([]Words{nil, nil}, open)); got != "m1:seen@1 m2:seen@1" {
		t.Errorf("%q", got)
	}
	if got := Seen(nil, open); got != nil {
		t.Errorf("without a text: %v", got)
	}
}

// A text that is longer than what is remembered of one still repeats itself, and a
// message that is longer is still answered by its beginning.
func TestBounds(t *testing.T) {
	var long []string
	for i := range 3 * PartWords {
		long = append(long, fmt.Sprintf("word%d", i))
	}
	text := strings.Join(long, " ")
	if n := len(OfPart(text)); n != PartWords {
		t.Errorf("%d words of a part", n)
	}
	if n := len(OfMessage(text)); n != MessageWords {
		t.Errorf("%d words of a message", n)
	}
	if n := len(WordsOf(text)); n != len(long) {
		t.Errorf("%d of %d words", n, len(long))
	}
	one := []Open{{Message: "m1", Words: OfMessage("Call Bob")}}
	if got := Try([]Words{WordsOf(text)}, one, []Words{OfPart(text)}); len(got) > 0 {
		t.Errorf("a long repetition answers: %s", describe(got))
	}
	two := []Open{{Message: "m1", Words: OfMessage(text)}, {Message: "m2"}}
	if got := describe(Try([]Words{WordsOf(text)}, two, nil)); got != "m1:words@0" {
		t.Errorf("%q", got)
	}
}

// Words are hashed alone: what stands between them and their case say nothing.
func TestWordsOf(t *testing.T) {
	if got, want := WordsOf("Größe, größe: GRÖSSE? naïve 2024"), WordsOf("größe grösse NAÏVE 2024"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := WordsOf(" … the and for you 12 "); len(got) > 0 {
		t.Errorf("small words count: %v", got)
	}
}
