package telegram

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"parley/gateway/chat"
)

// measure is the length of a text as Telegram counts it: in UTF-16 units.
func measure(encoded string) int {
	n := 0
	for _, r := range encoded {
		n += utf16.RuneLen(r)
	}
	return n
}

// joiner is WORD JOINER: it has no width, and an @ before it begins no mention.
const joiner = "\u2060"

// encode makes of plain text what Telegram shows as that text. It is sent without a
// parse_mode, so nothing in it is formatting; but Telegram itself makes a mention of every
// @name, and tells whoever has that name. Only people of the chat are to be told.
func encode(text string, people []chat.Person) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if !strings.Contains(text, "@") {
		return text
	}
	var b strings.Builder
	before := ' '
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r != '@' || ofWord(before) {
			b.WriteString(text[i : i+n])
			before, i = r, i+n
			continue
		}
		rest := text[i+1:]
		if shown, length := mentioned(rest, people); length > 0 {
			b.WriteString(shown)
			before, _ = utf8.DecodeLastRuneInString(rest[:length])
			i += 1 + length
			continue
		}
		name := rest[:nameLength(rest)]
		b.WriteString(quiet("@" + name))
		before, _ = utf8.DecodeLastRuneInString("@" + name)
		i += 1 + len(name)
	}
	return b.String()
}

// ofWord is true for what a name may consist of.
func ofWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// nameLength is how much of the beginning of s looks like a name of Telegram.
func nameLength(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= '0' && s[n] <= '9' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z') {
		n++
	}
	return n
}

// quiet is a text in which no @ mentions anybody.
func quiet(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ { // bytes: an @ is part of no other character
		b.WriteByte(text[i])
		if text[i] == '@' && nameLength(text[i+1:]) > 0 {
			b.WriteString(joiner)
		}
	}
	return b.String()
}

// mentioned finds whom of people the beginning of s names, by handle or by name: what is
// shown for it, and the length of the name in s. 0 = it names none of them. The longest name
// counts, a handle before a name; a name that two people have mentions neither.
func mentioned(s string, people []chat.Person) (shown string, length int) {
	byHandle := false
	owner := ""
	for _, p := range people {
		if n := begins(s, p.Handle); n > 0 && (n > length || n == length && !byHandle) {
			shown, length, byHandle, owner = "@"+p.Handle, n, true, p.ID
		}
		n := begins(s, p.Name)
		switch {
		case n == 0 || n < length || n == length && byHandle:
		case n == length && owner != p.ID:
			shown = quiet(s[:n])
		default:
			shown, length, byHandle, owner = quiet(p.Name), n, false, p.ID
			if p.Handle != "" {
				shown = "@" + p.Handle
			}
		}
	}
	return shown, length
}

// begins is the length of name at the beginning of s, as a whole word; 0 = it is not there.
func begins(s, name string) int {
	n := len(name)
	if name == "" || len(s) < n || !strings.EqualFold(s[:n], name) {
		return 0
	}
	if next, size := utf8.DecodeRuneInString(s[n:]); size > 0 && ofWord(next) {
		return 0
	}
	return n
}
