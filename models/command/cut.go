package command

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// cutMark ends a text that was too long.
const cutMark = "[...truncated]"

// truncate cuts a text to at most limit code points, mark included, between two
// graphemes. cut marks a text that fits as well: its end was lost before.
func truncate(text string, limit int, cut bool) string {
	if !cut && utf8.RuneCountInString(text) <= limit {
		return text
	}
	return text[:prefixWithin(text, limit)] + cutMark
}

// prefixWithin returns how many bytes of a text fit before the mark: whole graphemes only.
func prefixWithin(text string, limit int) int {
	limit -= utf8.RuneCountInString(cutMark)
	// A grapheme that crosses the limit begins before it, so what is far behind
	// the limit need not be looked at, however long the text is.
	head := text
	if end := runes(text, limit+1); end < len(text) {
		head = text[:end]
	}
	size, count, state := 0, 0, -1
	for rest := head; rest != ""; {
		var grapheme string
		grapheme, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if count += utf8.RuneCountInString(grapheme); count > limit {
			break
		}
		size += len(grapheme)
	}
	return size
}

// runes returns how many bytes the first n code points of a text have.
func runes(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// clean makes a text of output bytes: valid UTF-8 without blank lines around it.
func clean(output string) string {
	text := strings.TrimRight(strings.ToValidUTF8(output, "\uFFFD"), " \t\r\n\v\f\x00")
	for {
		line, rest, found := strings.Cut(text, "\n")
		if !found || strings.TrimSpace(line) != "" {
			return text
		}
		text = rest
	}
}
