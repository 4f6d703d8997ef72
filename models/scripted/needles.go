package scripted

import (
	"bytes"
	"regexp/syntax"
	"strings"
)

// needles are texts of which a rule's pattern needs one: a search for them is a hundred
// times faster than the pattern, which looks for a match at each place of a long text.
// nil = nothing is known of the pattern, or it is done after a look at the start.
type needles []string

// needlesOf reads a pattern that was compiled with the same flags.
func needlesOf(pattern string) needles {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || startsText(parsed) {
		return nil
	}
	return needed(parsed)
}

// startsText is true for what matches at the start of a text only.
func startsText(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginText:
		return true
	case syntax.OpConcat, syntax.OpCapture:
		return startsText(re.Sub[0])
	default:
		return false
	}
}

// needed are texts in lower case of which each match holds one; nil = not known.
func needed(re *syntax.Regexp) (found needles) {
	switch re.Op {
	case syntax.OpLiteral:
		text := strings.ToLower(string(re.Rune))
		if strings.ContainsFunc(text, func(c rune) bool { return c >= 0x80 }) {
			return nil // more than two letters may be the same there
		}
		return needles{text}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(re.Sub[0])
	case syntax.OpConcat:
		for _, part := range re.Sub {
			if n := needed(part); n.shortest() > found.shortest() {
				found = n
			}
		}
		return found
	case syntax.OpAlternate:
		for _, way := range re.Sub {
			n := needed(way)
			if n == nil {
				return nil
			}
			found = append(found, n...)
		}
		return found
	default:
		return nil
	}
}

// shortest is the length of the shortest one; 0 = there is none.
func (n needles) shortest() int {
	least := 0
	for _, one := range n {
		if least == 0 || len(one) < least {
			least = len(one)
		}
	}
	return least
}

// haystack is a text in which needles are looked for.
type haystack struct {
	text    string
	lowered []byte // made when it is needed first
	odd     bool   // it has letters that patterns take for others: k and s have one each
}

// mayMatch is false when a pattern with these needles cannot fit.
func (h *haystack) mayMatch(n needles) bool {
	if n == nil {
		return true
	}
	if h.lowered == nil {
		h.lowered = lowerASCII(h.text)
		h.odd = strings.Contains(h.text, "\u017f") || strings.Contains(h.text, "\u212a")
	}
	if h.odd {
		return true
	}
	for _, one := range n {
		if bytes.Contains(h.lowered, []byte(one)) {
			return true
		}
	}
	return false
}

func lowerASCII(text string) []byte {
	lower := []byte(text)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return lower
}
