package conversation

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// CutMiddle keeps the head and the tail of a text of more than limit bytes, whole
// code points of it, and says between them how much is missing.
func CutMiddle(text string, limit int) string {
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

// Excerpt shortens text to at most n code points for a list, a log line or an
// "open messages" entry, and marks the cut.
func Excerpt(text string, n int) string {
	count := 0
	for i := range text {
		if count == n {
			return text[:i] + "…"
		}
		count++
	}
	return text
}

// Stamp rounds to the precision of every stored time: milliseconds, UTC.
func Stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func name(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return "unknown(" + strconv.Itoa(i) + ")"
	}
	return names[i]
}

func index(names []string, s string) (int, bool) {
	for i, n := range names {
		if n == s {
			return i, true
		}
	}
	return 0, false
}

// IsBlank is true for a text of nothing but white space.
func IsBlank(text string) bool { return strings.TrimSpace(text) == "" }
