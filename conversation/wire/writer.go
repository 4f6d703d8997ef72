package wire

import (
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// writer appends the messages of events.proto and store.proto, field after field
// in the order of their numbers; a field without a value is left out. Every
// commit of every session comes through here, and through the generated code it
// would first be copied into forty small pieces of memory.
type writer struct{ b []byte }

// newWriter adds to dst, behind the format byte.
func newWriter(dst []byte) writer { return writer{append(dst, format)} }

func (w *writer) uint(field protowire.Number, v uint64) {
	if v != 0 {
		w.optionalUint(field, v)
	}
}

// optionalUint also writes 0: for a field that may be absent.
func (w *writer) optionalUint(field protowire.Number, v uint64) {
	w.b = protowire.AppendTag(w.b, field, protowire.VarintType)
	w.b = protowire.AppendVarint(w.b, v)
}

func (w *writer) int(field protowire.Number, v int64) { w.uint(field, uint64(v)) }

func (w *writer) bool(field protowire.Number, v bool) {
	if v {
		w.optionalUint(field, 1)
	}
}

func (w *writer) time(field protowire.Number, t time.Time) {
	if !t.IsZero() {
		w.int(field, t.UnixMilli())
	}
}

func (w *writer) duration(field protowire.Number, d time.Duration) { w.int(field, d.Milliseconds()) }

func (w *writer) text(field protowire.Number, s string) {
	if s != "" {
		w.optionalText(field, s)
	}
}

// optionalText also writes an empty text: for a field that may be absent, and for
// lists. Texts of tools and of command-line models may hold any bytes, and a
// turn must not be lost for that: each byte that is not UTF-8 is replaced, as
// encoding/json does it, so that a client that reads the log sees what it was
// shown live.
func (w *writer) optionalText(field protowire.Number, s string) {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	w.b = protowire.AppendTag(w.b, field, protowire.BytesType)
	w.b = protowire.AppendString(w.b, s)
}

// bytes writes a value that need not be UTF-8.
func (w *writer) bytes(field protowire.Number, s string) {
	if s != "" {
		w.b = protowire.AppendTag(w.b, field, protowire.BytesType)
		w.b = protowire.AppendString(w.b, s)
	}
}

// appendTexts writes a repeated string.
func appendTexts[S ~string](w *writer, field protowire.Number, list []S) {
	for _, s := range list {
		w.optionalText(field, string(s))
	}
}

// appendEnums writes a repeated uint32, packed.
func appendEnums[E ~uint8](w *writer, field protowire.Number, list []E) {
	if len(list) == 0 {
		return
	}
	at := w.begin(field)
	for _, e := range list {
		w.b = protowire.AppendVarint(w.b, uint64(e))
	}
	w.end(at)
}

// begin starts a message within the message; end completes it.
func (w *writer) begin(field protowire.Number) (start int) {
	w.b = protowire.AppendTag(w.b, field, protowire.BytesType)
	w.b = append(w.b, 0) // the length: one byte is enough for most
	return len(w.b)
}

func (w *writer) end(start int) {
	n := len(w.b) - start
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		w.b = append(w.b, make([]byte, more)...)
		copy(w.b[start+more:], w.b[start:])
	}
	protowire.AppendVarint(w.b[:start-1], uint64(n))
}
