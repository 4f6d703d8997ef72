package ws

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"parley/gateway/protocol"
)

// frames reads a client's WebSocket frames (RFC 6455, section 5) from its socket. It holds
// memory only while there is something to read: most connections are silent most of the
// time. It never writes: what has to be said about a frame is said by the writer.
type frames struct {
	conn    net.Conn
	raw     syscall.RawConn       // of conn, to wait without a buffer; nil = it cannot be done
	attempt func(fd uintptr) bool // tryRead, made once: it would be an allocation a read

	buf  *[]byte // of readBuffers; nil = nothing is there
	at   int     // of buf, what comes next
	err  error   // of tryRead
	open bool    // a message has begun and not ended

	key   [4]byte // the mask of the frame that is being read
	keyAt int
	left  int64 // of its payload
}

var readBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// newFrames reads from conn, and before that from what the HTTP library has read of it
// behind the request.
func newFrames(conn net.Conn, raw syscall.RawConn, early []byte) *frames {
	f := &frames{conn: conn}
	if canWait {
		f.raw = raw
	}
	f.attempt = f.tryRead
	if len(early) > 0 {
		f.buf = &early
	}
	return f
}

// early takes what the HTTP library has read of a connection behind the request, without
// waiting for more: its buffers need not be kept then. wrapper reads through them.
func early(wrapper, conn net.Conn) (read []byte) {
	if wrapper == conn || conn.SetReadDeadline(time.Now()) != nil {
		return nil
	}
	for {
		b := make([]byte, 4096)
		n, err := wrapper.Read(b)
		read = append(read, b[:n]...)
		if err != nil {
			_ = conn.SetReadDeadline(time.Time{})
			return read
		}
	}
}

// A frame's kind, besides those of package protocol.
const (
	opContinuation = 0
	opBinary       = 2
)

// frameError says how a client broke the protocol. It closes with 1002.
type frameError string

func (e frameError) Error() string { return string(e) }

// header is a frame's, without its mask.
type header struct {
	op     byte
	final  bool
	length int64
}

// next reads a frame's header. The payload of the one before must have been read.
func (f *frames) next() (header, error) {
	b, err := f.peek(2)
	if err != nil {
		return header{}, err
	}
	first, second := b[0], b[1]
	f.at += 2
	h := header{op: first & 0x0f, final: first&0x80 != 0, length: int64(second & 0x7f)}
	switch {
	case first&0x70 != 0:
		return h, frameError("a reserved bit is set")
	case second&0x80 == 0:
		return h, frameError("the frame is not masked")
	}
	switch h.op {
	case protocol.OpClose, protocol.OpPing, protocol.OpPong:
		if h.length > 125 || !h.final {
			return h, frameError("a control frame is too long or in pieces")
		}
	case protocol.OpText, opBinary:
		if f.open {
			return h, frameError("a message begins within another")
		}
		f.open = !h.final
	case opContinuation:
		if !f.open {
			return h, frameError("a message goes on that has not begun")
		}
		f.open = !h.final
	default:
		return h, frameError("unknown opcode")
	}
	if err := f.rest(&h); err != nil {
		return h, err
	}
	return h, nil
}

// rest reads the long form of a length, and the mask.
func (f *frames) rest(h *header) error {
	switch h.length {
	case 126:
		b, err := f.peek(2)
		if err != nil {
			return err
		}
		h.length = int64(binary.BigEndian.Uint16(b))
		f.at += 2
	case 127:
		b, err := f.peek(8)
		if err != nil {
			return err
		}
		n := binary.BigEndian.Uint64(b)
		if n>>63 != 0 {
			return frameError("the first bit of a length is set")
		}
		h.length = int64(n)
		f.at += 8
	}
	b, err := f.peek(4)
	if err != nil {
		return err
	}
	copy(f.key[:], b)
	f.at += 4
	f.keyAt, f.left = 0, h.length
	return nil
}

// payload appends the rest of the frame's payload to dst. Memory is taken as it comes, not
// as it is announced.
func (f *frames) payload(dst []byte) ([]byte, error) {
	for f.left > 0 {
		if _, err := f.peek(1); err != nil {
			return dst, err
		}
		b := (*f.buf)[f.at:]
		b = b[:min(int64(len(b)), f.left)]
		from := len(dst)
		if need := from + len(b); need > cap(dst) {
			dst = append(make([]byte, 0, max(512, need, 2*cap(dst))), dst...)
		}
		dst = append(dst, b...)
		f.unmask(dst[from:])
		f.at += len(b)
		f.left -= int64(len(b))
	}
	return dst, nil
}

// whole is the frame's payload, if all of it has come already. It is valid until the next
// call of anything.
func (f *frames) whole() (payload []byte, ok bool) {
	if f.left == 0 {
		return nil, true
	}
	if f.buf == nil || int64(len(*f.buf)-f.at) < f.left {
		return nil, false
	}
	payload = (*f.buf)[f.at : f.at+int(f.left)]
	f.unmask(payload)
	f.at += len(payload)
	f.left = 0
	return payload, true
}

// small is the payload of a control frame. It is valid until the next call of anything.
func (f *frames) small() ([]byte, error) {
	if f.left > 0 {
		if _, err := f.peek(int(f.left)); err != nil {
			return nil, err
		}
	}
	payload, _ := f.whole()
	return payload, nil
}

// skip reads over the rest of the frame's payload.
func (f *frames) skip() error {
	for f.left > 0 {
		if _, err := f.peek(1); err != nil {
			return err
		}
		n := min(int64(len(*f.buf)-f.at), f.left)
		f.at += int(n)
		f.left -= n
	}
	return nil
}

// drain reads until the connection ends: behind a frame that breaks the protocol nothing
// can be understood, but a client that is not read would not read our close frame either.
func (f *frames) drain() {
	for {
		if _, err := f.peek(1); err != nil {
			return
		}
		f.at = len(*f.buf)
	}
}

func (f *frames) unmask(b []byte) {
	if f.keyAt == 0 {
		key := uint64(binary.LittleEndian.Uint32(f.key[:]))
		key |= key << 32
		for len(b) >= 8 {
			binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^key)
			b = b[8:]
		}
	}
	for i := range b {
		b[i] ^= f.key[f.keyAt&3]
		f.keyAt++
	}
	f.keyAt &= 3
}

// peek returns the next n bytes, at least, reading as many as are needed. They are valid
// until the next call. n is at most 125, a control frame.
func (f *frames) peek(n int) ([]byte, error) {
	for {
		if f.buf != nil {
			if b := (*f.buf)[f.at:]; len(b) >= n {
				return b, nil
			}
		}
		if err := f.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads once, behind what is there.
func (f *frames) fill() error {
	if f.buf != nil {
		n := copy(*f.buf, (*f.buf)[f.at:])
		*f.buf, f.at = (*f.buf)[:n], 0
		if n == 0 {
			f.release()
		}
	}
	if f.raw != nil {
		if err := f.raw.Read(f.attempt); err != nil {
			return err
		}
		return f.err
	}
	f.acquire()
	n, err := f.conn.Read((*f.buf)[len(*f.buf):cap(*f.buf)])
	*f.buf = (*f.buf)[:len(*f.buf)+n]
	if n > 0 {
		return nil
	}
	return err
}

// took notes the result of a read into the buffer.
func (f *frames) took(n int, err error) {
	switch f.err = err; {
	case n > 0:
		*f.buf = (*f.buf)[:len(*f.buf)+n]
	case err == nil:
		f.err = io.EOF
	}
}

func (f *frames) acquire() {
	if f.buf == nil {
		f.buf, f.at = readBuffers.Get().(*[]byte), 0
	}
	if len(*f.buf) == cap(*f.buf) { // what came early was larger than it, or fills it
		grown := append(make([]byte, 0, len(*f.buf)+4096), *f.buf...)
		f.buf = &grown
	}
}

// release gives the empty buffer back.
func (f *frames) release() {
	if f.buf != nil && len(*f.buf) == 0 {
		if cap(*f.buf) == 4096 {
			readBuffers.Put(f.buf)
		}
		f.buf, f.at = nil, 0
	}
}

// closeCode reads the payload of a close frame: the code that answers it.
func closeCode(payload []byte) (int, error) {
	if len(payload) == 0 {
		return protocol.CloseNormal, nil
	}
	if len(payload) == 1 {
		return 0, frameError("a close frame of one byte")
	}
	code := int(binary.BigEndian.Uint16(payload))
	switch {
	case code >= 3000 && code <= 4999, code >= 1000 && code <= 1003, code >= 1007 && code <= 1014:
	default:
		return 0, frameError("a close code that may not be sent")
	}
	if !utf8.Valid(payload[2:]) {
		return 0, frameError("the reason of a close frame is not UTF-8")
	}
	return code, nil
}
