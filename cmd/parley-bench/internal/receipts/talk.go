package receipts

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

//go:embed conversations.toml
var embedded []byte

// talk is one conversation as data.
type talk struct {
	Name  string `toml:"name"`
	Agent string `toml:"agent"` // "" = the server's default
	Reply string `toml:"reply"` // to questions that no turn waits for
	Rules bool   `toml:"rules"` // the scripted model's own rules answer its texts
	Turns []turn `toml:"turn"`

	Instructions string        `toml:"-"` // of the session
	Mode         string        `toml:"-"` // of its messages; "" = the server's default
	Everyday     *everydayTalk `toml:"-"` // nil = it is none
}

// turn is what a user does at one moment.
type turn struct {
	At       string     `toml:"at"`
	Say      string     `toml:"say"`
	Withdraw int        `toml:"withdraw"` // the turn, from 1, whose message is withdrawn
	Edit     int        `toml:"edit"`     // the turn whose message gets the text of this one
	Want     []string   `toml:"want"`     // what may become of the message
	Words    [][]string `toml:"words"`    // of each list one must be in the answer
	Play     string     `toml:"play"`     // what a good model does with it, as directives
	truth    *truth     // in place of words: of an everyday conversation
}

// The moments of a turn.
const (
	atOnce     = "once"
	atStep     = "step"
	atCall     = "call"
	atPart     = "part"
	atQuestion = "question"
	atRest     = "rest"
	atAny      = "any"
)

// What may become of a message (message_resolved).
const (
	answered   = "answered"
	merged     = "merged"
	dismissed  = "dismissed"
	withdrawn  = "withdrawn"
	unanswered = "unanswered"
)

const defaultReply = "Decide yourself what is best, and go on. Do not ask me again."

// readTalks reads conversations, and refuses those that cannot be judged.
func readTalks(data []byte) ([]talk, error) {
	var file struct {
		Talks []talk `toml:"conversation"`
	}
	if err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(&file); err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	for i := range file.Talks {
		t := &file.Talks[i]
		if t.Reply == "" {
			t.Reply = defaultReply
		}
		for n := range t.Turns {
			if err := t.Turns[n].complete(n, t.Turns[:n]); err != nil {
				return nil, fmt.Errorf("conversation %q, turn %d: %w", t.Name, n+1, err)
			}
		}
	}
	return file.Talks, nil
}

func (t *turn) complete(n int, before []turn) error {
	if t.At == "" {
		t.At = atOnce
	}
	if len(t.Want) == 0 {
		t.Want = []string{answered}
	}
	t.Play = strings.TrimSpace(t.Play)
	other := max(t.Withdraw, t.Edit)
	switch {
	case !slices.Contains([]string{atOnce, atStep, atCall, atPart, atQuestion, atRest, atAny}, t.At):
		return fmt.Errorf("there is no moment %q", t.At)
	case n == 0 && t.At != atOnce:
		return fmt.Errorf("the first turn cannot wait for %q", t.At)
	case other < 0 || other > n || other > 0 && before[other-1].Say == "":
		return fmt.Errorf("turn %d has said nothing before it", other)
	case t.Withdraw > 0 && t.Say != "" || t.Withdraw == 0 && t.Say == "":
		return fmt.Errorf("a turn says something, or withdraws")
	}
	for _, w := range t.Want {
		if !slices.Contains([]string{answered, merged, dismissed}, w) {
			return fmt.Errorf("a message cannot be wanted to be %q", w)
		}
	}
	for _, oneOf := range t.Words {
		if len(oneOf) == 0 {
			return fmt.Errorf("an empty list of words")
		}
	}
	return nil
}

// unknown is true if the turn has no ground truth.
func (t *turn) unknown() bool { return len(t.Words) == 0 && t.truth == nil }

// answeredBy is true if a text holds the ground truth of the turn.
func (t *turn) answeredBy(text string) bool {
	if t.truth != nil {
		return t.truth.in(text)
	}
	for _, oneOf := range t.Words {
		if !slices.ContainsFunc(oneOf, func(word string) bool { return holds(text, word) }) {
			return false
		}
	}
	return true
}

// holds is true if a text contains a word, upper and lower case alike. A word of Latin
// letters or digits must stand by itself: "Au" is not in "because", nor 7 in 17. Other
// scripts have no such ends of words.
func holds(text, word string) bool {
	text, word = strings.ToLower(text), strings.ToLower(word)
	first, _ := utf8.DecodeRuneInString(word)
	last, _ := utf8.DecodeLastRuneInString(word)
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:from])
		after, _ := utf8.DecodeRuneInString(text[to:])
		if (!inWord(first) || !inWord(before)) && (!inWord(last) || !inWord(after)) {
			return true
		}
		at = from + utf8.RuneLen(first)
	}
}

func inWord(r rune) bool {
	return unicode.IsDigit(r) || unicode.Is(unicode.Latin, r)
}
