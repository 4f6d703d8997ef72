package gateway

import (
	"encoding/binary"
	"sync"
	"unicode/utf8"

	"parley/conversation"
)

// A frame is built once and its bytes are shared by every socket: the WebSocket
// header is part of them. An SSE stream and an events page take the payload out
// of the same bytes, so that all of them say exactly the same.

const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10

	finBit = 0x80

	headerRoom = 4 // enough for payloads up to 65,535 bytes; larger ones are moved
)

// appendFrame appends a whole unfragmented, unmasked frame whose payload is
// written by payload.
func appendFrame(dst []byte, op byte, payload func(dst []byte) []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = payload(dst)
	return sealFrame(dst, start, op)
}

// sealFrame writes the header of the frame whose room starts at start and whose
// payload ends with dst.
func sealFrame(dst []byte, start int, op byte) []byte {
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

// nextFrame takes the first frame off b, which appendFrame has built.
func nextFrame(b []byte) (op byte, payload, rest []byte) {
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

// closeFrame is a close frame with a reason cut to what a control frame can hold.
func closeFrame(code int, reason string) []byte {
	for len(reason) > 123 {
		_, size := utf8.DecodeLastRuneInString(reason)
		reason = reason[:len(reason)-size]
	}
	return appendFrame(nil, opClose, func(b []byte) []byte {
		b = append(b, byte(code>>8), byte(code))
		return append(b, reason...)
	})
}

// buffers holds scratch space for frames that are copied out before they are kept.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// maxPooled keeps one huge frame from staying in memory for ever.
const maxPooled = 128 << 10

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// frame builds the bytes of one text frame and returns them in memory of their own.
func textFrame(payload func(dst []byte) []byte) []byte {
	scratch := getBuffer()
	*scratch = appendFrame((*scratch)[:0], opText, payload)
	out := append([]byte(nil), *scratch...)
	putBuffer(scratch)
	return out
}

// appendOK appends the payload of a positive answer.
func appendOK(dst []byte, re string, data func(o *object)) []byte {
	dst = append(dst, `{"type":"ok","re":`...)
	dst = appendString(dst, re)
	dst = append(dst, `,"data":`...)
	o := open(dst)
	if data != nil {
		data(&o)
	}
	return append(o.close(), '}')
}

// appendError appends the payload of a refusal. Without known the frame could
// not be read, and re is null.
func appendError(dst []byte, re string, known bool, e *conversation.Error) []byte {
	dst = append(dst, `{"type":"error","re":`...)
	if known {
		dst = appendString(dst, re)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"error":`...)
	o := open(dst)
	o.text("code", string(e.Code))
	o.text("message", e.Message)
	o.bool("retryable", e.Retryable())
	if e.RetryAfter > 0 {
		o.int("retry_after_ms", max(1, e.RetryAfter.Milliseconds()))
	}
	if e.TaskStatus != 0 {
		o.text("task_status", e.TaskStatus.String())
	}
	return append(o.close(), '}')
}

// appendSynced appends the payload that ends a replay.
func appendSynced(dst []byte, session conversation.SessionID, head conversation.Seq) []byte {
	dst = append(dst, `{"type":"synced","session":`...)
	dst = appendString(dst, session)
	dst = append(dst, `,"data":{"head":`...)
	dst = appendUint(dst, head)
	return append(dst, "}}"...)
}
