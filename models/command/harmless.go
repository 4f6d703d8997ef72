package command

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// PromptGuard says what is taken out of the meaning that a prompt's text has to the
// program. The text itself, as it is stored and shown, is never changed.
type PromptGuard string

// The guards.
const (
	// GuardClaude: nothing in a prompt acts as a command or as a mention of the claude
	// command. It understands both also under -p: "/config KEY=VALUE" changes the
	// settings of the user that it runs as, for good, and "@PATH" attaches any file
	// that this user may read before the model is asked, without a permission.
	GuardClaude PromptGuard = "claude"
	// GuardNone: the prompt as it is, for programs to which it is text only.
	GuardNone PromptGuard = "none"
)

// wordJoiner is invisible and has no width. Behind an "@" it makes the name of what is
// mentioned one that nothing has.
const wordJoiner = "\u2060"

// harmless returns a prompt that is only text to the program: without a command at its
// beginning, and without mentions. broken is true if it has a mention that is broken up.
func harmless(text string) (safe string, broken bool) {
	safe, broken = breakMentions(text)
	if startsCommand(safe) {
		safe = currentHead + "\n" + safe
	}
	return safe, broken
}

// startsCommand reports whether a prompt begins with a command, be it behind space or
// characters that nobody sees.
func startsCommand(text string) bool {
	seen := strings.TrimLeftFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	})
	return strings.HasPrefix(seen, "/")
}

// breakMentions breaks up every "@" that does not stand in the middle of a word, as it
// does in an address of mail, and is not broken up already.
func breakMentions(text string) (safe string, broken bool) {
	if !strings.Contains(text, "@") {
		return text, false
	}
	var b strings.Builder
	rest := text
	for before := byte(0); ; {
		at := strings.IndexByte(rest, '@')
		if at < 0 {
			break
		}
		if at > 0 {
			before = rest[at-1]
		}
		b.WriteString(rest[:at+1])
		rest = rest[at+1:]
		switch {
		case strings.HasPrefix(rest, wordJoiner):
			broken = true
		case mentions(before, rest):
			b.WriteString(wordJoiner)
			broken = true
		}
		before = '@'
	}
	b.WriteString(rest)
	return b.String(), broken
}

// withoutMarks takes out all that breakMentions may have put in, now and before.
func withoutMarks(text string) string {
	for strings.Contains(text, "@"+wordJoiner) {
		text = strings.ReplaceAll(text, "@"+wordJoiner, "@")
	}
	return text
}

// mentions reports whether an "@" between these may be read as a mention. Only what
// looks like mail is sure not to be: the program takes an "@" behind some marks of
// punctuation for the beginning of a word, and others may take more.
func mentions(before byte, after string) bool {
	if after == "" || strings.IndexByte(" \t\r\n", after[0]) >= 0 {
		return false
	}
	return !(asciiWord(before) || strings.IndexByte("_+-", before) >= 0) || !asciiWord(after[0])
}

// asciiWord reports whether a byte is a letter or digit of ASCII.
func asciiWord(c byte) bool {
	return c < utf8.RuneSelf && (unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)))
}
