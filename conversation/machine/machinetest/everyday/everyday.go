package everyday

import (
	_ "embed"
	"fmt"
	"strings"
)

// Talk is one conversation.
type Talk struct {
	Language string // an ISO 639-1 code: en, de, fr, es, ja, zh
	Kind     string // alike, unlike, amendment, chain, thanks or correction
	Same     bool   // two messages rightly have the same answer
	Messages []Utterance
}

// Utterance is a message that a person writes, with its answer.
type Utterance struct {
	Text     string
	Answer   string
	Reworded string // the same in other words
	Foreign  string // the same in another language than the conversation's
}

// Says is true for a text that has the answer to the message, in whatever words.
func (m Utterance) Says(text string) bool {
	return strings.Contains(text, m.Answer) || strings.Contains(text, m.Reworded) || strings.Contains(text, m.Foreign)
}

//go:embed corpus.txt
var corpus string

// Talks are all conversations, in the order of the file. An error names the line that is
// none.
func Talks() ([]Talk, error) { return read(corpus) }

func read(text string) (all []Talk, err error) {
	for i, line := range strings.Split(text, "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		var talk *Talk
		if len(all) > 0 {
			talk = &all[len(all)-1]
		}
		switch {
		case line == "", mark == "#":
			continue
		case mark == "==":
			head := strings.Fields(rest)
			if len(head) < 2 || len(head) > 3 || len(head) == 3 && head[2] != "same" {
				return nil, fmt.Errorf("line %d: %q is no head of a conversation", i+1, line)
			}
			all = append(all, Talk{Language: head[0], Kind: head[1], Same: len(head) == 3})
			continue
		case talk == nil:
			return nil, fmt.Errorf("line %d stands before the first conversation", i+1)
		case mark == "?":
			talk.Messages = append(talk.Messages, Utterance{Text: rest})
			continue
		case len(talk.Messages) == 0:
			return nil, fmt.Errorf("line %d: an answer without a message", i+1)
		}
		m := &talk.Messages[len(talk.Messages)-1]
		switch mark {
		case "=":
			m.Answer = rest
		case "~":
			m.Reworded = rest
		case "*":
			m.Foreign = rest
		default:
			return nil, fmt.Errorf("line %d: what does %q mean?", i+1, mark)
		}
	}
	return all, nil
}
