package search

import (
	"strings"
	"unicode/utf8"
)

const (
	// mostTerm bounds what an index keeps of a word, in bytes: longer ones are the same to it.
	mostTerm = 24
	// mostDense is the same for scripts without spaces, where each character begins a term.
	mostDense = 9
)

// Terms shows what an index keeps of a folded text, until see says no: the beginning of each
// word, and in scripts without spaces of all that begins with one of its characters. Some come
// more than once. If all words of a query are in a text, then for each of Query.Terms the text
// has a term that begins with it; the other way round is not sure.
func Terms(folded string, see func(term string) bool) {
	for word := range strings.SplitSeq(folded, " ") {
		if word == "" {
			continue
		}
		if !see(term(word)) {
			return
		}
		for i, r := range word {
			if i > 0 && r >= utf8.RuneSelf && kindOf(r) == ofScript && !see(term(word[i:])) {
				return
			}
		}
	}
}

// Terms are the beginnings that a text must have a term for, one for each word.
func (q Query) Terms() (all []string) {
	for _, n := range q.needles {
		all = append(all, term(strings.TrimPrefix(n, " ")))
	}
	return all
}

// term is what is kept of what begins with a word.
func term(word string) string {
	most := mostTerm
	if r, _ := utf8.DecodeRuneInString(word); r >= utf8.RuneSelf && kindOf(r) == ofScript {
		most = mostDense
	}
	return word[:min(len(word), most)]
}
