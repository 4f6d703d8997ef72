package protocol

import (
	"encoding/binary"
	"sync"
	"unicode/utf8"

	"parley/conversation"
)

// A frame is built once and its bytes are shared by every socket: the WebSocket
// header is part of them. An SSE stream and an events page take the payload out
// of the same bytes, so that all of them say exactly the same.

// The kinds of WebSocket frames (RFC 6455, section 5.2).
const (
	OpText  = 1
	OpClose = 8
	OpPing  = 9
	OpPong  = 10

	finBit = 0x80

	headerRoom = 4 // enough for payloads up to 65,535 bytes; larger ones are moved
)

// AppendFrame appends a whole unfragmented, unmasked frame whose payload is
// written by payload.
func AppendFrame(dst []byte, op byte, payload func(dst []byte) []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = payload(dst)
	return SealFrame(dst, start, op)
}

// SealFrame writes the header of the frame whose room starts at start and whose
// payload ends with dst.
func SealFrame(dst []byte, start int, op byte) []byte {
	body := start + headerRoom
	n := len(dst) - body
	switch {
	case n < 126:
		dst[start] = finBit | op
		dst[start+1] = byte(n)
		copy(dst[start+2:], dst[body:])
		return dst[:len(dst)-2]
	case n <= 0xffff:
		dst[start] = finBit | op
		dst[start+1] = 126
		binary.BigEndian.PutUint16(dst[start+2:], uint16(n))
		return dst
	default:
		dst = append(dst, 0, 0, 0, 0, 0, 0)
		copy(dst[body+6:], dst[body:body+n])
		dst[start] = finBit | op
		dst[start+1] = 127
		binary.BigEndian.PutUint64(dst[start+2:], uint64(n))
		return dst
	}
}

// AppendEventFrame appends the text frame of a durable event.
func AppendEventFrame(dst []byte, session conversation.SessionID, e *conversation.Event, redact bool) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	return SealFrame(AppendEvent(dst, session, e, redact), start, OpText)
}

// NextFrame takes the first frame off b, which AppendFrame has built.
func NextFrame(b []byte) (op byte, payload, rest []byte) {
	op = b[0] & 0x0f
	n, head := int(b[1]), 2
	switch n {
	case 126:
		n, head = int(binary.BigEndian.Uint16(b[2:])), 4
	case 127:
		n, head = int(binary.BigEndian.Uint64(b[2:])), 10
	}
	return op, b[head : head+n], b[head+n:]
}

// CloseFrame is a close frame with a reason cut to what a control frame can hold.
func CloseFrame(code int, reason string) []byte {
	for len(reason) > 123 {
		_, size := utf8.DecodeLastRuneInString(reason)
		reason = reason[:len(reason)-size]
	}
	return AppendFrame(nil, OpClose, func(b []byte) []byte {
		b = append(b, byte(code>>8), byte(code))
		return append(b, reason...)
	})
}

// buffers holds scratch space for frames that are copied out before they are kept.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// MaxPooled keeps one huge frame from staying in memory forever.
const MaxPooled = 128 << 10

// GetBuffer takes an empty buffer from the pool; PutBuffer gives it back.
func GetBuffer() *[]byte { return buffers.Get().(*[]byte) }

// PutBuffer gives a buffer back to the pool. It must not be used after that. One
// that has grown too large is left to the garbage collector.
func PutBuffer(b *[]byte) {
	if cap(*b) <= MaxPooled {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// TextFrame builds the bytes of one text frame and returns them in memory of their own.
func TextFrame(payload func(dst []byte) []byte) []byte {
	scratch := GetBuffer()
	*scratch = AppendFrame((*scratch)[:0], OpText, payload)
	out := append([]byte(nil), *scratch...)
	PutBuffer(scratch)
	return out
}
