package tokens

import "strings"

// Of estimates how many tokens a text is: a token for each four bytes, which
// is about what English and code take, and at least one for each word, because
// no vocabulary has a token for two. It is meant to be cheap and steady, not
// exact; a provider's own count comes with its answer.
func Of(text string) int { return max((len(text)+BytesEach-1)/BytesEach, words(text)) }

const (
	// BytesEach is the number of bytes of a text that count as one token.
	BytesEach = 4
	// PerEntry are added by a provider's format to an entry, an item or a tool.
	PerEntry = 4
	// PerPicture is the most that a picture costs at Anthropic's standard resolution (1568
	// pixels on its long edge, 1,600 tokens) and about the most at OpenAI's (1536 patches of 32
	// pixels). Some models take more: smaller pictures than can be known here take less.
	PerPicture = 1600
)

func words(text string) int {
	n, inside := 0, false
	for i := range len(text) {
		space := text[i] == ' ' || text[i] >= '\t' && text[i] <= '\r'
		if !space && !inside {
			n++
		}
		inside = !space
	}
	return n
}

// Words counts the words of a text by the spaces between them: ten times faster than
// looking for words.
func Words(text string) int {
	if text == "" {
		return 0
	}
	return 1 + strings.Count(text, " ")
}
