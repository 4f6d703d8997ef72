package ownline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape puts a space before each line of a text that begins like head (Like). What has
// been escaped stays as it is. head begins with "[".
func Escape(text, head string) string {
	if !strings.Contains(text, "[") {
		return text // as nearly all
	}
	var b strings.Builder
	done := 0
	for at := 0; at < len(text); {
		if Like(text[at:], head) {
			b.WriteString(text[done:at])
			b.WriteByte(' ')
			done = at
		}
		next := strings.IndexFunc(text[at:], Ends)
		if next < 0 {
			break
		}
		_, n := utf8.DecodeRuneInString(text[at+next:])
		at += next + n
	}
	if done == 0 && b.Len() == 0 {
		return text
	}
	return b.String() + text[done:]
}

// Like is true for a line that begins as head does, which is ASCII in lower case, in any
// case and with anything that one does not see in between.
func Like(line, head string) bool {
	for _, r := range line {
		switch {
		case Ends(r):
			return false
		case Unseen(r):
			continue
		case unicode.ToLower(r) != rune(head[0]):
			return false
		}
		if head = head[1:]; head == "" {
			return true
		}
	}
	return false
}

// Ends is true for the characters that end a line, for whoever reads it.
func Ends(r rune) bool {
	switch r {
	case '\n', '\v', '\f', '\r', '\x1c', '\x1d', '\x1e', '\u0085', '\u2028', '\u2029':
		return true
	}
	return false
}

// Unseen is true for what nobody sees as a character of its own, but for ends of lines:
// controls, fillers, marks on the character before, what nobody has given a meaning to.
func Unseen(r rune) bool {
	return !Ends(r) && (!unicode.IsGraphic(r) || unicode.In(r, unicode.Mn, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector))
}
