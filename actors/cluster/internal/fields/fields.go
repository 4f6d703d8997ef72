package fields

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// Number is that of a field. Numbers are those of all versions, and are never used again.
type Number = protowire.Number

var errUnreadable = errors.New("a message between nodes cannot be read")

// AppendNumber adds a number that is not 0.
func AppendNumber(b []byte, field Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// AppendFlag adds a flag that is set.
func AppendFlag(b []byte, field Number, v bool) []byte {
	if !v {
		return b
	}
	return AppendNumber(b, field, 1)
}

// AppendText adds a text that is not empty.
func AppendText[T ~string](b []byte, field Number, v T) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), string(v))
}

// AppendBytes adds bytes that are not nil. None are something else than nil.
func AppendBytes(b []byte, field Number, v []byte) []byte {
	if v == nil {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// SizeBytes is how many bytes AppendBytes adds for n of them.
func SizeBytes(field Number, n int) int { return protowire.SizeTag(field) + protowire.SizeBytes(n) }

// Read gives each field to set: its number, or its bytes, which share b's memory.
func Read(b []byte, set func(field Number, n uint64, v []byte)) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errUnreadable
		}
		b = b[n:]
		var number uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(b)
		default:
			if n = protowire.ConsumeFieldValue(field, kind, b); n >= 0 {
				b = b[n:]
				continue
			}
		}
		if n < 0 {
			return errUnreadable
		}
		b = b[n:]
		set(field, number, data)
	}
	return nil
}
