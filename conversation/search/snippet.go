package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

const (
	// MostSnippet bounds a snippet, in code points.
	MostSnippet = 200
	// before is how much of it stands before the first word that was found.
	before = 60
)

// Snippet is what is shown of a text: one line around the first word that was found, cut
// between what people take for characters. The marks say where in it the words are.
func (q Query) Snippet(text string) (line string, marks []Span) {
	text = oneLine(text)
	found := q.marks(text)
	first := 0
	if len(found) > 0 {
		first = found[0].From
	}
	total := utf8.RuneCountInString(text)
	if total <= MostSnippet {
		return text, found
	}
	from, room := 0, MostSnippet-1 // for the mark of a cut behind it
	if first > before {
		from, room = first-before, MostSnippet-2
	}
	line, from, to := window(text, from, first, room)
	shift := from
	if from > 0 {
		line, shift = "…"+line, from-1
	}
	if to < total {
		line += "…"
	}
	for _, m := range found {
		if m.From, m.To = max(m.From, from), min(m.To, to); m.From < m.To { // of a very long word what is shown
			marks = append(marks, Span{m.From - shift, m.To - shift})
		}
	}
	return line, marks
}

// window is about room code points of a text from about one of them on, in whole characters;
// at the front it begins with a word where one begins before first. Of a character at first
// that is too long there is a part.
func window(text string, from, first, room int) (line string, begin, end int) {
	var out strings.Builder
	begin, n, space := -1, 0, false
	for left, state := text, -1; left != ""; {
		var g string
		g, left, _, state = uniseg.FirstGraphemeClusterInString(left, state)
		size := utf8.RuneCountInString(g)
		begins := n >= from && (from == 0 || space || n >= first || n >= from+before/2)
		if begin < 0 && (begins || n+size > first) {
			begin = n
		}
		if begin >= 0 {
			if n+size-begin > room {
				if n <= first && first < n+size { // nobody writes so many accents, but it was found
					part := string([]rune(g)[:room-(n-begin)])
					out.WriteString(part)
					n = begin + room
				}
				break
			}
			out.WriteString(g)
		}
		n += size
		space = g == " "
	}
	return out.String(), max(begin, 0), n
}

// oneLine makes one line of a text up to MostText, without what moves the text around it.
func oneLine(text string) string {
	if len(text) > MostText {
		text = text[:MostText]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r), r == utf8.RuneError: // which end a word, as in Fold
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
