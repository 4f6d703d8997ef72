package receipts

import (
	"slices"

	"parley/conversation"
)

// Proof says that a text answers a message, and how that is known.
type Proof struct {
	Message  conversation.MessageID
	Evidence conversation.Evidence
	Item     int // the place of the item that the receipt points at
}

// Told is a part that has answered a message: what it said, and what it was asked.
type Told struct {
	Words Words // Of, PartWords of them
	Asked Words
}

// Verdict says what becomes of the only open message when a text is said.
type Verdict uint8

// The verdicts.
const (
	Answers  Verdict = iota // the text answers it
	Unclear                 // the text says what answered another message, and speaks of neither: nobody can tell
	Doubtful                // it speaks of the other message, but may answer this one as well
	Repeated                // the text answers another message, and not this one
)

// Judge says whether a text answers the only open message. answers are those that other
// messages of the session have had.
// Rules 8.6, 8.7, 8.10.
func Judge(text []Words, message Words, answers []Told) Verdict {
	all := Joined(text)
	for i := len(answers) - 1; i >= 0; i-- {
		a := &answers[i]
		if !Same(all, a.Words) || asksAgain(message, all, a) {
			continue
		}
		if tellsMore(all, message, a) {
			continue
		}
		about := isAbout(all, a, message)
		switch { // two commands may both be answered by "Done."
		case about && isForeign(all, a, message):
			return Repeated
		case about:
			return Doubtful
		case !all.Acknowledge():
			return Unclear
		}
	}
	return Answers
}

// JudgeAlone says whether a text answers the message that the model was asked for alone. It
// does not if it only tells that something was said, or tells again what answered another
// message: "As I said: Ann has it."
// Rule 8.12.
func JudgeAlone(text []Words, message Words, answers []Told) Verdict {
	all := Joined(text)
	if all.speaksOfItself() {
		return Repeated
	}
	if verdict := Judge(text, message, answers); verdict != Answers {
		return verdict
	}
	told := all.withoutMeta().content()
	if slices.ContainsFunc(answers, func(a Told) bool {
		return 10*told.in(a.Words) >= 9*len(told) && told.numbersIn(a.Words) && !asksAgain(message, told, &a) && isAbout(told, &a, message) && !tellsMore(told, message, &a)
	}) {
		return Repeated
	}
	return Answers
}

// tellsMore is true for a text with a word of content that neither the other answer has nor
// one of the two messages: "... is Bob." after "... is Ann."
func tellsMore(text, message Words, a *Told) bool {
	return slices.ContainsFunc(text, func(h uint32) bool {
		return h&(function|ack|meta) == 0 && !a.Words.has(h) && !a.Asked.has(h) && !message.has(h)
	})
}

// asksAgain is true for a message that asks for nothing that neither the other message nor
// the text has: "Who was it again?", "Please repeat that".
func asksAgain(message, text Words, a *Told) bool {
	return !slices.ContainsFunc(message, func(h uint32) bool { return h&(function|meta) == 0 && !a.Asked.has(h) && !text.has(h) })
}

// isAbout is true for a text with a word that only the other message has.
func isAbout(text Words, a *Told, message Words) bool {
	return slices.ContainsFunc(text.content(), func(h uint32) bool { return !message.has(h) && a.Asked.has(h) })
}

// isForeign is true for a text that has nothing of what the message at hand asks beyond the
// other one, where it asks for something by two words or more, or by one in the place of
// another: "Is order 17 shipped?", "Is order 18 shipped?".
func isForeign(text Words, a *Told, message Words) bool {
	content := message.content()
	own := slices.DeleteFunc(slices.Clone(content), func(h uint32) bool { return h&asking != 0 || a.Asked.has(h) })
	return own.in(text) == 0 && (len(own) > 1 || 2*len(own) <= len(content))
}

// Same is true for two texts that say the same: nine of ten words of each are in the other,
// and all numbers. Words that are in nearly every text do not count, where there are others.
func Same(a, b Words) bool {
	return a.mostlyIn(b) && b.mostlyIn(a) && a.numbersIn(b) && b.numbersIn(a)
}

// Equal is true for two texts of the same words.
func Equal(a, b Words) bool { return len(a) == len(b) && a.in(b) == len(a) }

// Within finds the part that says already what a text says as the answer to a message: nine
// of ten of its words, all numbers, and the words that it has of the message. Words that are
// in nearly every text do not count, but three of four of all must be there. Of several parts
// it is the closest, of equals the newest. -1 = the text is new.
// Rule 8.12.
func Within(text, message Words, parts []Words) int {
	content := text.content()
	best, most := -1, 0
	for i, part := range parts {
		n := text.in(part)
		if len(text) == 0 || !text.hasContent() && !text.runsIn(part) || 10*content.in(part) < 9*len(content) || 4*n < 3*len(text) || !text.numbersIn(part) ||
			slices.ContainsFunc(content, func(h uint32) bool { return message.has(h) && !part.has(h) }) {
			continue
		}
		if n = 1000*n/len(text) + 1000*n/len(part); n >= most { // both ways: the whole part rather than a list with it
			best, most = i, n
		}
	}
	return best
}

// Closest is the part that has most words of a message, those that ask aside; of equals the
// last one; -1 = there is no part.
func Closest(message Words, parts []Words) int {
	content := slices.DeleteFunc(slices.Clone(message.content()), func(h uint32) bool { return h&asking != 0 })
	best, most := -1, 0
	for i, part := range parts {
		if n := content.in(part); n >= most {
			best, most = i, n
		}
	}
	return best
}

// Joined are the words of all items of a text.
func Joined(text []Words) Words {
	all := text[0]
	for _, item := range text[1:] {
		all = all.And(item, PartWords)
	}
	return all
}
