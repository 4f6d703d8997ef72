package fit

import (
	"fmt"
	"unicode/utf8"
)

// Middle keeps the head and the tail of a text of more than limit bytes, whole
// code points of it, and says between them how much is missing.
func Middle(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	mark := fmt.Sprintf("\n[… %d bytes left out …]\n", len(text)-limit)
	keep := max(limit-len(mark), 0)
	head, tail := keep*3/4, keep-keep*3/4
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	from := len(text) - tail
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return text[:head] + mark + text[from:]
}
