package protocol

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// The append functions write JSON without reflection and without an allocation
// of their own: every event of every session goes through them.

const hexDigits = "0123456789abcdef"

// plain marks the ASCII bytes that a JSON string may hold as they are.
var plain = func() (t [utf8.RuneSelf]bool) {
	for i := range t {
		t[i] = i >= 0x20 && i != '"' && i != '\\'
	}
	return t
}()

// plainBytes is how many bytes at the beginning of s are plain, in steps of eight, which
// are looked at as one number: the top bit of a byte in special is set when that byte,
// or one below it, is not plain. Texts are most of what is written, and this is four
// times as fast as a byte at a time.
func plainBytes(s string) (n int) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		b := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		quote, backslash := b^ones*'"', b^ones*'\\'
		special := b | (b-ones*0x20)&^b | (quote-ones)&^quote | (backslash-ones)&^backslash
		if special&tops != 0 {
			break
		}
		n += 8
	}
	return n
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, so that
// a frame is always valid.
func AppendString[T ~string](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start, again := 0, 0
	for i := 0; i < len(s); {
		if i >= again {
			n := plainBytes(string(s[i:]))
			if i += n; i == len(s) {
				break
			}
			if again = i + 8; n == 0 {
				again = i + 32 // a text of many umlauts: do not look at all of it twice
			}
		}
		if b := s[i]; b < utf8.RuneSelf {
			if plain[b] {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch b {
			case '"', '\\':
				dst = append(dst, '\\', b)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&0xf])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			i++
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendTime appends t as RFC 3339 with milliseconds, UTC, in quotes.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		year = 9999 // four digits or nothing; such a time is "never"
	}
	hour, minute, second := t.Clock()
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst, '"',
		digit(year/1000), digit(year/100), digit(year/10), digit(year), '-',
		digit(int(month)/10), digit(int(month)), '-', digit(day/10), digit(day), 'T',
		digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':', digit(second/10), digit(second), '.',
		digit(ms/100), digit(ms/10), digit(ms), 'Z', '"')
}

func digit(n int) byte { return byte('0' + n%10) }

func appendUint[T ~uint64 | ~uint32](dst []byte, n T) []byte {
	return strconv.AppendUint(dst, uint64(n), 10)
}

// appendStrings appends a list; a nil list is [], never null.
func appendStrings[T ~string](dst []byte, list []T) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, s)
	}
	return append(dst, ']')
}

// Object appends the members of a JSON object one after the other. Its methods
// return nothing, so that an encoder reads like the table of the protocol.
type Object struct {
	Bytes []byte
	comma bool
}

// NewObject begins a JSON object behind dst; Close ends it.
func NewObject(dst []byte) Object { return Object{Bytes: append(dst, '{')} }

func (o *Object) Close() []byte { return append(o.Bytes, '}') }

// Key appends the name of the next member; the caller appends its value to o.b.
func (o *Object) Key(name string) {
	if o.comma {
		o.Bytes = append(o.Bytes, ',')
	}
	o.comma = true
	o.Bytes = append(o.Bytes, '"')
	o.Bytes = append(o.Bytes, name...)
	o.Bytes = append(o.Bytes, '"', ':')
}

func (o *Object) Text(name, s string) {
	o.Key(name)
	o.Bytes = AppendString(o.Bytes, s)
}

// Optional appends a text member unless it is empty.
func (o *Object) Optional(name, s string) {
	if s != "" {
		o.Text(name, s)
	}
}

// AppendTexts appends a member that is a list of texts.
func AppendTexts[T ~string](o *Object, name string, list []T) {
	o.Key(name)
	o.Bytes = appendStrings(o.Bytes, list)
}

func (o *Object) Uint(name string, n uint64) {
	o.Key(name)
	o.Bytes = strconv.AppendUint(o.Bytes, n, 10)
}

func (o *Object) Int(name string, n int64) {
	o.Key(name)
	o.Bytes = strconv.AppendInt(o.Bytes, n, 10)
}

func (o *Object) Bool(name string, v bool) {
	o.Key(name)
	o.Bytes = strconv.AppendBool(o.Bytes, v)
}

// Flag appends a member that is only there when it is true.
func (o *Object) Flag(name string, v bool) {
	if v {
		o.Bool(name, true)
	}
}

func (o *Object) Time(name string, t time.Time) {
	o.Key(name)
	o.Bytes = appendTime(o.Bytes, t)
}

func (o *Object) OptionalTime(name string, t time.Time) {
	if !t.IsZero() {
		o.Time(name, t)
	}
}

func (o *Object) Raw(name, value string) {
	o.Key(name)
	o.Bytes = append(o.Bytes, value...)
}
