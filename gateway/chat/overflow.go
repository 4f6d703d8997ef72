package chat

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Overflow says what becomes of a text that is too long for one message of a platform.
type Overflow string

// The ways to deal with long texts.
const (
	OverflowSplit    Overflow = "split"    // several messages, cut between paragraphs, lines, sentences or words
	OverflowTruncate Overflow = "truncate" // the beginning, and Truncated behind it
	OverflowNone     Overflow = "none"     // it is not sent, and that is an error
)

// Overflows are all of them.
func Overflows() []Overflow { return []Overflow{OverflowSplit, OverflowTruncate, OverflowNone} }

// Truncated stands behind what is left of a truncated text.
const Truncated = "[...truncated]"

// fence opens and closes a block of code.
const fence = "```"

// pieces cuts a text into what fits one message each; fits judges a candidate. With
// OverflowNone a text that does not fit gives nil. No grapheme is cut, unless it alone does
// not fit; that one is left out.
func pieces(text string, how Overflow, fits func(string) bool) []string {
	switch {
	case fits(text):
		return []string{text}
	case how == OverflowNone:
		return nil
	case how == OverflowTruncate:
		head := longest(text, func(s string) bool { return fits(strings.TrimRight(s, " \n") + Truncated) })
		return []string{strings.TrimRight(head, " \n") + Truncated}
	}
	var all []string
	var open string // the line that opens the block of code which the rest continues; "" = none does
	for rest := text; strings.TrimSpace(rest) != ""; {
		lead := ""
		if open != "" {
			lead = open + "\n"
		}
		if fits(lead + rest) {
			all = append(all, lead+strings.TrimRight(rest, " \n"))
			break
		}
		// What is cut within a block is closed at its end and opened again in the next one.
		whole := func(s string) (piece, opens string) {
			piece = lead + strings.TrimRight(s, " \n")
			if opens = openFence(piece); opens != "" {
				piece += "\n" + fence
			}
			return piece, opens
		}
		head := longest(rest, func(s string) bool { p, _ := whole(s); return fits(p) })
		if head == "" {
			_, n := firstGrapheme(rest)
			rest = rest[n:]
			continue
		}
		head = rest[:cutAt(head, rest, open != "")]
		piece, opens := whole(head)
		all = append(all, piece)
		open, rest = opens, rest[len(head):]
		if open == "" {
			rest = strings.TrimLeft(rest, "\n")
			rest = strings.TrimLeft(rest, " ")
		} else {
			rest = strings.TrimPrefix(rest, "\n")
		}
	}
	return all
}

// longest is the longest head of text that is good, cut between graphemes. Whatever is
// shorter than something good must be good as well, or nearly: the last step walks back.
func longest(text string, good func(string) bool) string {
	ends := make([]int, 0, len(text))
	for state, rest, at := -1, text, 0; len(rest) > 0; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		at += len(cluster)
		ends = append(ends, at)
		if len(ends) > 64 && len(ends)&(len(ends)-1) == 0 && !good(text[:at]) {
			break // far too long already: no need to look at the rest
		}
	}
	n, _ := slices.BinarySearchFunc(ends, true, func(end int, _ bool) int {
		if good(text[:end]) {
			return -1
		}
		return 1
	})
	for ; n > 0; n-- {
		if good(text[:ends[n-1]]) {
			return text[:ends[n-1]]
		}
	}
	return ""
}

// cutAt is where the head of a text is best cut: between paragraphs, else lines, else
// sentences, else words, as long as that keeps more than a third of it. In a block of
// code only lines count. A block that begins in the last two thirds begins the next piece.
func cutAt(head, rest string, inCode bool) int {
	least := len(head) / 3
	if !inCode {
		if at := startOfOpenFence(head); at > least {
			return at
		}
		if startOfOpenFence(head) >= 0 {
			inCode = true
		}
	}
	if strings.HasPrefix(rest[len(head):], "\n") {
		return len(head)
	}
	seps := []string{"\n\n", "\n", ". ", " "}
	if inCode {
		seps = []string{"\n"}
	}
	for _, sep := range seps {
		if at := strings.LastIndex(head, sep); at > least {
			return at + len(strings.TrimRight(sep, " \n"))
		}
	}
	return len(head)
}

// openFence is the line that opens the block of code in which text ends; "" = it ends in none.
func openFence(text string) string {
	at := startOfOpenFence(text)
	if at < 0 {
		return ""
	}
	line, _, _ := strings.Cut(text[at:], "\n")
	return line
}

// startOfOpenFence is where the block of code begins in which text ends; -1 = it ends in none.
func startOfOpenFence(text string) int {
	open := -1
	for at := 0; at < len(text); {
		line, _, more := strings.Cut(text[at:], "\n")
		if isFence(line, open >= 0) {
			if open < 0 {
				open = at
			} else {
				open = -1
			}
		}
		if at += len(line); more {
			at++
		}
	}
	return open
}

// maxInfo is how many bytes may stand behind the fence that opens a block: the name of a
// language. Each piece of the block begins with that line again.
const maxInfo = 40

// isFence is true for a line that opens a block of code, or closes the one that is open. Code
// that begins on the line of the fence itself is no block.
func isFence(line string, open bool) bool {
	line = strings.TrimLeft(line, " ")
	info := strings.TrimLeft(line, "`")
	return strings.HasPrefix(line, fence) && (open || len(info) <= maxInfo && !strings.Contains(info, "`"))
}

// firstGrapheme is what a reader sees as the first character, and its bytes.
func firstGrapheme(text string) (string, int) {
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(text, -1)
	if cluster == "" {
		_, n := utf8.DecodeRuneInString(text)
		return text[:n], n
	}
	return cluster, len(cluster)
}
