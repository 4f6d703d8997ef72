package search

import (
	"slices"
	"strings"
	"unicode/utf8"

	"parley/conversation"
)

// MostQuery bounds a query, in code points.
const MostQuery = 200

// Query is what is searched for: words.
type Query struct{ needles []string }

// Read reads a query of at most so many words. Its error is a *conversation.Error.
func Read(text string, most int) (q Query, err error) {
	if n := utf8.RuneCountInString(text); n > MostQuery {
		return Query{}, conversation.Errorf(conversation.BadRequest, "q has %d characters, which are more than %d", n, MostQuery)
	}
	folded := Fold(text)
	for word := range strings.FieldsSeq(folded) {
		needle := " " + word
		if r, _ := utf8.DecodeRuneInString(word); kindOf(r) == ofScript {
			needle = word
		}
		q.needles = append(q.needles, needle)
	}
	switch {
	case len(q.needles) == 0:
		return Query{}, conversation.Errorf(conversation.BadRequest, "q has no word to search for")
	case len(q.needles) > most:
		return Query{}, conversation.Errorf(conversation.BadRequest, "q has %d words, which are more than %d", len(q.needles), most)
	}
	return q, nil
}

// In is true if all words are in a folded text. No words are in any.
func (q Query) In(folded string) bool {
	for _, n := range q.needles {
		if !strings.Contains(folded, n) {
			return false
		}
	}
	return true
}

// Fits is true if all words are in a text. No words are in any.
func (q Query) Fits(text string) bool { return len(q.needles) == 0 || q.In(Fold(text)) }

// Span is a part of a text, in code points: from the first to behind the last.
type Span struct{ From, To int }

// marks are the places of the words in a text, in order; none overlaps another.
func (q Query) marks(text string) (all []Span) {
	f := folder{at: make([]int32, 0, len(text))}
	f.text(text)
	folded := string(f.out)
	marked := make([]bool, len(folded))
	for _, n := range q.needles {
		for at := 0; ; {
			i := strings.Index(folded[at:], n)
			if i < 0 {
				break
			}
			for j := at + i; j < at+i+len(n); j++ {
				marked[j] = folded[j] != ' '
			}
			at += i + len(n)
		}
	}
	for i, is := range marked {
		if !is {
			continue
		}
		from := int(f.at[i])
		switch last := len(all) - 1; {
		case last >= 0 && from < all[last].To: // the same character
		case last >= 0 && i > 0 && marked[i-1] && from == all[last].To:
			all[last].To = from + 1
		default:
			all = append(all, Span{from, from + 1})
		}
	}
	accented(text, all)
	return all
}

// accented has marks end behind the accents of their last letters.
func accented(text string, all []Span) {
	n, i := 0, 0
	for _, r := range text {
		for i < len(all) && all[i].To < n {
			i++
		}
		if i < len(all) && all[i].To == n && (kindOf(r) == silent || kindOf(r) == joined) {
			if all[i].To++; i+1 < len(all) {
				all[i].To = min(all[i].To, all[i+1].From)
			}
		}
		n++
	}
}

// Needles are what a folded text must contain, each of them.
func (q Query) Needles() []string { return slices.Clone(q.needles) }
