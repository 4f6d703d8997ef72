package chat

import (
	"strings"
	"unicode"
)

// Clean takes out of a text what would command a terminal or turn the order of what
// it shows: control characters (C0 but line breaks and tabs, DEL, C1), the marks of
// text direction, and what is no UTF-8. A line break of any kind becomes "\n".
func Clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.NewReplacer("\r\n", "\n", "\u2028", "\n", "\u2029", "\n", "\u0085", "\n").Replace(text)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return r
		case unicode.IsControl(r):
			return -1
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		case r >= 0xE0000 && r <= 0xE007F: // tags: text that nobody sees
			return -1
		}
		return r
	}, text)
}

// pasted is Clean for what a terminal pastes: it sends a carriage return for the end of
// each line, as the key Enter does.
func pasted(text string) string {
	return Clean(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text))
}

// line is Clean for what must stay on one line.
func line(text string) string {
	return strings.Join(strings.Fields(Clean(text)), " ")
}
