package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MostText bounds how much of one text is searched, in bytes; what comes behind is not found.
// It is the largest message that a server takes by default (limits.text_bytes).
const MostText = 128 << 10

// dense are the scripts that put no spaces between words.
var dense = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// kind is what a character is to a word.
type kind uint8

const (
	between  kind = iota // it ends a word
	ofWord               // a letter, a digit
	ofScript             // of a script without spaces
	silent               // an accent, or what cannot be seen: it is left out
	joined               // a mark that changes the letter before it, of whatever kind that is
)

func kindOf(r rune) kind {
	switch {
	case r == 0x3099 || r == 0x309a: // the voiced marks of kana make other letters
		return joined
	case unicode.Is(unicode.Mn, r) && unicode.Is(unicode.Inherited, r), unicode.Is(unicode.Cf, r):
		return silent
	case unicode.IsMark(r):
		return joined
	case unicode.In(r, dense...) || r == 'ー':
		return ofScript
	case unicode.IsLetter(r), unicode.IsNumber(r):
		return ofWord
	}
	return between
}

// alike are letters that no decomposition leads to those that people type for them.
var alike = map[rune]string{'ß': "ss", 'ẞ': "ss", 'æ': "ae", 'Æ': "ae", 'œ': "oe", 'Œ': "oe", 'ø': "o", 'Ø': "o", 'ł': "l", 'Ł': "l", 'đ': "d", 'Đ': "d", 'ħ': "h", 'Ħ': "h"}

// folder folds one text.
type folder struct {
	out  []byte
	at   []int32 // for each byte of out the code point of the text that it comes from; nil = nobody asks
	last kind    // of what was written last
}

func (f *folder) put(s string, is kind, from int) {
	if is == joined {
		if is = f.last; is == between {
			return
		}
	}
	if is != f.last {
		f.write(" ", from)
		f.last = is
	}
	f.write(s, from)
}

func (f *folder) write(s string, from int) {
	f.out = append(f.out, s...)
	if f.at != nil {
		for range len(s) {
			f.at = append(f.at, int32(from))
		}
	}
}

// rune folds one character that is not ASCII.
func (f *folder) rune(r rune, from int) {
	if s, ok := alike[r]; ok {
		f.put(s, ofWord, from)
		return
	}
	for _, d := range norm.NFKD.String(string(r)) {
		switch is := kindOf(d); is {
		case silent:
		case between:
			f.last = between
		default:
			f.put(string(unicode.ToLower(unicode.ToUpper(d))), is, from)
		}
	}
}

// text folds a text up to MostText.
func (f *folder) text(text string) {
	if len(text) > MostText {
		text = strings.ToValidUTF8(text[:MostText], "")
	}
	n := 0
	for i := 0; i < len(text); n++ {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			f.rune(r, n)
			i += size
			continue
		}
		i++
		switch {
		case 'A' <= c && c <= 'Z':
			f.put(lower[c-'A':c-'A'+1], ofWord, n)
		case 'a' <= c && c <= 'z':
			f.put(lower[c-'a':c-'a'+1], ofWord, n)
		case '0' <= c && c <= '9':
			f.put(digits[c-'0':c-'0'+1], ofWord, n)
		default:
			f.last = between
		}
	}
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

// Fold is a text as it is searched: a space before each word, and nothing else between them.
func Fold(text string) string {
	f := folder{out: make([]byte, 0, min(len(text), MostText)+len(text)/16+8)}
	f.text(text)
	return string(f.out)
}
