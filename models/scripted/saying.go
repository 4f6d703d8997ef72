package scripted

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// saying are texts that were said, by their words.
type saying map[string]bool

// add notes a text: itself and its words.
func (s saying) add(text string) {
	s[text] = true
	for _, word := range longWords(text) {
		s[word] = true
	}
}

// like reports whether a text was said, or a third of its words: the session takes one
// half of those that are not common for a repetition.
func (s saying) like(text string) bool {
	if s[text] {
		return true
	}
	words, n := longWords(text), 0
	for _, word := range words {
		if s[word] {
			n++
		}
	}
	return n > 0 && 3*n >= len(words)
}

// longWords are the words of at least four letters.
func longWords(text string) []string {
	var words []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if utf8.RuneCountInString(word) >= 4 {
			words = append(words, strings.ToLower(word))
		}
	}
	return words
}
