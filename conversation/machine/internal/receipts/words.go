package receipts

import (
	"hash/fnv"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words are the hashes of significant words, each once.
type Words []uint32

// The bounds of what a session remembers. Of a longer text its beginning counts, also
// where two texts are compared: else a long one would never repeat itself.
const (
	MessageWords = 16 // of an open message
	PartWords    = 32 // of a part that answered one
)

// WordsOf are the significant words of a text: those of at least four letters that
// are not common ones.
func WordsOf(text string) Words {
	var words Words
	seen := map[uint32]bool{}
	eachWord(text, func(h uint32) bool {
		if !seen[h] {
			seen[h], words = true, append(words, h)
		}
		return true
	})
	return words
}

// OfMessage are the words that are remembered of a message.
func OfMessage(text string) Words { return first(text, MessageWords) }

// OfPart are the words that are remembered of a part.
func OfPart(text string) Words { return first(text, PartWords) }

// OfPieces adds what must be remembered of one more piece of a text that is gone on with:
// the words that tell whether it repeats another text, and those that open messages have.
func OfPieces(before Words, piece string, open ...Words) Words {
	words := slices.Clone(before)
	eachWord(piece, func(h uint32) bool {
		if len(words) < PartWords || slices.ContainsFunc(open, func(o Words) bool { return slices.Contains(o, h) }) {
			words = words.with(h)
		}
		return true
	})
	return words
}

// And are the words and those of what follows.
func (w Words) And(more Words) Words {
	if len(w) == 0 {
		return more
	}
	all := slices.Clone(w)
	for _, h := range more {
		all = all.with(h)
	}
	return all
}

func first(text string, limit int) Words {
	var words Words
	eachWord(text, func(h uint32) bool {
		words = words.with(h)
		return len(words) < limit
	})
	return words
}

// eachWord hashes the significant words in their order.
func eachWord(text string, yield func(uint32) bool) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if word = strings.ToLower(word); utf8.RuneCountInString(word) < 4 || commonWords[word] {
			continue
		}
		h := fnv.New32a()
		h.Write([]byte(word))
		if !yield(h.Sum32()) {
			return
		}
	}
}

func (w Words) with(h uint32) Words {
	if slices.Contains(w, h) {
		return w
	}
	if w == nil {
		w = make(Words, 0, 4)
	}
	return append(w, h)
}

// without are the words that are in none of the others.
func (w Words) without(others ...Words) Words {
	return slices.DeleteFunc(slices.Clone(w), func(h uint32) bool {
		return slices.ContainsFunc(others, func(o Words) bool { return slices.Contains(o, h) })
	})
}

// shared counts the words that are in one of the others.
func (w Words) shared(others ...Words) int { return len(w) - len(w.without(others...)) }

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
