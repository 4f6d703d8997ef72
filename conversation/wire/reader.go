package wire

import (
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
)

// reader goes through one message, field by field:
//
//	for r.next() {
//		switch r.number {
//		case 1:
//			text(&r, &out.ID)
//
// It follows the rules of protobuf: a field with an unknown number, or of another
// wire type than the schema's, is passed over; of a field that comes twice the
// second value counts, lists grow, and messages are merged.
//
// Two kinds of things can be wrong. Damage (a field that is cut short, a text
// that is not UTF-8) ends the reading of everything, and is kept in one place
// for the whole record. A value that this program does not take (a number of an
// enumeration that it does not know) belongs to the message, which is read to its
// end: a later field may replace it.
type reader struct {
	rest []byte

	// The current field.
	number protowire.Number
	typ    protowire.Type
	value  uint64 // with VarintType
	bytes  []byte // with BytesType; part of the input

	damage  *error
	refused []refusal
}

// refusal is a field's value that cannot be taken.
type refusal struct {
	number protowire.Number
	err    error
}

// newReader reads an encoded value, which begins with the format byte. The first
// damage goes to *damage.
func newReader(b []byte, damage *error) reader {
	switch {
	case len(b) == 0:
		*damage = fmt.Errorf("%w: it is empty", ErrCorrupt)
	case b[0] != format:
		*damage = fmt.Errorf("%w: format %#02x", conversation.ErrTooNew, b[0])
	default:
		b = b[1:]
	}
	return reader{rest: b, damage: damage}
}

// next goes to the next field, and is false at the end and after damage.
func (r *reader) next() bool {
	if len(r.rest) == 0 || *r.damage != nil {
		return false
	}
	number, typ, n := protowire.ConsumeTag(r.rest)
	if n < 0 || number > protowire.MaxValidNumber {
		r.damaged("the tag after")
		return false
	}
	r.rest = r.rest[n:]
	r.number, r.typ = number, typ
	switch typ {
	case protowire.VarintType:
		r.value, n = protowire.ConsumeVarint(r.rest)
	case protowire.BytesType:
		r.bytes, n = protowire.ConsumeBytes(r.rest)
	default: // the schema has no such field
		n = protowire.ConsumeFieldValue(number, typ, r.rest)
	}
	if n < 0 {
		r.damaged("the value of")
		return false
	}
	r.rest = r.rest[n:]
	return true
}

func (r *reader) damaged(what string) {
	if *r.damage == nil {
		*r.damage = fmt.Errorf("%w: %s field %d, %d bytes before the end of its message", ErrCorrupt, what, r.number, len(r.rest))
	}
}

// refuse keeps an error for the current field until accept: of a list, the first
// element's.
func (r *reader) refuse(format string, args ...any) {
	if !slices.ContainsFunc(r.refused, func(e refusal) bool { return e.number == r.number }) {
		r.refused = append(r.refused, refusal{r.number, fmt.Errorf(format, args...)})
	}
}

// accept drops what was wrong with an earlier value of the current field.
func (r *reader) accept() {
	if r.refused != nil {
		r.refused = slices.DeleteFunc(r.refused, func(e refusal) bool { return e.number == r.number })
	}
}

// end returns the error, if any: damage, or else the refused field with the lowest number.
func (r *reader) end() error {
	switch {
	case *r.damage != nil:
		return *r.damage
	case len(r.refused) > 0:
		return slices.MinFunc(r.refused, func(a, b refusal) int { return int(a.number - b.number) }).err
	}
	return nil
}

// message reads the current field as a message; false if it is none.
func (r *reader) message() (reader, bool) {
	if r.typ != protowire.BytesType {
		return reader{}, false
	}
	return reader{rest: r.bytes, damage: r.damage}, true
}

// text reads a string.
func text[S ~string](r *reader, into *S) {
	if r.typ != protowire.BytesType {
		return
	}
	if !utf8.Valid(r.bytes) {
		r.damaged("text that is not UTF-8 in")
		return
	}
	*into = S(r.bytes)
}

// optionalText reads an optional string.
func optionalText(r *reader, into **string) {
	if r.typ == protowire.BytesType {
		*into = new(string)
		text(r, *into)
	}
}

// textList reads one element of a repeated string.
func textList[S ~string](r *reader, into *[]S) {
	if r.typ == protowire.BytesType {
		var s S
		text(r, &s)
		*into = append(*into, s)
	}
}

// opaque reads bytes.
func opaque(r *reader, into *string) {
	if r.typ == protowire.BytesType {
		*into = string(r.bytes)
	}
}

// unsigned reads a uint32 or uint64; of a number that is too large for it, the low bits.
func unsigned[N ~uint32 | ~uint64](r *reader, into *N) {
	if r.typ == protowire.VarintType {
		*into = N(r.value)
	}
}

// integer reads an int64.
func integer(r *reader, into *int) {
	if r.typ == protowire.VarintType {
		*into = int(int64(r.value))
	}
}

func boolean(r *reader, into *bool) {
	if r.typ == protowire.VarintType {
		*into = r.value != 0
	}
}

// moment reads a time: Unix milliseconds, 0 = no time.
func moment(r *reader, into *time.Time) {
	if r.typ != protowire.VarintType {
		return
	}
	*into = time.Time{}
	if ms := int64(r.value); ms != 0 {
		*into = time.UnixMilli(ms).UTC()
	}
}

// duration reads milliseconds.
func duration(r *reader, into *time.Duration) {
	if r.typ != protowire.VarintType {
		return
	}
	const most = math.MaxInt64 / int64(time.Millisecond)
	ms := int64(r.value)
	if r.accept(); ms > most || ms < -most {
		r.refuse("%w: a duration of %d ms", ErrCorrupt, ms)
		return
	}
	*into = time.Duration(ms) * time.Millisecond
}

// enum reads a number of an enumeration whose largest known one is last.
func enum[E ~uint8](r *reader, into *E, last E) {
	if r.typ == protowire.VarintType {
		r.accept()
		*into = known(r, r.value, last)
	}
}

// enumList reads a repeated enumeration, or one element of it that is not packed.
func enumList[E ~uint8](r *reader, into *[]E, last E) {
	switch r.typ {
	case protowire.VarintType:
		*into = append(*into, known(r, r.value, last))
	case protowire.BytesType:
		*into = slices.Grow(*into, len(r.bytes)) // each of them is a byte, unless it is unknown
		for b := r.bytes; len(b) > 0; {
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				r.damaged("a packed number of")
				return
			}
			b = b[n:]
			*into = append(*into, known(r, v, last))
		}
	}
}

func known[E ~uint8](r *reader, v uint64, last E) E {
	if uint32(v) > uint32(last) { // as with every uint32 of protobuf, the higher bits do not count
		r.refuse("%w: %T %d", conversation.ErrTooNew, last, uint32(v))
		return 0
	}
	return E(v)
}
