package state

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/conversation"
)

// opening is the first message of a session: a session that nobody has given a title
// is called by its first words. Stored in snapshots.
type opening struct {
	Message uint32
	Text    string // its first words
}

// title is what the session is called in lists and views.
func (st *State) title() string {
	if st.Title == "" && st.Opening != nil {
		return st.Opening.Text
	}
	return st.Title
}

// opens takes a message for the first one if there is none. A clear changes nothing:
// it is still the conversation's first message.
func (st *State) opens(n uint32, text string) {
	if st.Opening == nil {
		st.Opening = &opening{Message: n, Text: FirstWords(text)}
	}
}

// openingEdited takes that a message says something else.
func (st *State) openingEdited(n uint32, text string) {
	if st.Opening != nil && st.Opening.Message == n {
		st.Opening = &opening{Message: n, Text: FirstWords(text)}
	}
}

// openingWithdrawn takes that a message is withdrawn: what it said names nothing any
// more. The oldest other one that waits or is worked on is the first then, else the
// next to come.
func (st *State) openingWithdrawn(n uint32) {
	if st.Opening == nil || st.Opening.Message != n {
		return
	}
	st.Opening = nil
	var oldest *Message
	for _, t := range st.Tasks {
		for _, m := range t.Messages {
			if other := conversation.Ordinal(string(m.ID), 'm'); other != n && (oldest == nil || m.Seq < oldest.Seq) {
				oldest = m
			}
		}
	}
	if oldest != nil {
		st.opens(conversation.Ordinal(string(oldest.ID), 'm'), oldest.Text)
	}
}

// FirstWords are the words with which a text begins, in one line: at most
// ExcerptLength code points and a mark of the cut, which comes between two words
// where there are some. What moves the text around it on a screen is left out.
func FirstWords(text string) string {
	text = conversation.Excerpt(text, 16*ExcerptLength) // white space may be long
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r), r == utf8.RuneError:
			return -1
		default:
			return r
		}
	}, text)
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) <= ExcerptLength {
		return string(line)
	}
	cut := ExcerptLength
	for i := cut; i > ExcerptLength/2; i-- {
		if line[i] == ' ' {
			cut = i
			break
		}
	}
	return string(line[:cut]) + "…"
}
