package conversation

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

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
	i := slices.Index(names, s)
	return max(i, 0), i >= 0
}

// IsBlank is true for a text of nothing but white space.
func IsBlank(text string) bool { return strings.TrimSpace(text) == "" }
