package state

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/attached"
)

// opening is the first message of a session that has words: a session that nobody has given
// a title is called by them. Until there are words it is the first one with files, and their
// names. Stored in snapshots.
type opening struct {
	Message uint32 // with ofFiles
	Text    string // its first words; "" in snapshots of before: none
}

// ofFiles marks the number of a message that has no words. It needs no field of its own, so
// snapshots stay what they were.
const ofFiles = 1 << 31

// title is what the session is called in lists and views.
func (st *State) title() string {
	if st.Title == "" && st.Opening != nil {
		return st.Opening.Text
	}
	return st.Title
}

// opens takes a message for the first one if there is none, or none with words. A clear
// changes nothing: it is still the conversation's first message.
func (st *State) opens(n uint32, text string, files []attached.File) {
	unsaid := st.Opening == nil || st.Opening.Text == ""
	if !unsaid && st.Opening.Message&ofFiles == 0 {
		return
	}
	if words := FirstWords(text); words != "" {
		st.Opening = &opening{Message: n, Text: words}
		return
	}
	if unsaid && len(files) > 0 {
		names := make([]string, len(files))
		for i, f := range files {
			names[i] = f.Name
		}
		st.Opening = &opening{Message: n | ofFiles, Text: FirstWords(strings.Join(names, ", "))}
	}
}

// openingEdited takes that a message says something else.
func (st *State) openingEdited(id conversation.MessageID, text string) {
	n := conversation.Ordinal(string(id), 'm')
	if st.Opening != nil && st.Opening.Message&^ofFiles == n {
		st.Opening = nil
	}
	var files []attached.File
	if _, m := st.Message(id); m != nil {
		files = m.Files
	}
	st.opens(n, text, files)
}

// openingWithdrawn takes that a message is withdrawn: what it said names nothing any
// more. The oldest other one that waits or is worked on is the first then, else the
// next to come.
func (st *State) openingWithdrawn(n uint32) {
	if st.Opening == nil || st.Opening.Message&^ofFiles != n {
		return
	}
	st.Opening = nil
	var others []*Message
	for _, t := range st.Tasks {
		for _, m := range t.Messages {
			if conversation.Ordinal(string(m.ID), 'm') != n {
				others = append(others, m)
			}
		}
	}
	slices.SortFunc(others, func(a, b *Message) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, m := range others {
		st.opens(conversation.Ordinal(string(m.ID), 'm'), m.Text, m.Files)
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
