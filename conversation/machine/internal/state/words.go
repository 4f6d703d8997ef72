package state

import (
	"hash/fnv"
	"strings"
	"unicode"
)

// maxWords bounds what a session remembers of a waiting message.
const maxWords = 16

// EachWord hashes the words of at least four letters that are not common ones.
func EachWord(text string, yield func(uint32) bool) {
	start := -1
	for i, r := range text + " " {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 {
			word := strings.ToLower(text[start:i])
			start = -1
			if len([]rune(word)) < 4 || commonWords[word] {
				continue
			}
			h := fnv.New32a()
			h.Write([]byte(word))
			if !yield(h.Sum32()) {
				return
			}
		}
	}
}

// SignificantWords are the hashes of the first significant words of a text, for the fallback of coverage.
func SignificantWords(text string) []uint32 {
	var words []uint32
	EachWord(text, func(h uint32) bool {
		words = append(words, h)
		return len(words) < maxWords
	})
	return words
}

var commonWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`about actually after again also because been before being could does doing done down
		each else even ever every from give have having here instead into just know like make many more most much must need
		only other over please same shall should since some still such take tell than that their them then there these they
		thing this those through under until very want were what when where which while will with would your yours`) {
		m[w] = true
	}
	return m
}()
