package attached

import (
	"strings"

	"parley/conversation/ownline"
)

// fence is what the text of a file stands between, at least.
const fence = "```"

// Ends is the line behind the text of a file: [attachment ends: NAME].
func (f File) Ends() string { return head + " ends: " + Name(f.Name) + "]" }

// Inside is the text of a file as a model is shown it: between two fences and before the line
// that ends it. No text can have either: a fence is longer than any run of its characters in
// the text, and what looks like the line is escaped.
func (f File) Inside(text string) string {
	text = Escape(strings.ToValidUTF8(text, "\uFFFD"))
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	around := strings.Repeat(fence[:1], max(len(fence), longestRun(text)+1))
	return around + "\n" + text + around + "\n" + f.Ends()
}

// longestRun is how many characters of a fence stand in a row, with nothing that one sees in
// between.
func longestRun(text string) (longest int) {
	n := 0
	for _, r := range text {
		switch {
		case r == rune(fence[0]), r == '\uff40': // the wide one, too
			n++
			longest = max(longest, n)
		case ownline.Unseen(r):
		default:
			n = 0
		}
	}
	return longest
}
