package protocol

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"parley/conversation"
)

// The scanner reads commands and request bodies: strict JSON, object members
// one by one, no reflection. encoding/json is not used for them because it takes
// "Text" for "text" and null for "", and costs as much as the rest of a send.

// maxNesting bounds the recursion of one value.
const maxNesting = 64

var errJSON = errors.New("not valid JSON")

// Member is one member of an object: its name, and its value as it was written.
type Member struct {
	Name []byte // unescaped; valid only during the visit
	Raw  []byte // the value's bytes; valid as long as the input
}

// ScanObject walks over the members of the object that is the whole of b. It
// returns errJSON when b is not valid JSON, errNotObject when it is something
// else, or the error of visit.
func ScanObject(b []byte, visit func(m Member) error) error {
	i := skipSpace(b, 0)
	if i >= len(b) {
		return errJSON
	}
	if b[i] != '{' {
		end, err := skipValue(b, i, 0)
		if err != nil || skipSpace(b, end) != len(b) {
			return errJSON
		}
		return errNotObject
	}
	var refusal error // the first error of visit; the syntax of the rest comes first
	end, err := walkObject(b, i, 0, func(m Member) {
		if refusal == nil {
			refusal = visit(m)
		}
	})
	if err != nil || skipSpace(b, end) != len(b) {
		return errJSON
	}
	return refusal
}

var errNotObject = errors.New("not an object")

func walkObject(b []byte, i, depth int, visit func(m Member)) (int, error) {
	if depth > maxNesting {
		return 0, errJSON
	}
	i = skipSpace(b, i+1) // behind '{'
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return 0, errJSON
		}
		end, escaped, err := skipString(b, i)
		if err != nil {
			return 0, err
		}
		name := b[i+1 : end-1]
		if escaped && visit != nil {
			name = []byte(unescape(name))
		}
		i = skipSpace(b, end)
		if i >= len(b) || b[i] != ':' {
			return 0, errJSON
		}
		i = skipSpace(b, i+1)
		end, err = skipValue(b, i, depth)
		if err != nil {
			return 0, err
		}
		if visit != nil {
			visit(Member{Name: name, Raw: b[i:end]})
		}
		i = skipSpace(b, end)
		if i >= len(b) {
			return 0, errJSON
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case '}':
			return i + 1, nil
		default:
			return 0, errJSON
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue is the index behind the value that starts at i.
func skipValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return 0, errJSON
	}
	switch c := b[i]; {
	case c == '"':
		end, _, err := skipString(b, i)
		return end, err
	case c == '{':
		return walkObject(b, i, depth+1, nil)
	case c == '[':
		return skipArray(b, i, depth+1, nil)
	case c == 't':
		return skipWord(b, i, "true")
	case c == 'f':
		return skipWord(b, i, "false")
	case c == 'n':
		return skipWord(b, i, "null")
	case c == '-' || c >= '0' && c <= '9':
		return skipNumber(b, i)
	default:
		return 0, errJSON
	}
}

func skipArray(b []byte, i, depth int, visit func(raw []byte)) (int, error) {
	if depth > maxNesting {
		return 0, errJSON
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		end, err := skipValue(b, i, depth)
		if err != nil {
			return 0, err
		}
		if visit != nil {
			visit(b[i:end])
		}
		i = skipSpace(b, end)
		if i >= len(b) {
			return 0, errJSON
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case ']':
			return i + 1, nil
		default:
			return 0, errJSON
		}
	}
}

func skipWord(b []byte, i int, word string) (int, error) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return 0, errJSON
	}
	return i + len(word), nil
}

func skipNumber(b []byte, i int) (int, error) {
	digits := func() bool {
		from := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return 0, errJSON
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return 0, errJSON
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return 0, errJSON
		}
	}
	return i, nil
}

// skipString is the index behind the string that starts at i, and whether it
// holds an escape.
func skipString(b []byte, i int) (end int, escaped bool, err error) {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped, nil
		case c == '\\':
			escaped = true
			i++
			if i >= len(b) {
				return 0, false, errJSON
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if _, ok := hex4(b[i+1:]); !ok {
					return 0, false, errJSON
				}
				i += 4
			default:
				return 0, false, errJSON
			}
		case c < 0x20:
			return 0, false, errJSON
		}
	}
	return 0, false, errJSON
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c - 'a' + 10)
		case c >= 'A' && c <= 'F':
			r |= rune(c - 'A' + 10)
		default:
			return 0, false
		}
	}
	return r, true
}

// unescape is the text of a string's inside that skipString has accepted. A half
// of a surrogate pair becomes U+FFFD.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out = append(out, b[i])
			continue
		}
		i++
		switch b[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, _ := hex4(b[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low, ok := rune(0), false
				if len(b) > i+2 && b[i+1] == '\\' && b[i+2] == 'u' {
					low, ok = hex4(b[i+3:])
				}
				if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
					r = pair
					i += 6
				} else {
					r = utf8.RuneError
				}
			}
			out = utf8.AppendRune(out, r)
		default: // '"', '\\', '/'
			out = append(out, b[i])
		}
	}
	return string(out)
}

// null is true for a member that was written and left empty; it counts as absent.
func (m Member) null() bool { return len(m.Raw) == 4 && m.Raw[0] == 'n' }

func (m Member) wrong(want string) error {
	return conversation.Errorf(conversation.BadRequest, "%s must be %s", m.Name, want)
}

// Text reads a string.
func (m Member) Text(dst *string) error {
	if m.null() {
		return nil
	}
	if m.Raw[0] != '"' {
		return m.wrong("a string")
	}
	*dst = unescape(m.Raw[1 : len(m.Raw)-1])
	return nil
}

// TextPointer reads a string whose absence means something.
func (m Member) TextPointer(dst **string) error {
	if m.null() {
		return nil
	}
	var s string
	if err := m.Text(&s); err != nil {
		return err
	}
	*dst = &s
	return nil
}

// Bool reads true or false.
func (m Member) Bool(dst *bool) error {
	switch m.Raw[0] {
	case 't':
		*dst = true
	case 'f':
		*dst = false
	case 'n':
	default:
		return m.wrong("true or false")
	}
	return nil
}

func (m Member) BoolPointer(dst **bool) error {
	if m.null() {
		return nil
	}
	var v bool
	if err := m.Bool(&v); err != nil {
		return err
	}
	*dst = &v
	return nil
}

// whole reads a number without a fraction, from 0 to 2⁵³−1: what every client's
// language can count to.
func (m Member) whole(dst *uint64) error {
	if m.null() {
		return nil
	}
	n, err := strconv.ParseUint(string(m.Raw), 10, 64)
	if err != nil || n > 1<<53-1 {
		return m.wrong("a whole number of at least 0")
	}
	*dst = n
	return nil
}

func (m Member) WholePointer(dst **uint64) error {
	if m.null() {
		return nil
	}
	var n uint64
	if err := m.whole(&n); err != nil {
		return err
	}
	*dst = &n
	return nil
}

// texts reads a list of strings.
func (m Member) texts(dst *[]string) error {
	if m.null() {
		return nil
	}
	if m.Raw[0] != '[' {
		return m.wrong("a list of strings")
	}
	ok := true
	_, _ = skipArray(m.Raw, 0, 0, func(raw []byte) {
		if raw[0] != '"' {
			ok = false
			return
		}
		*dst = append(*dst, unescape(raw[1:len(raw)-1]))
	})
	if !ok {
		return m.wrong("a list of strings")
	}
	return nil
}

// Overrides reads the policies of a session; null removes one.
func (m Member) Overrides(dst *conversation.Overrides) error {
	if m.null() {
		return nil
	}
	if m.Raw[0] != '{' {
		return m.wrong("an object")
	}
	o, err := ReadOverrides(m.Raw)
	*dst = o
	return err
}

// ReadOverrides reads policies by their dotted keys; null takes one back.
func ReadOverrides(b []byte) (conversation.Overrides, error) {
	o := conversation.Overrides{}
	err := ScanObject(b, func(m Member) error {
		if m.null() {
			o[string(m.Name)] = nil
			return nil
		}
		o[string(m.Name)] = AppendCompact(nil, m.Raw)
		return nil
	})
	return o, err
}

// AppendCompact appends a JSON value without the space between its tokens. The
// value must be valid.
func AppendCompact(dst, value []byte) []byte {
	quoted := false
	for i := 0; i < len(value); i++ {
		c := value[i]
		if quoted {
			dst = append(dst, c)
			switch c {
			case '\\':
				i++
				dst = append(dst, value[i])
			case '"':
				quoted = false
			}
			continue
		}
		switch c {
		case ' ', '\n', '\t', '\r':
		case '"':
			quoted = true
			fallthrough
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// ValidJSON is true when b is one JSON value in valid UTF-8, not nested too deeply.
func ValidJSON(b []byte) bool {
	i := skipSpace(b, 0)
	end, err := skipValue(b, i, 0)
	return err == nil && skipSpace(b, end) == len(b) && utf8.Valid(b)
}
