package receipts

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"parley/conversation/machine/machinetest/everyday"
)

// truth is what tells the answer to a message from the answers to the others of its
// conversation. Each form of the answer (as it is, reworded, in another language) has
// some; a text that has most of one form tells the answer.
type truth struct {
	answer string
	judged bool      // the answer has something of its own; a bare "Yes." has nothing
	own    []content // what no answer to another message has, with and without what the message itself says
	whole  []content // all that an answer has
}

// content is the words of a text with their weights.
type content map[string]float64

// enough is the least weight that tells something: "Yes." has less, a number more.
const enough = 0.4

// number is the weight of a number.
const number = 8

// truthOf finds out what the answer to message n of a conversation has of its own.
func truthOf(t *everyday.Talk, n int) *truth {
	others := content{}
	for i := range t.Messages {
		if i != n {
			for _, form := range formsOf(t, i) {
				for word := range words(form) {
					others[word] = 1
				}
			}
		}
	}
	said := words(t.Messages[n].Text)
	truth := &truth{answer: t.Messages[n].Answer}
	for i, form := range formsOf(t, n) {
		whole := words(form)
		own := whole.without(others)
		truth.judged = truth.judged || i == 0 && own.weight() >= enough
		truth.own = append(truth.own, own, own.without(said))
		truth.whole = append(truth.whole, whole)
	}
	return truth
}

// in is true if a text tells the answer.
func (t *truth) in(text string) bool { return hasMost(text, t.own) }

// resembles is true if a text says what the answer says, be it the answer to another
// message as well.
func (t *truth) resembles(text string) bool { return t.in(text) || hasMost(text, t.whole) }

func hasMost(text string, forms []content) bool {
	said := words(text)
	for _, form := range forms {
		all := form.weight()
		if left := form.without(said).weight(); all >= enough && left <= all/2 {
			return true
		}
	}
	return false
}

func (c content) weight() (sum float64) {
	for _, w := range c {
		sum += w
	}
	return sum
}

func (c content) without(other content) content {
	left := content{}
	for word, w := range c {
		if other[word] == 0 {
			left[word] = w
		}
	}
	return left
}

// formsOf are the forms of the answer to message n.
func formsOf(t *everyday.Talk, n int) []string {
	m := &t.Messages[n]
	return []string{m.Answer, m.Reworded, m.Foreign}
}

// words weighs the words of a text, of Chinese and Japanese the pairs of characters: the
// more conversations have a word in their answers, the less it says. Numbers always count.
func words(text string) content {
	c := content{}
	for word := range split(text) {
		first, _ := utf8.DecodeRuneInString(word)
		if c[word] = number; !unicode.IsDigit(first) {
			letters := strings.TrimFunc(word, func(r rune) bool { return unicode.Is(unicode.Hiragana, r) }) // what is left is more than grammar
			c[word] = float64(max(1, utf8.RuneCountInString(letters))) / float64(max(1, spread()[word]))
		}
	}
	return c
}

// spread says how many conversations of the corpus have a word in their answers.
var spread = sync.OnceValue(func() map[string]int {
	n := map[string]int{}
	talks, _ := everyday.Talks() // an error ends the command before anything is judged
	for _, t := range talks {
		seen := map[string]bool{}
		for i := range t.Messages {
			for _, form := range formsOf(&t, i) {
				for word := range split(form) {
					seen[word] = true
				}
			}
		}
		for word := range seen {
			n[word]++
		}
	}
	return n
})

// split finds the words of a text, in lower case.
func split(text string) map[string]bool {
	found := map[string]bool{}
	var word []rune
	var kind int
	end := func() {
		if kind == written {
			for i := 0; i+1 < len(word); i++ {
				found[string(word[i:i+2])] = true
			}
		}
		if len(word) > 0 && (kind != written || len(word) == 1) {
			found[string(word)] = true
		}
		word = word[:0]
	}
	all := []rune(strings.ToLower(text))
	for i, r := range all {
		if r >= '！' && r <= '～' {
			r -= '！' - '!' // full width
		}
		next := kindOf(r)
		if kind == digits && len(word) > 0 && strings.ContainsRune(".,\u00a0\u202f", r) && i+1 < len(all) && unicode.IsDigit(all[i+1]) {
			continue // 8,849 and 8.849 are one number
		}
		if next != kind {
			end()
			kind = next
		}
		if kind != none {
			word = append(word, r)
		}
	}
	end()
	return found
}

// The kinds of characters.
const (
	none = iota
	letters
	digits
	written // without spaces between words
)

func kindOf(r rune) int {
	switch {
	case unicode.IsDigit(r):
		return digits
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == 'ー':
		return written
	case unicode.IsLetter(r):
		return letters
	}
	return none
}
