package author

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the most that a name may have, in bytes; a longer one is cut.
const MaxName = 128

// Name is what a user is called, made fit to be shown beside others' names: without control
// and format characters (those that turn the direction of text are among them), with one
// space where there were several or a line break, and at most MaxName bytes long, whole
// characters. "" = nothing is left of it.
func Name(said string) string {
	if plain(said) {
		return said
	}
	var b strings.Builder
	for _, word := range strings.FieldsFunc(strings.ToValidUTF8(said, "\uFFFD"), unicode.IsSpace) {
		word = strings.Map(func(r rune) rune {
			if hidden(r) {
				return -1
			}
			return r
		}, word)
		if word == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		if b.Len() > MaxName {
			break
		}
	}
	name := b.String()
	if len(name) > MaxName {
		end := MaxName
		for !utf8.RuneStart(name[end]) {
			end--
		}
		name = strings.TrimRight(name[:end], " ")
	}
	return name
}

// plain is true for a name that can stay as it is, as nearly all.
func plain(name string) bool {
	if len(name) > MaxName || strings.TrimSpace(name) != name {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c >= 0x7f || c == ' ' && name[i-1] == ' ' {
			return false
		}
	}
	return true
}

// hidden is true for characters that one does not see: controls, those that join or turn
// what stands beside them, fillers, and those that nobody has given a meaning to.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
