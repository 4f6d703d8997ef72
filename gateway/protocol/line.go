package protocol

import (
	"strings"
	"unicode"
)

// Line is a text for people in one line: without the characters that would move the
// cursor of a terminal, colour it, or turn the direction of what stands behind them.
func Line(s string) string {
	if strings.IndexFunc(s, steers) < 0 {
		return s
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t', r == '\u2028', r == '\u2029':
			return ' '
		case steers(r):
			return -1
		}
		return r
	}, s))
}

// steers is true for controls (C0, C1), line separators and controls of direction.
func steers(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}
