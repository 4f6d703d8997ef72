package protocol

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"parley/conversation"

	"github.com/go-json-experiment/json/jsontext"
)

// Commands and request bodies are strict JSON: names in their case, nothing
// behind the end. Of a name that comes twice the last one counts, as encoding/json has it. Objects are read member by member, so that a refusal can
// name the member, null counts as absent, and one wrong member does not keep the
// others of an envelope from being read.

// maxNesting bounds the depth of one value.
const maxNesting = 64

var (
	errJSON      = errors.New("not valid JSON")
	errNotObject = errors.New("not an object")
)

// Member is one member of an object: its name, and its value as it was written.
type Member struct {
	Name []byte // unescaped; valid only during the visit
	Raw  []byte // the value's bytes; valid as long as the input
}

// decoder is a jsontext.Decoder with the buffer that it reads from, used again.
type decoder struct {
	jsontext.Decoder
	in bytes.Buffer
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// Half of a surrogate pair, written as an escape, becomes U+FFFD. That the bytes
// themselves are UTF-8 is checked before. A name may come twice: version 1 of the
// protocol has always taken that.
var decoderOptions = []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}

// ReadObject walks over the members of the object that is the whole of b. It
// returns errJSON when b is not valid JSON, errNotObject when it is something
// else, or the first error of visit.
func ReadObject(b []byte, visit func(m Member) error) error {
	d := decoders.Get().(*decoder)
	defer func() {
		d.in = bytes.Buffer{}
		decoders.Put(d)
	}()
	d.in = *bytes.NewBuffer(b)
	d.Reset(&d.in, decoderOptions...)
	refusal, err := d.object(visit)
	if err != nil {
		return errJSON
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) { // nothing may follow
		return errJSON
	}
	return refusal
}

// object reads a value. Its refusal is errNotObject or the first error of visit;
// the syntax of the rest comes before it.
func (d *decoder) object(visit func(m Member) error) (refusal, err error) {
	if d.PeekKind() != '{' {
		value, err := d.ReadValue()
		if err == nil && deeper(value, maxNesting) {
			err = errJSON
		}
		return errNotObject, err
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		raw, err := d.ReadValue()
		if err != nil || deeper(raw, maxNesting) {
			return nil, errJSON
		}
		if refusal == nil {
			refusal = visit(Member{Name: unquote(name), Raw: raw})
		}
	}
	_, err = d.ReadToken()
	return refusal, err
}

// unquote is the text of a JSON string that was read.
func unquote(quoted []byte) []byte {
	if inside := quoted[1 : len(quoted)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // it was valid, but for halves of surrogate pairs
	return text
}

// deeper is true when a valid value nests deeper than most.
func deeper(value []byte, most int) bool {
	if len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// null is true for a member that was written and left empty; it counts as absent.
func (m Member) null() bool { return len(m.Raw) == 4 && m.Raw[0] == 'n' }

func (m Member) wrong(want string) error {
	return conversation.Errorf(conversation.BadRequest, "%s must be %s", m.Name, want)
}

// Bounded reads a string of at most so many bytes. Every text of a client comes through
// it, but for those that limits.text_bytes bounds (TextPointer, CheckText).
func (m Member) Bounded(dst *string, most int) error {
	if m.null() {
		return nil
	}
	if m.Raw[0] != '"' {
		return m.wrong("a string")
	}
	text := unquote(m.Raw)
	if len(text) > most {
		return conversation.Errorf(conversation.BadRequest, "%s must be at most %d bytes", m.Name, most)
	}
	*dst = string(text)
	return nil
}

// ID reads what something is called by programs.
func (m Member) ID(dst *string) error { return m.Bounded(dst, MaxID) }

// OwnMark begins the ids that the server makes of an Idempotency-Key and its route.
const OwnMark = "\x01"

// ClientID reads what a client calls its message or session: none begins with OwnMark.
func (m Member) ClientID(dst *string) error {
	if err := m.ID(dst); err != nil {
		return err
	}
	if strings.HasPrefix(*dst, OwnMark) {
		return conversation.Errorf(conversation.BadRequest, "%s must not begin with the character U+0001", m.Name)
	}
	return nil
}

// Text reads a line for people.
func (m Member) Text(dst *string) error { return m.Bounded(dst, MaxTitle) }

// Word reads one of a few words; no word at all is not one of them.
func (m Member) Word(dst *string) error {
	if err := m.Bounded(dst, maxWord); err != nil {
		return err
	}
	if !m.null() && *dst == "" {
		return m.wrong("a word that is not empty, or absent")
	}
	return nil
}

// LinePointer reads a line for people whose absence means something.
func (m Member) LinePointer(dst **string) error {
	if m.null() {
		return nil
	}
	var s string
	if err := m.Text(&s); err != nil {
		return err
	}
	s = Line(s)
	*dst = &s
	return nil
}

// TextPointer reads a string whose absence means something, of any length.
func (m Member) TextPointer(dst **string) error {
	if m.null() {
		return nil
	}
	var s string
	if err := m.Bounded(&s, math.MaxInt); err != nil {
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
	var list []jsontext.Value
	d := jsontext.NewDecoder(bytes.NewBuffer(m.Raw), decoderOptions...)
	for _, err := d.ReadToken(); err == nil && d.PeekKind() != ']'; {
		var v jsontext.Value
		if v, err = d.ReadValue(); err == nil {
			list = append(list, v)
		}
	}
	if len(list) > maxWords {
		return conversation.Errorf(conversation.BadRequest, "%s must have at most %d items", m.Name, maxWords)
	}
	for _, v := range list {
		if v.Kind() != '"' {
			return m.wrong("a list of strings")
		}
		var word string
		if err := (Member{Name: m.Name, Raw: v}).Bounded(&word, maxWord); err != nil {
			return err
		}
		*dst = append(*dst, word)
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
	err := ReadObject(b, func(m Member) error {
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
// Names may come again: it is shown, not read.
func ValidJSON(b []byte) bool {
	return utf8.Valid(b) && jsontext.Value(b).IsValid(decoderOptions...) && !deeper(bytes.TrimSpace(b), maxNesting)
}
